"""Trains a judge: runs `recipes/train_judge.py` with a config."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

from trl import ModelConfig, SFTConfig

from medjudge.judge.folder import JudgeCard, read_card
from medjudge.shipped import config_file, shipped
from medjudge.train.arguments import JudgeArguments
from medjudge.train.command_line import parse_arguments

Recipe = Callable[[JudgeArguments, ModelConfig, SFTConfig], Path]


@dataclass(frozen=True)
class TrainedJudge:
    """A judge that was just trained."""

    folder: Path
    card: JudgeCard

    @property
    def validation(self) -> dict[str, float]:
        """Loss and agreement with the validation file, which chose the checkpoint: a check, not an estimate."""
        return {name.removeprefix("eval_"): value for name, value in self.card.training["validation"].items()}

    def __str__(self) -> str:
        measures = ", ".join(f"{name.replace('_', ' ')} {value:.2f}" for name, value in self.validation.items())
        return f"judge {self.folder}: {self.card.kind}, {self.card.base_model}; on the validation file {measures}"

    __repr__ = __str__


def train_judge(
    config: str | Path,
    *,
    train_file: Path | None = None,
    validation_file: Path | None = None,
    output_dir: Path | None = None,
    start_from: Path | None = None,
    num_train_epochs: float | None = None,
    seed: int | None = None,
    options: Sequence[str] = (),
) -> TrainedJudge:
    """Trains a judge by a config and writes its folder.

    Args:
        config: The name of a shipped config, such as `minilm-ordinal`, or a YAML file. What is given here overrides it.
        train_file: `train.jsonl` of `distill_training_set`.
        validation_file: Its `validation.jsonl`, which chooses the checkpoint.
        output_dir: The judge folder to write.
        start_from: A judge folder that training continues from.
        num_train_epochs: Passes over the training set.
        seed: Random seed.
        options: Further options, as on the recipe's command line: `("--learning_rate", "1e-4", "--resume")`.

    Raises:
        InputError: Whatever is wrong with config, files, options or models.
    """
    overrides: dict[str, Path | float | None] = {
        "train_file": train_file,
        "validation_file": validation_file,
        "output_dir": output_dir,
        "start_from": start_from,
        "num_train_epochs": num_train_epochs,
        "seed": seed,
    }
    words = ["--config", str(config_file(str(config)))]
    for name, value in overrides.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    folder = _recipe()(*parse_arguments([*words, *options]))
    return TrainedJudge(folder, read_card(folder))


def _recipe() -> Recipe:
    """`main` of the recipe: a script outside of the package, so it is loaded from its file."""
    spec = spec_from_file_location("medjudge_recipe_train_judge", shipped("recipes/train_judge.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Recipe = module.main
    return main
