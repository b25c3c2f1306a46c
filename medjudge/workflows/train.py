"""Trains a judge: runs `recipes/train_judge.py` with a config, or says beforehand what it would do."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from typing import TypedDict

import torch
from filelock import FileLock
from trl import ModelConfig, SFTConfig
from typing_extensions import Unpack

from medjudge.benchmark.sample import sample_folder
from medjudge.errors import InputError
from medjudge.files import read_yaml
from medjudge.judge.folder import JudgeCard, read_card
from medjudge.models.loading import in_hub_cache, load_tokenizer, window
from medjudge.screen import say
from medjudge.shipped import config_file, shipped
from medjudge.train.adapters import starting_card
from medjudge.train.arguments import JudgeArguments, parse_arguments
from medjudge.train.features import read_training_data
from medjudge.train.plan import TrainingPlan, plan_of
from medjudge.workflows.distill import TRAIN_FILE, VALIDATION_FILE, DistillOptions, distill_training_set

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


class Overrides(TypedDict, total=False):
    """Values that override those of a config, see `train_judge`; None leaves them as they are."""

    train_file: Path | None
    validation_file: Path | None
    output_dir: Path | None
    start_from: Path | None
    num_train_epochs: float | None
    seed: int | None


def train_judge(
    config: str | Path | None = None, *, options: Sequence[str] = (), **overrides: Unpack[Overrides]
) -> TrainedJudge:
    """Trains a judge by a config and writes its folder.

    Args:
        config: The name of a shipped config, such as `minilm-ordinal`, or a YAML file. None for the default
            (`with_defaults_named`).
        options: Further options, as on the recipe's command line: `("--learning_rate", "1e-4", "--resume")`.
        overrides: Keywords that override values of the config, as follows.
        train_file: `train.jsonl` of `distill_training_set`.
        validation_file: Its `validation.jsonl`, which chooses the checkpoint.
        output_dir: The judge folder to write.
        start_from: A judge folder that training continues from, or `built-in`.
        num_train_epochs: Passes over the training set.
        seed: Random seed.

    Raises:
        InputError: Whatever is wrong with config, files, options or models.
    """
    folder = _recipe()(*parse_arguments(_words(config, overrides, options)))
    return TrainedJudge(folder, read_card(folder))


def plan_training(
    config: str | Path | None = None, *, options: Sequence[str] = (), **overrides: Unpack[Overrides]
) -> TrainingPlan:
    """Plan what `train_judge`, with the same arguments, would do.

    Where `use_cpu` is false and there is no GPU, no weights are loaded, and memory and time are left open.

    Raises:
        InputError: Whatever is wrong with config, files or options, or the base model's config cannot be had.
    """
    words = _words(config, overrides, options)
    no_gpu = not torch.cuda.is_available()
    parsed = parse_arguments([*words, *(("--use_cpu", "true") if no_gpu else ())])
    judge, model, training = parsed
    if judge.start_folder is not None:
        starting_card(judge.start_folder, judge.kind, model)
    if not model.model_name_or_path:
        raise InputError("config: model_name_or_path is missing; name the base model")
    before = read_training_data(judge)
    tokenizer = load_tokenizer(model.model_name_or_path, model.model_revision)
    longest = window(model.model_name_or_path, model.model_revision)
    training.max_length = min(training.max_length or 1024, longest)
    file = Path(words[words.index("--config") + 1])
    for_gpu = str(dict(pairwise(words)).get("--use_cpu", read_yaml(file).get("use_cpu"))).lower() == "false"
    return plan_of(file.stem, parsed, tokenizer, before, here=not (no_gpu and for_gpu))


_ON_GPU = {"qwen3-4b-lora": 24, "qwen3-1.7b-lora": 16, "qwen3-0.6b-lora": 8}
"""Shipped configs and the GiB that their GPU needs, largest first."""
DEFAULT_CONFIG = "gemma3-270m-lora"
"""Its base model comes as a package, so that it works on any machine."""
DEFAULT_DATA, SAMPLE_DATA = Path("data"), Path("data/sample")


def default_config() -> str:
    """The config of a training run that names none: the largest for this GPU whose base model is on this machine."""
    memory = torch.cuda.get_device_properties(0).total_memory / 2**30 if torch.cuda.is_available() else 0.0
    for config, needed in _ON_GPU.items():
        # A card of 16 GiB reports a little less.
        if memory >= 0.95 * needed and in_hub_cache(_base_of(config)):
            return config
    return DEFAULT_CONFIG


def _base_of(config: str) -> str:
    return str(read_yaml(config_file(config))["model_name_or_path"])


def with_defaults_named(words: Sequence[str]) -> list[str]:
    """The command line of the recipe, completed where it names no config, and where there is no training set.

    Without `--config`, `default_config` is taken. Where the command line names no training file either and
    `medjudge distill` wrote none to `data`, the bundled sample is distilled into `data/sample`. One line says which.

    Raises:
        InputError: The sample's training set cannot be written.
    """
    names = {word.split("=")[0].replace("-", "_") for word in words}
    if names & {"__config", "__kind"}:  # the whole config may be on the command line
        return list(words)
    config = default_config()
    completed = ["--config", str(config_file(config)), *words]
    named = "__train_file" in names
    if named or (DEFAULT_DATA / TRAIN_FILE).exists():
        data = "the training file named" if named else str(DEFAULT_DATA / TRAIN_FILE)
    else:
        _distil_sample()
        files = SAMPLE_DATA / TRAIN_FILE, SAMPLE_DATA / VALIDATION_FILE
        completed += ["--train_file", str(files[0]), "--validation_file", str(files[1])]
        data = f"{files[0]}, distilled from the bundled sample, which no physician scored"
    if int(os.environ.get("RANK", "0")) == 0:
        say(f"no --config: training {config} on {_base_of(config)}, from {data}")
    return completed


def _distil_sample() -> None:
    """Makes the training set of the bundled sample on first use; a share of it is held out to validate on."""
    SAMPLE_DATA.mkdir(parents=True, exist_ok=True)
    # Several processes may train together: the first one distils.
    with FileLock(SAMPLE_DATA / ".lock"):
        if not (SAMPLE_DATA / VALIDATION_FILE).exists():
            distill_training_set([sample_folder()], SAMPLE_DATA, options=DistillOptions(hold_out=0.3))


def _words(config: str | Path | None, overrides: Overrides, options: Sequence[str]) -> list[str]:
    """The command line of the recipe."""
    words = [] if config is None else ["--config", str(config_file(str(config)))]
    for name, value in overrides.items():
        if value is not None:
            words += [f"--{name}", str(value)]
    return with_defaults_named([*words, *options])


def _recipe() -> Recipe:
    """`main` of the recipe: a script outside of the package, so it is loaded from its file."""
    spec = spec_from_file_location("medjudge_recipe_train_judge", shipped("recipes/train_judge.py"))
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    main: Recipe = module.main
    return main
