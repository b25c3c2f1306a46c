"""What physicians would call usable of everything the judge judged: prediction-powered rates beside the naive ones."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from medjudge.records import CATEGORIES, AnswerKey, Judgment, PhysicianScore, Question
from medjudge.rounds import level_of, mean_probabilities, scored_rounds
from medjudge.scale import USABLE_FROM, consensus
from medjudge.statistics.estimates import Estimate, rounded
from medjudge.statistics.prediction_powered import (
    Rate,
    judge_only_rate,
    physicians_only_rate,
    prediction_powered_rate,
    scores_for_width,
)


def usability_rates(
    questions: Sequence[Question],
    judgments: Sequence[Judgment],
    scores: Sequence[PhysicianScore],
    width: float | None = None,
) -> dict[str, Any] | None:
    """Usability rates, as shares of answers, overall, by category and by answering model.

    Args:
        judgments: All judgments of the judge; it predicts what physicians would say with its probability of usable, and
            with 0 where it left an answer unscored.
        scores: Physicians' scores of some of these answers, chosen without regard to what the judge said.
        width: The full width of an interval that further scores are planned for, as a share.

    Returns:
        None where the judge judged no answer beyond those that physicians scored.
    """
    by_id = {question.id: question for question in questions}
    given: dict[AnswerKey, list[int]] = {}
    for score in scores:
        given.setdefault(score.answer_key, []).append(score.level)
    scored = scored_rounds(judgments)
    rounds = {one.answer_key: scored.get(one.answer_key, []) for one in judgments if one.question_id in by_id}
    if not set(rounds) - set(given):
        return None
    predicted = np.array([_usable(some) for some in rounds.values()])
    told = np.array([_of_physicians(given.get(key)) for key in rounds])
    conversation = np.array([by_id[key.question_id].group for key in rounds])
    category = np.array([by_id[key.question_id].category for key in rounds])
    model = np.array([key.model for key in rounds])

    def rate(rows: np.ndarray) -> dict[str, Any]:
        return _rates(predicted[rows], told[rows], conversation[rows], width)

    return {
        "answers": len(predicted),
        "scored": int(np.isfinite(told).sum()),
        "width": width,
        "overall": rate(np.ones(len(predicted), dtype=bool)),
        "by_category": {name: rate(category == name) for name in CATEGORIES if name in category},
        "by_model": {str(name): rate(model == name) for name in np.unique(model)},
    }


def _usable(rounds: Sequence[Judgment]) -> float:
    if not rounds:
        return 0.0
    probability = float(mean_probabilities(rounds)[USABLE_FROM - 1 :].sum())
    # Records may be off 1 by a thousandth.
    return min(1.0, probability) if np.isfinite(probability) else float(level_of(rounds) >= USABLE_FROM)


def _of_physicians(levels: Sequence[int] | None) -> float:
    return float("nan") if levels is None else float(consensus(levels) >= USABLE_FROM)


def _rates(predicted: np.ndarray, told: np.ndarray, conversation: np.ndarray, width: float | None) -> dict[str, Any]:
    powered = prediction_powered_rate(predicted, told, conversation)
    can_plan = powered.conversations_scored > 1
    return {
        "answers": powered.answers,
        "scored": powered.scored,
        "prediction_powered": _estimate(powered),
        "physicians_only": _estimate(physicians_only_rate(told, conversation)),
        "judge_only": rounded(judge_only_rate(predicted)),
        "power_tuning": rounded(powered.power_tuning),
        "more_scores": scores_for_width(powered, width) if width is not None and can_plan else None,
        "note": powered.note,
    }


def _estimate(rate: Rate) -> Estimate:
    return {"value": rounded(rate.value), "low": rounded(rate.low), "high": rounded(rate.high)}
