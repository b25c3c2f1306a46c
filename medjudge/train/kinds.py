"""The kinds of judges in training, one entry for each."""

from collections.abc import Callable
from typing import Any, NamedTuple

from transformers import PreTrainedTokenizerBase

from medjudge.train.arguments import TrainableKind, TrainingConfig
from medjudge.train.features import TrainingData, TrainingRows
from medjudge.train.generative import generative_rows, generative_trainer
from medjudge.train.ordinal import ordinal_rows, ordinal_trainer


class KindInTraining(NamedTuple):
    """One kind of judge in training: `rows` encodes the lines that it can read in its window, `trainer` reads them."""

    rows: Callable[[TrainingConfig, PreTrainedTokenizerBase, TrainingData], TrainingRows]
    trainer: Callable[[TrainingConfig, PreTrainedTokenizerBase, TrainingRows], Any]


KINDS: dict[TrainableKind, KindInTraining] = {
    "ordinal": KindInTraining(ordinal_rows, ordinal_trainer),
    "generative": KindInTraining(generative_rows, generative_trainer),
}
