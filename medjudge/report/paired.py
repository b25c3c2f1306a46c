"""Models compared question by question: which are shown to be worse than the best, what changed, who scores higher."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from medjudge.records import Judgment, Question
from medjudge.statistics.bootstrap import RESAMPLES, Interval, Sums, bootstrap, dense_tally
from medjudge.statistics.estimates import FEWEST_FOR_INTERVAL, wilson
from medjudge.statistics.measures import divided
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS


class Difference(NamedTuple):
    """The difference of two usability rates, in percentage points, with its 95 % interval if there is one."""

    value: float
    low: float | None
    high: float | None
    tie: bool


def ties(questions: Sequence[Question], usable: Mapping[str, np.ndarray]) -> dict[str, Difference]:
    """Each model's difference from the best one on some questions; empty where there is nothing to compare.

    Args:
        usable: Name -> whether the model's answer to each question is usable, shape (questions,).
    """
    if len(usable) < 2 or not questions:
        return {}
    return dict(
        zip(usable, differences_from_best(np.array(list(usable.values())), conversations(questions)), strict=True)
    )


def conversations(questions: Sequence[Question]) -> np.ndarray:
    """The conversation of each question, shape (questions,)."""
    return np.array([question.group for question in questions], dtype=object).astype(str)


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
    best = int(usable.mean(axis=1).argmax())

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        shares = divided(sums["usable"], sums["questions"])
        return {str(model): shares[model] - shares[best] for model in range(len(usable))}

    tallies = {"usable": dense_tally(usable.T.astype(float)), "questions": dense_tally(np.ones((usable.shape[1], 1)))}
    intervals = bootstrap(tallies, conversation, statistics, resamples, seed)
    clusters = len(np.unique(conversation))
    differences = []
    for model in range(len(usable)):
        interval = intervals[str(model)] if model == best else _widened(intervals[str(model)], clusters)
        tie = clusters < FEWEST_CONVERSATIONS or bool(interval.high >= 0)
        differences.append(_in_points(interval, clusters, tie))
    return differences


def paired_difference(now: np.ndarray, before: np.ndarray, conversation: np.ndarray) -> Difference:
    """The rise of a rate between two runs on the same questions, in points; a tie where that may be chance.

    Args:
        now: Whether the answer to each question is usable, shape (questions,).
        before: The same in the earlier run.
        conversation: The conversation of each question, shape (questions,).
    """

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        return {"rise": divided(sums["rise"], sums["questions"])[0]}

    rise = (now.astype(float) - before.astype(float))[:, None]
    tallies = {"rise": dense_tally(rise), "questions": dense_tally(np.ones((len(now), 1)))}
    clusters = len(np.unique(conversation))
    interval = _widened(bootstrap(tallies, conversation, statistics)["rise"], clusters)
    tie = clusters < FEWEST_CONVERSATIONS or bool(interval.low <= 0 <= interval.high)
    return _in_points(interval, clusters, tie)


def _in_points(interval: Interval, clusters: int, tie: bool) -> Difference:
    value, low, high = [100 * float(number) for number in interval]
    return Difference(value, low, high, tie) if clusters >= FEWEST_FOR_INTERVAL else Difference(value, None, None, tie)


def _widened(interval: Interval, clusters: int) -> Interval:
    """An interval of length 0, because all questions say the same, widened as far as 0 of n allows."""
    value, low, high = interval
    if low == high:
        most = wilson(0, clusters).high
        low, high = max(-1.0, value - most), min(1.0, value + most)
    return Interval(value, low, high)


class Duel(NamedTuple):
    """Questions on which a model's mean level is above, equal to and below another's; both must have a score."""

    wins: int
    ties: int
    losses: int


def mean_levels(questions: Sequence[Question], judgments: Sequence[Judgment], models: Sequence[str]) -> np.ndarray:
    """The mean level over samples and rounds, shape (models, questions); NaN where nothing has a score.

    Args:
        judgments: Of one judge.
    """
    column = {question.id: place for place, question in enumerate(questions)}
    row = {model: place for place, model in enumerate(models)}
    sums, counts = np.zeros((2, len(models), len(questions)))
    for judgment in judgments:
        if judgment.score is not None and judgment.question_id in column and judgment.model in row:
            place = row[judgment.model], column[judgment.question_id]
            sums[place] += judgment.score
            counts[place] += 1
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, sums / counts, np.nan)


def duels(levels: Mapping[str, np.ndarray]) -> dict[str, dict[str, Duel]]:
    """Every model against every other.

    Args:
        levels: Model -> its mean level on each question, shape (questions,); NaN where it has none.

    Returns:
        Model -> other model -> the counts, seen from the former.
    """
    return {
        model: {other: _duel(own, theirs) for other, theirs in levels.items() if other != model}
        for model, own in levels.items()
    }


def _duel(own: np.ndarray, theirs: np.ndarray) -> Duel:
    # A comparison with NaN is false. Means of the same levels are the same floats up to rounding.
    same = np.isclose(own, theirs)
    return Duel(int((~same & (own > theirs)).sum()), int(same.sum()), int((~same & (own < theirs)).sum()))
