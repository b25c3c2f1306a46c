"""Reads a training config, and the command line over it."""

import sys
from collections.abc import Sequence
from dataclasses import fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import torch
import yaml
from transformers.trainer_utils import IntervalStrategy, SaveStrategy
from trl import ModelConfig, SFTConfig, TrlParser

from medjudge.errors import InputError
from medjudge.files import read_yaml
from medjudge.models.hardware import cpu_has_bf16, gpu_has_bf16
from medjudge.train.arguments import JudgeArguments
from medjudge.train.checkpoints import CHECKPOINTS
from medjudge.train.checks import deepspeed_on_cpu, under_deepspeed
from medjudge.train.kinds import require_own_options


class TrainingConfig(NamedTuple):
    """The whole configuration of a training run."""

    judge: JudgeArguments
    model: ModelConfig
    training: SFTConfig


def parse_arguments(arguments: Sequence[str] | None = None) -> TrainingConfig:
    """Reads the YAML named by `--config`, then the command line over it.

    Args:
        arguments: The command line; None for that of this process.

    Raises:
        InputError: The file is missing, is no YAML mapping, names an option that does not exist or one that the kind
            of judge does not read; or DeepSpeed was asked for on a machine without a GPU.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = TrlParser([JudgeArguments, ModelConfig, SFTConfig], allow_abbrev=False)
    parser.error = _refuse  # argparse would print 140 lines of usage
    if under_deepspeed() and not torch.cuda.is_available() and not deepspeed_on_cpu():
        _refuse("DeepSpeed needs a GPU, and torch sees none here; set DS_ACCELERATOR=cpu, or launch with two-cpu.yaml")
    if words[-1:] == ["--config"]:
        _refuse("--config: no file named")
    parser.set_defaults(**_machine_defaults())
    try:
        options = named_options(words)
        _require_known(options)
        parsed = TrainingConfig(*parser.parse_args_and_config(words))
    except (OSError, ValueError, yaml.YAMLError) as error:
        _refuse(str(error))
    require_own_options(parsed.judge, options)
    return parsed


def _require_known(options: frozenset[str]) -> None:
    """Refuses an option that does not exist, and names the nearest one."""
    known = {field.name for part in (JudgeArguments, ModelConfig, SFTConfig) for field in fields(part)}
    for option in sorted(options - known - {"config", "env", "help"}):
        near = get_close_matches(option.removeprefix("no_"), known, n=1)
        if not near or near[0] != option.removeprefix("no_"):
            hint = f"did you mean --{near[0]}?" if near else "leave it out"
            _refuse(f"there is no option --{option}; {hint}")


def _refuse(message: str) -> NoReturn:
    raise InputError(f"config: {' '.join(message.split())[:300]}")


def named_options(words: Sequence[str]) -> frozenset[str]:
    """The names that the command line and its config set, whatever to."""
    names = {word[2:].split("=")[0].replace("-", "_") for word in words if word.startswith("--")}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        if word == "--config":
            config = read_yaml(Path(following))
            if not isinstance(config, dict):
                _refuse(f"{following} must contain a YAML mapping of options, such as learning_rate: 1e-4")
            names |= set(config)
    return frozenset(names)


def _machine_defaults() -> dict[str, Any]:
    """Defaults for this machine and this task, below what the config says."""
    has_gpu = torch.cuda.is_available()
    return {
        "use_cpu": not has_gpu and not deepspeed_on_cpu(),
        "ddp_backend": "gloo" if deepspeed_on_cpu() else None,
        "bf16": gpu_has_bf16() if has_gpu else cpu_has_bf16() and not deepspeed_on_cpu(),
        "gradient_checkpointing": False,
        "eval_strategy": "epoch",
        "eval_on_start": None,  # see the recipe
        "save_strategy": "best",
        "save_total_limit": 1,
        "load_best_model_at_end": None,  # see with_defaults
        "metric_for_best_model": "quadratic_kappa",
        "disable_tqdm": not sys.stderr.isatty(),
    }


def with_defaults(training: SFTConfig, folder: Path) -> SFTConfig:
    """Sets what no config chooses: checkpoints lie in the judge folder, the best one wins, nothing is reported online.

    Args:
        training: Changed and returned.
        folder: The judge folder.
    """
    training.output_dir = str(folder / CHECKPOINTS)
    training.report_to = []
    training.logging_nan_inf_filter = False  # it would hide a loss that is not a number
    if training.load_best_model_at_end is None:
        # Wherever every checkpoint is evaluated; a config with steps of its own may say otherwise.
        same_steps = training.save_strategy == training.eval_strategy and (
            training.save_strategy != SaveStrategy.STEPS or training.save_steps % training.eval_steps == 0
        )
        evaluated = training.eval_strategy != IntervalStrategy.NO
        training.load_best_model_at_end = evaluated and (same_steps or training.save_strategy == SaveStrategy.BEST)
    return training
