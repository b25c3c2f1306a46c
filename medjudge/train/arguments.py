"""The configuration of a training run: options of judges and TRL's, read from a YAML file and the command line."""

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, NamedTuple, NoReturn, get_args

import torch
import yaml
from transformers.trainer_utils import IntervalStrategy, SaveStrategy
from trl import ModelConfig, SFTConfig, TrlParser

from medjudge.errors import InputError
from medjudge.files import read_yaml
from medjudge.judge.open import BUILT_IN
from medjudge.models.hardware import cpu_has_bf16, gpu_has_bf16

TrainableKind = Literal["ordinal", "generative"]
TrainableStyle = Literal["score-first", "brief"]
TRAINABLE_STYLES: tuple[TrainableStyle, ...] = get_args(TrainableStyle)
CHECKPOINTS, TENSORBOARD = "checkpoints", "training/tensorboard"
"""Folders within the judge folder."""

_OWN_OPTIONS: dict[TrainableKind, frozenset[str]] = {
    "ordinal": frozenset({"windows", "points_weight", "only_languages"}),
    "generative": frozenset(
        {
            *("style", "score_loss_weight", "regression_weight", "packing", "share_prefixes", "pack_length"),
            *("use_liger_kernel", "dtype", "load_in_4bit"),
            *("bnb_4bit_quant_type", "use_bnb_nested_quant", "bnb_4bit_quant_storage"),
        }
    ),
}
"""Options that only one kind of judge reads."""
_OF_NO_KIND = frozenset(
    {
        *("lora_target_parameters", "lora_modules_to_save", "lora_task_type", "model_init_kwargs", "trust_remote_code"),
        *("dataset_text_field", "dataset_kwargs", "dataset_num_proc", "shuffle_dataset", "truncation_mode"),
        *("packing_strategy", "eval_packing", "pad_to_multiple_of", "load_in_8bit"),
        *("loss_type", "completion_only_loss", "assistant_only_loss"),
    }
)
"""TRL's options for data sets, losses and adapters, in whose place judges have their own."""


@dataclass
class JudgeArguments:
    """Kind, data and losses of a judge; model and trainer options are TRL's ModelConfig and SFTConfig."""

    kind: TrainableKind = field(metadata={"help": "cumulative-link head, or score token of a causal LM"})
    train_file: str = field(metadata={"help": "train.jsonl of medjudge distill"})
    validation_file: str = field(metadata={"help": "validation.jsonl of medjudge distill"})
    resume: bool = field(default=False, metadata={"help": "continue from the last checkpoint"})
    save_minutes: float = field(
        default=10.0, metadata={"help": "minutes between checkpoints, in addition to save_strategy; 0 for none"}
    )
    start_from: str | None = field(default=None, metadata={"help": "judge folder to continue from, or built-in"})
    windows: int = field(
        default=4,
        metadata={"help": "of an ordinal judge: most stretches of an answer that it reads, each within max_length"},
    )
    points_weight: float = field(
        default=1.0, metadata={"help": "of an ordinal judge: weight of the cross-entropy of verdicts on points"}
    )
    only_languages: list[str] | None = field(
        default=None, metadata={"help": "of an ordinal judge: it leaves texts in other languages unscored"}
    )
    style: TrainableStyle = field(
        default="score-first",
        metadata={"help": "of a generative judge: score first, or brief (score first, without the rubric)"},
    )
    share_prefixes: bool = field(
        default=False,
        metadata={"help": "of a generative judge: packs hold once what their lines begin with; with packing"},
    )
    pack_length: int | None = field(
        default=None,
        metadata={"help": "of a generative judge: tokens of packs with shared prefixes that mix questions"},
    )
    upper_layers: int | None = field(
        default=None,
        metadata={"help": "of a new adapter: how many of the base model's last layers are trained; all by default"},
    )
    score_loss_weight: float = field(
        default=1.0, metadata={"help": "of a generative judge: weight of the cross-entropy over the five levels"}
    )
    regression_weight: float = field(
        default=1.0, metadata={"help": "of a generative judge: weight of the expected level's squared error"}
    )

    @property
    def start_folder(self) -> Path | None:
        """The folder that `start_from` names; `built-in` is the package's."""
        if self.start_from is None:
            return None
        return BUILT_IN if self.start_from == "built-in" else Path(self.start_from)


class TrainingConfig(NamedTuple):
    """The whole configuration of a training run."""

    judge: JudgeArguments
    model: ModelConfig
    training: SFTConfig


def parse_arguments(arguments: Sequence[str] | None = None) -> TrainingConfig:
    """Reads the YAML named by `--config`, then the command line over it: these arguments, or those of this process.

    Raises:
        InputError: The file is missing, is no YAML mapping, names an option that does not exist or one that the kind
            of judge does not read; or DeepSpeed was asked for on a machine without a GPU.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    parser = TrlParser([JudgeArguments, ModelConfig, SFTConfig], allow_abbrev=False)
    parser.error = _refuse  # argparse would print 140 lines of usage
    under_deepspeed = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
    if under_deepspeed and not torch.cuda.is_available() and not deepspeed_on_cpu():
        _refuse("DeepSpeed needs a GPU, and torch sees none here; set DS_ACCELERATOR=cpu, or launch with two-cpu.yaml")
    if words[-1:] == ["--config"]:
        _refuse("--config: no file named")
    parser.set_defaults(**_machine_defaults())
    try:
        options = _named_options(words)
        _require_known(options)
        parsed = TrainingConfig(*parser.parse_args_and_config(words))
    except (OSError, ValueError, yaml.YAMLError) as error:
        _refuse(str(error))
    _require_own_options(parsed.judge, options)
    return parsed


def deepspeed_on_cpu() -> bool:
    """True if `accelerate launch` started this process with DeepSpeed, and the user chose its CPU accelerator."""
    return os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true" and os.environ.get("DS_ACCELERATOR") == "cpu"


def _require_own_options(judge: JudgeArguments, options: frozenset[str]) -> None:
    """Refuses an unknown kind of judge, and options that the kind does not read."""
    if judge.kind not in _OWN_OPTIONS:
        raise InputError(f"config: kind is '{judge.kind}'; take {' or '.join(_OWN_OPTIONS)}")
    for kind, own in _OWN_OPTIONS.items():
        if kind != judge.kind and (foreign := sorted(options & own)):
            raise InputError(
                f"config: {', '.join(foreign)} is for {kind} judges, and kind is {judge.kind}; leave it out"
            )
    if unread := sorted(options & _OF_NO_KIND):
        raise InputError(f"config: {', '.join(unread)} has no effect on a judge; leave it out")


def _require_known(options: frozenset[str]) -> None:
    """Refuses an option that does not exist, and names the nearest one."""
    known = {field.name for part in (JudgeArguments, ModelConfig, SFTConfig) for field in fields(part)}
    for option in sorted(options - known - {f"no_{name}" for name in known} - {"config", "env", "help"}):
        near = get_close_matches(option, known, n=1)
        _refuse(f"there is no option --{option}; {f'did you mean --{near[0]}?' if near else 'leave it out'}")


def _refuse(message: str) -> NoReturn:
    raise InputError(f"config: {' '.join(message.split())[:300]}")


def _named_options(words: Sequence[str]) -> frozenset[str]:
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
        "load_best_model_at_end": None,  # see set_defaults
        "metric_for_best_model": "quadratic_kappa",
    }


def set_defaults(training: SFTConfig, folder: Path) -> None:
    """Sets what no config chooses: checkpoints lie in the judge folder, the best wins, nothing is reported online."""
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
