"""The kinds of judges in training, one entry for each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl import ModelConfig, SFTConfig

from medjudge.judge.folder import JudgeCard
from medjudge.train.arguments import JudgeArguments, TrainableKind
from medjudge.train.features import TrainingData, data_with_room
from medjudge.train.generative import generative_datasets, generative_trainer, save_generative
from medjudge.train.ordinal import ordinal_datasets, ordinal_trainer, save_ordinal
from medjudge.train.temperature import AtTemperature, generative_levels, ordinal_levels


class KindInTraining(NamedTuple):
    """One kind of judge."""

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
        under_zero3=False,
        with_room=lambda judge, training, tokenizer, data: data,  # it cuts what its windows do not hold
        datasets=ordinal_datasets,
        trainer=ordinal_trainer,
        levels=ordinal_levels,
        objective=lambda judge: "ordinal",
        save=save_ordinal,
    ),
    "generative": KindInTraining(
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
