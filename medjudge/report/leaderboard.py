"""Usability rates as LLMEval-Med reports them: OP and the categories, and the subcategories below."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from medjudge.records import AnswerKey, Judgment, Question
from medjudge.scale import USABLE_FROM
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.statistics.estimates import Bounds, wilson


def score_models(
    questions: Sequence[Question],
    judgments: Sequence[Judgment],
    models: Sequence[str],
    scheme: Scheme = LLMEVAL_MED,
) -> dict[str, Any]:
    """Usability rates of every model.

    A question is usable where the mean score over its samples and judging rounds is at least 4. A question with no
    score counts as not usable and is counted as unscored. OP weighs every question alike (LLMEval-Med, section 4.2).

    Args:
        judgments: Of one judge.
        models: The models to list, so that one with no score at all still shows.
        scheme: What the questions belong to.

    Returns:
        The object of `scores.json`: `{"models": {MODEL: {"OP": R, "MK": R, ..., "subcategories": {CATEGORY: {NAME:
        R}}}}}` with R = `{"rate", "low", "high", "usable", "questions", "unscored"}`, rates in percent.
    """
    scores = _by_question(judgments)
    return {"models": {model: _model_rates(questions, model, scores, scheme) for model in models}}


def usable_table(questions: Sequence[Question], judgments: Sequence[Judgment], models: Sequence[str]) -> np.ndarray:
    """Whether each model's answer to each question is usable, shape (models, questions); by the rule of the rates."""
    scores = _by_question(judgments)
    return np.array(
        [[_is_usable(scores.get((model, question.id))) for question in questions] for model in models], dtype=bool
    )


def _by_question(judgments: Sequence[Judgment]) -> dict[tuple[str, str], list[int]]:
    scores: dict[tuple[str, str], list[int]] = {}
    for judgment in judgments:
        if judgment.score is not None:
            scores.setdefault((judgment.model, judgment.question_id), []).append(judgment.score)
    return scores


def _is_usable(values: Sequence[int] | None) -> bool:
    # Sums of whole numbers compared, not means: exact at the threshold.
    return values is not None and sum(values) >= USABLE_FROM * len(values)


def _model_rates(
    questions: Sequence[Question], model: str, scores: dict[tuple[str, str], list[int]], scheme: Scheme
) -> dict[str, Any]:
    def rate(chosen: Callable[[Question], bool]) -> dict[str, Any]:
        return _rate([(question.group, scores.get((model, question.id))) for question in questions if chosen(question)])

    rates: dict[str, Any] = {"OP": rate(lambda _: True)}
    subcategories: dict[str, dict[str, Any]] = {}
    for category in scheme.category_ids:
        inside = [question for question in questions if question.category == category]
        if not inside:
            continue
        rates[category] = rate(lambda question, category=category: question.category == category)  # type: ignore[misc]
        names = sorted({question.subcategory for question in inside if question.subcategory})
        subcategories[category] = {
            name: rate(lambda question, c=category, s=name: question.category == c and question.subcategory == s)  # type: ignore[misc]
            for name in names
        }
    return {**rates, "subcategories": subcategories}


def _rate(rows: list[tuple[str, list[int] | None]]) -> dict[str, Any]:
    usable = np.array([_is_usable(values) for _, values in rows])
    low, high = usability_interval(usable, np.array([group for group, _ in rows]))
    return {
        "rate": round(float(usable.sum()) / len(rows) * 100, 2),
        "low": round(100 * low, 2),
        "high": round(100 * high, 2),
        "usable": int(usable.sum()),
        "questions": len(rows),
        "unscored": sum(values is None for _, values in rows),
    }


def usability_interval(usable: np.ndarray, group: np.ndarray, confidence: float = 0.95) -> Bounds:
    """Wilson's interval (1927) with the sample size reduced by the design effect of conversations (Kish, 1965).

    Wilson's interval stays inside 0-1 and is right for few questions and for rates near 0 or 1, where a bootstrap
    collapses to a point.

    Args:
        usable: Whether each question is usable, shape (n,).
        group: The conversation of each question, shape (n,).

    Returns:
        The interval as shares.
    """
    n, share = len(usable), float(np.mean(usable))
    _, cluster = np.unique(group.astype(str), return_inverse=True)
    deviations = np.bincount(cluster, weights=usable - share)
    binomial = n * share * (1 - share)
    effect = max(1.0, float((deviations**2).sum()) / binomial) if binomial > 0 else 1.0
    return wilson(share, n / effect, confidence)


def coverage(keys: Sequence[AnswerKey], judgments: Sequence[Judgment]) -> dict[str, int]:
    """How many answers there are, and how many of them no judgment scored."""
    with_score = {judgment.answer_key for judgment in judgments if judgment.score is not None}
    return {"answers": len(keys), "unscored": sum(key not in with_score for key in keys)}
