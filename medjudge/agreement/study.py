"""Assembles the agreement of a judge with physicians into what `agreement/JUDGE.json` holds."""

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from medjudge.agreement.bootstrap import percentile_interval, resampled_weights
from medjudge.agreement.measures import (
    LEVELS,
    bias,
    cohen_kappa,
    confusion,
    mae,
    quadratic_kappa,
    spearman,
    usable_agreement,
)
from medjudge.errors import InputError
from medjudge.records import CATEGORIES, CONSTRUCTED, AnswerKey, Judgment, PhysicianScore, Question, consensus

RESAMPLES = 10_000
_NUMBERS_AT_ONCE = 2_000_000
"""Resampled ranks held in memory at once: 16 MB an array."""
_FROM_COUNTS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "usable_agreement": usable_agreement,
    "cohen_kappa": cohen_kappa,
    "quadratic_kappa": quadratic_kappa,
    "mae": mae,
    "bias": bias,
}


class Pairs(NamedTuple):
    """Answers that the judge and the reference raters both scored, one row each."""

    category: np.ndarray
    group: np.ndarray
    judge: np.ndarray
    expected: np.ndarray
    physician: np.ndarray


def agreement_study(
    judge: str,
    questions: Sequence[Question],
    judgments: Sequence[Judgment],
    scores: Sequence[PhysicianScore],
    against: str | None = None,
    resamples: int = RESAMPLES,
    seed: int = 0,
) -> dict[str, Any]:
    """Compares a judge with physicians, overall and by category.

    Several rounds or raters of one answer are averaged and rounded down, so that the level is usable exactly when the
    mean is. Spearman uses the judge's expected score where it has one.

    Args:
        judge: The judge's name.
        judgments: Its judgments.
        scores: The physicians' scores; answers with no judgment lower the coverage.
        against: Who stands on the other side; physicians unless given, or the constructed levels where all scores are.

    Returns:
        The object of `agreement/JUDGE.json`.

    Raises:
        InputError: No answer was scored by both.
    """
    pairs, wanted = _paired(questions, judgments, scores)
    if len(pairs.judge) == 0:
        raise InputError(f"judge {judge}: no answer has both a score of this judge and a physician's")
    return {
        "judge": judge,
        "against": against or _raters(scores),
        "n": len(pairs.judge),
        "questions": len({score.question_id for score in scores}),
        "conversations": len(np.unique(pairs.group)),
        "coverage": round(len(pairs.judge) / wanted, 6),
        "interval": f"95 %, percentile bootstrap over conversations, {resamples} resamples",
        "overall": _measured(pairs, resamples, seed),
        "by_category": {
            category: _measured(_only(pairs, pairs.category == category), resamples, seed)
            for category in CATEGORIES
            if (pairs.category == category).any()
        },
        "confusion": confusion(pairs.judge, pairs.physician).astype(int).tolist(),
        "confusion_by_category": {
            category: confusion(pairs.judge[rows], pairs.physician[rows]).astype(int).tolist()
            for category in CATEGORIES
            if (rows := pairs.category == category).any()
        },
        "gate": {"passed": None, "checks": []},
    }


def _raters(scores: Sequence[PhysicianScore]) -> str:
    return "constructed levels" if all(score.rater == CONSTRUCTED for score in scores) else "physicians"


def teacher_scores(judgments: Iterable[Judgment]) -> list[PhysicianScore]:
    """Another judge's scores in the physicians' place, for `--against`."""
    return [
        PhysicianScore(
            question_id=one.question_id,
            model=one.model,
            sample=one.sample,
            rater=f"{one.judge}, round {one.round}",
            score=one.score,
        )
        for one in judgments
        if one.score is not None
    ]


def _paired(
    questions: Sequence[Question], judgments: Sequence[Judgment], scores: Sequence[PhysicianScore]
) -> tuple[Pairs, int]:
    by_id = {question.id: question for question in questions}
    raters: dict[AnswerKey, list[int]] = {}
    for score in scores:
        raters.setdefault(score.answer_key, []).append(score.level)
    rounds: dict[AnswerKey, list[Judgment]] = {}
    for judgment in judgments:
        if judgment.score is not None:
            rounds.setdefault(judgment.answer_key, []).append(judgment)
    keys = [key for key in raters if key in rounds and key.question_id in by_id]
    expected = [
        np.mean([one.score if one.expected is None else one.expected for one in rounds[key] if one.score is not None])
        for key in keys
    ]
    pairs = Pairs(
        np.array([by_id[key.question_id].category for key in keys], dtype=object),
        np.array([by_id[key.question_id].group for key in keys], dtype=object),
        np.array([consensus(one.score for one in rounds[key] if one.score is not None) for key in keys], dtype=int),
        np.array(expected, dtype=float),
        np.array([consensus(raters[key]) for key in keys], dtype=int),
    )
    return pairs, len(raters)


def _only(pairs: Pairs, rows: np.ndarray) -> Pairs:
    return Pairs(*(column[rows] for column in pairs))


def _measured(pairs: Pairs, resamples: int, seed: int) -> dict[str, dict[str, float | int | None]]:
    groups, cluster = np.unique(pairs.group.astype(str), return_inverse=True)
    per_cluster = np.zeros((len(groups), LEVELS * LEVELS))
    np.add.at(per_cluster, (cluster, (pairs.judge - 1) * LEVELS + pairs.physician - 1), 1)
    weights = resampled_weights(len(groups), resamples, seed)
    drawn = (weights @ per_cluster).reshape(resamples, LEVELS, LEVELS)
    whole = per_cluster.sum(axis=0).reshape(LEVELS, LEVELS)
    result: dict[str, dict[str, float | int | None]] = {
        name: _estimate(float(measure(whole)), measure(drawn)) for name, measure in _FROM_COUNTS.items()
    }
    at_once = max(1, _NUMBERS_AT_ONCE // len(cluster))
    correlations = [
        spearman(pairs.expected, pairs.physician, weights[start : start + at_once][:, cluster])
        for start in range(0, resamples, at_once)
    ]
    point = spearman(pairs.expected, pairs.physician, np.ones(len(cluster)))
    result["spearman"] = _estimate(float(point), np.concatenate(correlations))
    result["n"] = {"value": len(pairs.judge), "low": None, "high": None}
    return result


def _estimate(value: float, resampled: np.ndarray) -> dict[str, float | int | None]:
    low, high = percentile_interval(resampled)
    return {"value": _number(value), "low": _number(low), "high": _number(high)}


def _number(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
