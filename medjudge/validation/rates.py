"""The share of all judged answers that physicians would call usable: prediction-powered rates beside the naive ones."""

from collections.abc import Sequence

import numpy as np

from medjudge.records import Judgment, PhysicianScore, Question
from medjudge.rounds import binding_by_answer, level_of, scored_rounds, usable_probability
from medjudge.scale import USABLE_FROM, consensus
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.statistics.bootstrap import Interval
from medjudge.statistics.estimates import Estimate, Record, estimate, rounded
from medjudge.statistics.prediction_powered import physicians_only_rate, prediction_powered_rate


class UsabilityRate(Record):
    """The share of answers that physicians would call usable: prediction-powered, by physicians and by judge alone."""

    answers: int
    scored: int
    prediction_powered: Estimate
    physicians_only: Estimate
    judge_only: float | None
    power_tuning: float | None
    note: str | None


class Usability(Record):
    """Usability rates of all answers that the judge judged."""

    answers: int
    scored: int
    overall: UsabilityRate
    by_category: dict[str, UsabilityRate]
    by_model: dict[str, UsabilityRate]


def usability_rates(
    questions: Sequence[Question],
    judgments: Sequence[Judgment],
    scores: Sequence[PhysicianScore],
    scheme: Scheme = LLMEVAL_MED,
) -> Usability | None:
    """Usability rates, as shares of answers, overall, by category and by answering model.

    Args:
        judgments: All judgments of the judge; it predicts what physicians would say with its probability of usable, and
            with 0 where it left an answer unscored.
        scores: Physicians' scores of some of these answers, chosen without regard to what the judge said.

    Returns:
        None where the judge judged no answer beyond those that physicians scored.
    """
    by_id = {question.id: question for question in questions}
    physician_usable = {
        key: float(consensus(score.level for score in binding) >= USABLE_FROM)
        for key, binding in binding_by_answer(scores).items()
    }
    scored = scored_rounds(judgments)
    rounds = {
        judgment.answer_key: scored.get(judgment.answer_key, [])
        for judgment in judgments
        if judgment.question_id in by_id
    }
    if not set(rounds) - set(physician_usable):
        return None
    by_judge = np.array([_usable_by_judge(judgments) for judgments in rounds.values()])
    by_physicians = np.array([physician_usable.get(key, np.nan) for key in rounds])
    conversation = np.array([by_id[key.question_id].group for key in rounds])
    category = np.array([by_id[key.question_id].category for key in rounds])
    model = np.array([key.model for key in rounds])

    def rate(rows: np.ndarray) -> UsabilityRate:
        powered = prediction_powered_rate(by_judge[rows], by_physicians[rows], conversation[rows])
        alone = physicians_only_rate(by_physicians[rows], conversation[rows])
        estimates = [
            estimate(Interval(each.value, each.low, each.high), powered.conversations_scored)
            for each in (powered, alone)
        ]
        return UsabilityRate(
            answers=powered.answers,
            scored=powered.scored,
            prediction_powered=estimates[0],
            physicians_only=estimates[1],
            judge_only=rounded(float(by_judge[rows].mean())),
            power_tuning=rounded(powered.power_tuning),
            note=powered.note,
        )

    return Usability(
        answers=len(by_judge),
        scored=int(np.isfinite(by_physicians).sum()),
        overall=rate(np.ones(len(by_judge), dtype=bool)),
        by_category={name: rate(category == name) for name in scheme.category_ids if name in category},
        by_model={str(name): rate(model == name) for name in np.unique(model)},
    )


def _usable_by_judge(rounds: Sequence[Judgment]) -> float:
    if not rounds:
        return 0.0
    probability = usable_probability(rounds)
    # The probabilities of a record may sum to a thousandth more than 1.
    return min(1.0, probability) if np.isfinite(probability) else float(level_of(rounds) >= USABLE_FROM)
