"""Several rounds of a judge, or several raters, of one answer: joined, and taken as one score."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from medjudge.records import AnswerKey, Judgment, PhysicianScore
from medjudge.scale import consensus


def scored_rounds(judgments: Iterable[Judgment]) -> dict[AnswerKey, list[Judgment]]:
    """The scored judgments of each answer, all rounds."""
    rounds: dict[AnswerKey, list[Judgment]] = {}
    for judgment in judgments:
        if judgment.score is not None:
            rounds.setdefault(judgment.answer_key, []).append(judgment)
    return rounds


def level_of(rounds: Sequence[Judgment]) -> int:
    """The level of an answer's rounds: their mean, rounded down."""
    return consensus(one.score for one in rounds if one.score is not None)


def expected_of(rounds: Sequence[Judgment]) -> float:
    """The mean over rounds of the expected score, or of the score where there is no expected one."""
    values = [one.score if one.expected is None else one.expected for one in rounds]
    return sum(value for value in values if value is not None) / len(values)


def mean_probabilities(rounds: Sequence[Judgment]) -> np.ndarray:
    """The mean over rounds of the five probabilities, shape (5,); NaN where a round has none."""
    return np.mean([[np.nan] * 5 if one.probabilities is None else one.probabilities for one in rounds], axis=0)


def raters_of(scores: Iterable[PhysicianScore]) -> list[str]:
    """The names of the raters, sorted."""
    return sorted({score.rater for score in scores})


def by_rater(given: Sequence[Sequence[PhysicianScore]], raters: Sequence[str]) -> np.ndarray:
    """The level that each rater gave each answer, shape (answers, raters), NaN where one did not score."""
    column: Mapping[str, int] = {rater: place for place, rater in enumerate(raters)}
    levels = np.full((len(given), len(raters)), np.nan)
    for row, of_answer in enumerate(given):
        for score in of_answer:
            levels[row, column[score.rater]] = score.level
    return levels
