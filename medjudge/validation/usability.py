"""Usability rates as LLMEval-Med reports them: OP and the categories, and the subcategories below."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np

from medjudge.records import AnswerKey, ErrorKind, Judgment, Question, grouped
from medjudge.rounds import level_of, scored_rounds
from medjudge.scale import USABLE_FROM, consensus
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.statistics.estimates import FEWEST_FOR_INTERVAL, clustered_wilson

REASONS: dict[ErrorKind | None, str] = {
    None: "reason not recorded",
    ErrorKind.EMPTY_ANSWER: "empty answer",
    ErrorKind.LANGUAGE: "language that the judge does not read",
    ErrorKind.WINDOW: "too long for the judge",
    ErrorKind.NO_REFERENCE: "no reference to compare with",
    ErrorKind.REQUEST_FAILED: "request failed",
    ErrorKind.REFUSED: "refused by the server or the model",
    ErrorKind.EMPTY_REPLY: "empty reply",
    ErrorKind.UNREADABLE_REPLY: "unreadable reply",
    ErrorKind.NOT_IN_FILE: "no valid score in the imported file",
    ErrorKind.TOO_FEW_MEMBERS: "scored by too few members of the panel",
}
"""The reasons why answers have no score, for people."""
NOT_JUDGED = "not judged yet"


@dataclass(frozen=True)
class Rate:
    """A usability rate with its 95 % interval, in percent, and the numbers of questions behind it.

    Attributes:
        rate: None, as are its ends, where no question has a score. The ends are also None below 8 conversations.
        unscored: Questions that the model answered and the judge left without a score.
        not_answered: Questions that the model did not answer.
    """

    rate: float | None
    low: float | None
    high: float | None
    usable: int
    questions: int
    unscored: int
    not_answered: int = 0

    @property
    def answered(self) -> int:
        """Questions that the model answered."""
        return self.questions - self.not_answered

    @property
    def mostly_unanswered(self) -> bool:
        """True if the model answered fewer than half of the questions, so that the rate says little of its answers."""
        return 2 * self.not_answered > self.questions


@dataclass(frozen=True)
class LowShare:
    """The scored answers at a level or below: their share in percent, with its 95 % interval, and their number."""

    share: float | None
    low: float | None
    high: float | None
    answers: int
    scored: int


@dataclass(frozen=True)
class ModelUsability:
    """The usability rates of a model.

    Attributes:
        parts: Overall (`OP`), then each category that has questions.
        subcategories: By category, then by name.
        lowest: Shares of scored answers: those at level 1 (`1`), and those at level 1 or 2 (`2`).
    """

    parts: dict[str, Rate]
    subcategories: dict[str, dict[str, Rate]]
    lowest: dict[int, LowShare]

    @property
    def overall(self) -> Rate:
        """The rate of all questions."""
        return self.parts["OP"]

    def as_json(self) -> dict[str, Any]:
        """A model's entry in `scores.json`."""
        fields = asdict(self)
        lowest = {str(level): share for level, share in fields["lowest"].items()}
        return {**fields["parts"], "subcategories": fields["subcategories"], "lowest": lowest}


def truncated_line(truncated: Mapping[str, int]) -> str | None:
    """The number of answers of each model that ended at the token limit; None where none did."""
    listed = ", ".join(f"{model} {number:,}" for model, number in truncated.items() if number)
    return f"answers that ended at the token limit: {listed}" if listed else None


class Coverage(NamedTuple):
    """The number of answers, of those that no judgment scored, and of these by reason."""

    answers: int
    unscored: int
    reasons: Mapping[str, int] = {}

    @property
    def why(self) -> str:
        """The reasons, the most frequent first: `3 empty answer, 1 request failed`."""
        return ", ".join(f"{number:,} {reason}" for reason, number in Counter(self.reasons).most_common())


class QuestionCounts(NamedTuple):
    """The number of questions, of those that no model answered, and of those with answers and no score."""

    questions: int
    not_answered: int
    unscored: int


def best_first(models: Mapping[str, ModelUsability]) -> dict[str, ModelUsability]:
    """The models by their overall rate, the highest first; those without a rate come last."""
    rates = {name: model.overall.rate for name, model in models.items()}
    return {name: models[name] for name in sorted(models, key=lambda name: (rates[name] is None, -(rates[name] or 0)))}


def score_models(
    questions: Sequence[Question],
    judgments: Sequence[Judgment],
    models: Sequence[str],
    scheme: Scheme = LLMEVAL_MED,
    answers: Collection[AnswerKey] | None = None,
) -> dict[str, ModelUsability]:
    """Usability rates of every model.

    A question is usable where the mean score over its samples and judging rounds is at least 4. A question with no
    score counts as not usable and is counted as unscored. OP weighs every question alike (LLMEval-Med, section 4.2).

    Args:
        judgments: Of one judge.
        models: The models to list, so that one with no score at all still shows.
        answers: The answers that exist; every question counts as answered unless given.

    Returns:
        Model -> rates.
    """
    scores = scores_by_question(judgments)
    answered = None if answers is None else {(key.model, key.question_id) for key in answers}
    levels = {key: level_of(rounds) for key, rounds in scored_rounds(judgments).items()}

    def rate(model: str, inside: Sequence[Question]) -> Rate:
        keys = [(model, question.id) for question in inside]
        without_score = [key for key in keys if key not in scores]
        not_answered = 0 if answered is None else sum(key not in answered for key in without_score)
        usable = np.array([key in scores and consensus(scores[key]) >= USABLE_FROM for key in keys])
        scored = len(without_score) < len(keys)
        share = _share(usable, [question.group for question in inside]) if scored else (None, None, None)
        unscored = len(without_score) - not_answered
        return Rate(*share, int(usable.sum()), len(keys), unscored, not_answered)

    rates, by_category = {}, grouped(questions, lambda question: question.category)
    for model in models:
        parts, subcategories = {"OP": rate(model, questions)}, {}
        for category in scheme.columns[1:]:
            if inside := by_category.get(category):
                parts[category] = rate(model, inside)
                by_name = sorted(grouped(inside, lambda question: question.subcategory).items())
                subcategories[category] = {name: rate(model, own) for name, own in by_name if name}
        rates[model] = ModelUsability(parts, subcategories, _lowest(questions, model, levels))
    return rates


def usable_table(questions: Sequence[Question], judgments: Sequence[Judgment], models: Sequence[str]) -> np.ndarray:
    """The usability of each model's answer to each question, shape (models, questions), by the rule of the rates."""
    levels = {key: consensus(values) for key, values in scores_by_question(judgments).items()}
    keys = [[(model, question.id) for question in questions] for model in models]
    return np.array([[levels.get(key, 0) >= USABLE_FROM for key in row] for row in keys], dtype=bool)


def scores_by_question(judgments: Sequence[Judgment]) -> dict[tuple[str, str], list[int]]:
    """The scores of a model on a question, over samples and rounds, by model and question."""
    scores: dict[tuple[str, str], list[int]] = {}
    for judgment in judgments:
        if judgment.score is not None:
            scores.setdefault((judgment.model, judgment.question_id), []).append(judgment.score)
    return scores


def _lowest(questions: Sequence[Question], model: str, levels: Mapping[AnswerKey, int]) -> dict[int, LowShare]:
    """The shares of a model's scored answers at level 1, and at levels 1 and 2."""
    group = {question.id: question.group for question in questions}
    keys = [key for key in levels if key.model == model and key.question_id in group]
    shares = {}
    for most in (1, 2):
        at = np.array([levels[key] <= most for key in keys])
        share = _share(at, [group[key.question_id] for key in keys], 6)
        shares[most] = LowShare(*share, int(at.sum()), len(keys))
    return shares


_Share = tuple[float | None, float | None, float | None]


def _share(happened: np.ndarray, conversations: Sequence[str], digits: int = 2) -> _Share:
    """A share with its interval in percent; without its ends where there are too few conversations for them."""
    if len(happened) == 0:
        return None, None, None
    share = round(float(happened.sum()) / len(happened) * 100, digits)
    if len(set(conversations)) < FEWEST_FOR_INTERVAL:
        return share, None, None
    _, low, high = clustered_wilson(happened, np.array(conversations))
    return share, round(100 * low, digits), round(100 * high, digits)


def coverage(keys: Sequence[AnswerKey], judgments: Sequence[Judgment]) -> Coverage:
    """Counts the answers, and those that no judgment scored, by the reason of the last one."""
    with_score = {judgment.answer_key for judgment in judgments if judgment.score is not None}
    reason = {judgment.answer_key: REASONS[judgment.error_kind] for judgment in judgments}
    unscored = [key for key in keys if key not in with_score]
    return Coverage(len(keys), len(unscored), dict(Counter(reason.get(key, NOT_JUDGED) for key in unscored)))


def count_questions(
    questions: Sequence[Question], keys: Collection[AnswerKey], judgments: Sequence[Judgment]
) -> QuestionCounts:
    """Counts the questions, each once however many models answered it."""
    answered = {key.question_id for key in keys}
    with_score = {judgment.question_id for judgment in judgments if judgment.score is not None}
    ids = [question.id for question in questions]
    unscored = sum(name in answered and name not in with_score for name in ids)
    return QuestionCounts(len(ids), sum(name not in answered for name in ids), unscored)
