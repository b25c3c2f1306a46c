"""Trains a judge: runs `recipes/train_judge.py` with a config, or says beforehand what it would do."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path

import torch
from trl import ModelConfig, SFTConfig

from medjudge.errors import InputError
from medjudge.files import read_yaml
from medjudge.judge.folder import JudgeCard, read_card
from medjudge.models.loading import load_config, load_tokenizer, window_of
from medjudge.shipped import config_file, shipped
from medjudge.train.arguments import JudgeArguments
from medjudge.train.command_line import parse_arguments
from medjudge.train.features import read_training_data
from medjudge.train.kinds import KINDS
from medjudge.train.measured_memory import measured_memory
from medjudge.train.memory import shape_of
from medjudge.train.plan import TrainingPlan, plan_of
from medjudge.train.start import starting_card

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
    words = _words(
        config,
        train_file=train_file,
        validation_file=validation_file,
        output_dir=output_dir,
        start_from=start_from,
        num_train_epochs=num_train_epochs,
        seed=seed,
    )
    folder = _recipe()(*parse_arguments([*words, *options]))
    return TrainedJudge(folder, read_card(folder))


def plan_training(
    config: str | Path,
    *,
    train_file: Path | None = None,
    validation_file: Path | None = None,
    start_from: Path | None = None,
    num_train_epochs: float | None = None,
    options: Sequence[str] = (),
) -> TrainingPlan:
    """Says what `train_judge` would do: it reads the files, the tokenizer and the base model's config.

    The arguments are those of `train_judge`. Without a GPU, and unless `use_cpu` is false, a generative judge takes two
    steps, and the memory is the peak of this process. Else no weights are loaded, and memory and time are for one GPU,
    whatever this machine has.

    Raises:
        InputError: Whatever is wrong with config, files or options, or the base model's config cannot be had.
    """
    words = _words(
        config,
        train_file=train_file,
        validation_file=validation_file,
        start_from=start_from,
        num_train_epochs=num_train_epochs,
    )
    without_gpu = () if torch.cuda.is_available() else ("--use_cpu", "true")
    parsed = parse_arguments([*words, *options, *without_gpu])
    judge, model, training = parsed
    if judge.start_folder is not None:
        starting_card(judge.start_folder, judge.kind, model)
    if not model.model_name_or_path:
        raise InputError("config: model_name_or_path is missing; name the base model")
    before = read_training_data(judge)
    tokenizer = load_tokenizer(model.model_name_or_path, model.model_revision)
    base = load_config(model.model_name_or_path, model.model_revision)
    training.max_length = min(training.max_length or 1024, window_of(base))
    data = KINDS[judge.kind].with_room(judge, training, tokenizer, before)
    name = Path(str(config)).stem
    if data.encoded[0] and without_gpu and _trains_here([*words, *options]):
        return plan_of(name, parsed, before, data, None, measured_memory(parsed, tokenizer, data))
    return plan_of(name, parsed, before, data, shape_of(base, model) if data.encoded[0] else None)


def _trains_here(words: Sequence[str]) -> bool:
    """Whether a config and what overrides it leave open that training is on a CPU."""
    in_config = read_yaml(Path(words[1])).get("use_cpu", True)
    return str(dict(pairwise(words)).get("--use_cpu", in_config)).lower() != "false"


def _words(config: str | Path, **overrides: Path | float | None) -> list[str]:
    """The command line of the recipe."""
    words = ["--config", str(config_file(str(config)))]
    for name, value in overrides.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    return words


def _recipe() -> Recipe:
    """`main` of the recipe: a script outside of the package, so it is loaded from its file."""
    spec = spec_from_file_location("medjudge_recipe_train_judge", shipped("recipes/train_judge.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Recipe = module.main
    return main
