"""The kinds of judges in training, one entry for each."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from trl import ModelConfig, SFTConfig

from medjudge.train.arguments import JudgeArguments, TrainableKind
from medjudge.train.features import TrainingData, data_with_room
from medjudge.train.generative import generative_datasets, generative_trainer, save_generative
from medjudge.train.ordinal import ordinal_datasets, ordinal_trainer, save_ordinal
from medjudge.train.temperature import AtTemperature, generative_levels, ordinal_levels


class KindInTraining(NamedTuple):
    """One kind of judge in training.

    Attributes:
        with_room: Gives the lines that the judge can read in its window.
        datasets: Gives the rows of training and validation that the trainer reads.
        trainer: Puts model and data into the Trainer that knows the loss.
        levels: Gives level probabilities of what the trainer predicts.
        save: Writes all of a judge folder but its card; every process calls it.
    """

    with_room: Callable[[JudgeArguments, SFTConfig, PreTrainedTokenizerBase, TrainingData], TrainingData]
    datasets: Callable[[JudgeArguments, SFTConfig, PreTrainedTokenizerBase, TrainingData], tuple[Dataset, Dataset]]
    trainer: Callable[[JudgeArguments, ModelConfig, SFTConfig, PreTrainedTokenizerBase, TrainingData], Any]
    levels: AtTemperature
    save: Callable[[Any, PreTrainedTokenizerBase, Path], None]


KINDS: dict[TrainableKind, KindInTraining] = {
    "ordinal": KindInTraining(
        with_room=lambda judge, training, tokenizer, data: data,  # it cuts what its windows do not hold
        datasets=ordinal_datasets,
        trainer=ordinal_trainer,
        levels=ordinal_levels,
        save=save_ordinal,
    ),
    "generative": KindInTraining(
        with_room=data_with_room,
        datasets=generative_datasets,
        trainer=generative_trainer,
        levels=generative_levels,
        save=save_generative,
    ),
}
