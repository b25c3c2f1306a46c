"""Combines several rounds of a judge, or several raters, into one score per answer."""

from collections.abc import Iterable, Sequence

import numpy as np

from medjudge.records import AgreedScore, AnswerKey, Judgment, PhysicianScore, grouped
from medjudge.scale import LEVELS, USABLE_FROM, consensus


def scored_rounds(judgments: Iterable[Judgment]) -> dict[AnswerKey, list[Judgment]]:
    """The scored judgments of each answer, all rounds."""
    scored = (judgment for judgment in judgments if judgment.score is not None)
    return grouped(scored, lambda judgment: judgment.answer_key)


def level_of(rounds: Sequence[Judgment]) -> int:
    """The level of an answer's rounds: their mean, rounded down."""
    return consensus(judgment.score for judgment in rounds if judgment.score is not None)


def expected_of(rounds: Sequence[Judgment]) -> float:
    """The mean over rounds of the expected score, or of the score if there is no expected one."""
    values = [judgment.score if judgment.expected is None else judgment.expected for judgment in rounds]
    return sum(value for value in values if value is not None) / len(values)


def usable_probability(rounds: Sequence[Judgment]) -> float:
    """P(usable) by the mean over rounds of the five probabilities; NaN if a round has none."""
    means = np.mean([judgment.probabilities or [np.nan] * LEVELS for judgment in rounds], axis=0)
    return float(means[USABLE_FROM - 1 :].sum())


def binding_by_answer(scores: Iterable[PhysicianScore]) -> dict[AnswerKey, list[PhysicianScore]]:
    """The scores that count for each answer: the agreed one where there is one, else those of all raters."""
    by_answer = grouped(scores, lambda score: score.answer_key)
    for key, of_answer in by_answer.items():
        if agreed := [score for score in of_answer if isinstance(score, AgreedScore)]:
            by_answer[key] = [agreed[-1]]
    return by_answer


def raters_of(scores: Iterable[PhysicianScore]) -> list[str]:
    """The names of the raters, sorted; who recorded an agreed score is none of them."""
    return sorted({score.rater for score in scores if not isinstance(score, AgreedScore)})


def by_rater(scores_by_answer: Sequence[Sequence[PhysicianScore]], raters: Sequence[str]) -> np.ndarray:
    """The level that each rater gave each answer, shape (answers, raters); NaN if a rater did not score it."""
    levels = np.full((len(scores_by_answer), len(raters)), np.nan)
    for row, scores in enumerate(scores_by_answer):
        for score in scores:
            if not isinstance(score, AgreedScore):
                levels[row, raters.index(score.rater)] = score.level
    return levels
