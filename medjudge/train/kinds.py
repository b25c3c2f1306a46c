"""The kinds of judges in training, one entry for each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl import ModelConfig, SFTConfig

from medjudge.errors import InputError
from medjudge.judge.folder import JudgeCard
from medjudge.train.arguments import JudgeArguments, TrainableKind
from medjudge.train.features import TrainingData, data_with_room
from medjudge.train.generative import generative_datasets, generative_trainer, save_generative
from medjudge.train.ordinal import ordinal_datasets, ordinal_trainer, save_ordinal
from medjudge.train.temperature import AtTemperature, generative_levels, ordinal_levels

_QUANTIZED = (
    "load_in_4bit",
    "load_in_8bit",
    "bnb_4bit_quant_type",
    "use_bnb_nested_quant",
    "bnb_4bit_quant_storage",
)


class KindInTraining(NamedTuple):
    """One kind of judge."""

    own_options: frozenset[str]
    """Names in JudgeArguments, ModelConfig and SFTConfig that only this kind reads."""
    under_zero3: bool
    """True if it can be trained under DeepSpeed's ZeRO-3."""
    with_room: Callable[[JudgeArguments, SFTConfig, PreTrainedTokenizerBase, TrainingData], TrainingData]
    """The lines that the judge can read in its window."""
    datasets: Callable[[JudgeArguments, SFTConfig, PreTrainedTokenizerBase, TrainingData], tuple[Dataset, Dataset]]
    """The rows of training and validation that the trainer reads."""
    trainer: Callable[[JudgeArguments, ModelConfig, SFTConfig, PreTrainedTokenizerBase, TrainingData], Any]
    """Model and data in the Trainer that knows the loss."""
    levels: AtTemperature
    objective: Callable[[JudgeArguments], str | dict[str, float]]
    """The loss, as the judge card names it."""
    save: Callable[[Any, PreTrainedTokenizerBase, JudgeCard, Path], None]
    """Writes all of a judge folder but its card; every process calls it."""


KINDS: dict[TrainableKind, KindInTraining] = {
    "ordinal": KindInTraining(
        own_options=frozenset({"windows", "points_weight", "only_languages"}),
        under_zero3=False,
        with_room=lambda judge, training, tokenizer, data: data,  # it cuts what its windows do not hold
        datasets=ordinal_datasets,
        trainer=ordinal_trainer,
        levels=ordinal_levels,
        objective=lambda judge: "ordinal",
        save=save_ordinal,
    ),
    "generative": KindInTraining(
        own_options=frozenset(
            {
                *("style", "score_loss_weight", "regression_weight", "packing", "share_prefixes", "pack_length"),
                *("use_liger_kernel", "dtype"),
                *_QUANTIZED,
            }
        ),
        under_zero3=True,
        with_room=data_with_room,
        datasets=generative_datasets,
        trainer=generative_trainer,
        levels=generative_levels,
        objective=lambda judge: {
            "score_loss_weight": judge.score_loss_weight,
            "regression_weight": judge.regression_weight,
        },
        save=save_generative,
    ),
}
_OF_NO_KIND = frozenset(
    {
        *("lora_target_parameters", "lora_modules_to_save", "lora_task_type", "model_init_kwargs", "trust_remote_code"),
        *("dataset_text_field", "dataset_kwargs", "dataset_num_proc", "shuffle_dataset", "truncation_mode"),
        *("packing_strategy", "eval_packing", "pad_to_multiple_of"),
        *("loss_type", "completion_only_loss", "assistant_only_loss"),
    }
)
"""TRL's options for data sets, losses and adapters, in whose place judges have their own."""


def require_own_options(judge: JudgeArguments, options: frozenset[str]) -> None:
    """Refuses options that the kind of judge does not read.

    Args:
        options: The names that a config or command line sets.

    Raises:
        InputError: There is such an option, or no such kind of judge.
    """
    if judge.kind not in KINDS:
        raise InputError(f"config: kind is '{judge.kind}'; take {' or '.join(KINDS)}")
    for kind, entry in KINDS.items():
        if kind != judge.kind and (foreign := sorted(options & entry.own_options)):
            raise InputError(
                f"config: {', '.join(foreign)} is for {kind} judges, and kind is {judge.kind}; leave it out"
            )
    if unread := sorted(options & _OF_NO_KIND):
        raise InputError(f"config: {', '.join(unread)} has no effect on a judge; leave it out")
