"""Which models are shown to be worse than the best one? Paired, over the same conversations."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from medjudge.records import Question
from medjudge.statistics.bootstrap import RESAMPLES, Sums, bootstrap, dense_tally
from medjudge.statistics.estimates import wilson
from medjudge.statistics.measures import divided
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS


class Difference(NamedTuple):
    """A model's usability rate less that of the best one, in percentage points, with its 95 % interval."""

    value: float
    low: float
    high: float
    tie: bool


def ties(questions: Sequence[Question], usable: Mapping[str, np.ndarray]) -> dict[str, Difference]:
    """Each model's difference from the best one on some questions; empty where there is nothing to compare.

    Args:
        usable: Name -> whether the model's answer to each question is usable, shape (questions,).
    """
    if len(usable) < 2 or not questions:
        return {}
    groups = np.array([question.group for question in questions], dtype=object).astype(str)
    return dict(zip(usable, differences_from_best(np.array(list(usable.values())), groups), strict=True))


def paired_difference(now: np.ndarray, before: np.ndarray, conversation: np.ndarray) -> Difference:
    """How far a rate rose between two runs on the same questions, in points; a tie where that may be chance.

    Args:
        now: Whether the answer to each question is usable, shape (questions,).
        before: The same in the earlier run.
        conversation: The conversation of each question, shape (questions,).
    """
    clusters = len(np.unique(conversation))

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        return {"rise": divided(sums["rise"], sums["questions"])[0]}

    tallies = {
        "rise": dense_tally((now.astype(float) - before.astype(float))[:, None]),
        "questions": dense_tally(np.ones((len(now), 1))),
    }
    value, low, high = bootstrap(tallies, conversation, statistics)["rise"]
    if low == high:
        # All questions say the same here, which does not mean that all would: as far as 0 of n allows.
        most = wilson(0, clusters).high
        low, high = max(-1.0, value - most), min(1.0, value + most)
    tie = clusters < FEWEST_CONVERSATIONS or bool(low <= 0 <= high)
    return Difference(100 * value, 100 * low, 100 * high, tie)


def differences_from_best(
    usable: np.ndarray, conversation: np.ndarray, resamples: int = RESAMPLES, seed: int = 0
) -> list[Difference]:
    """Compares every model with the one of the highest rate.

    One draw of conversations serves all models (bias-corrected and accelerated bootstrap), so that what is easy or hard
    for all cancels out. The intervals hold for each pair alone, not for all pairs at once.

    Args:
        usable: Whether each model's answer to each question is usable, shape (models, questions).
        conversation: The conversation of each question, shape (questions,).
        resamples: Number of resamples.
        seed: Fixes the draws.

    Returns:
        One a model. A tie is a model whose interval does not lie below 0; all are ties where there are fewer than 30
        conversations.
    """
    rates = usable.mean(axis=1)
    best, clusters = int(rates.argmax()), len(np.unique(conversation))

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        shares = divided(sums["usable"], sums["questions"])
        return {str(model): shares[model] - shares[best] for model in range(len(usable))}

    tallies = {
        "usable": dense_tally(usable.T.astype(float)),
        "questions": dense_tally(np.ones((usable.shape[1], 1))),
    }
    intervals = bootstrap(tallies, conversation, statistics, resamples, seed)
    differences = []
    for model in range(len(usable)):
        value, low, high = intervals[str(model)]
        if low == high and model != best:
            # All questions say the same here, which does not mean that all would: as far as 0 of n allows.
            most = wilson(0, clusters).high
            low, high = max(-1.0, value - most), min(1.0, value + most)
        tie = clusters < FEWEST_CONVERSATIONS or bool(high >= 0)
        differences.append(Difference(100 * value, 100 * low, 100 * high, tie))
    return differences
