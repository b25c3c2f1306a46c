"""Answers that a judge and physicians both scored, joined from the records into arrays."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from medjudge.records import AnswerKey, Judgment, PhysicianScore, Question, grouped
from medjudge.rounds import (
    binding_by_answer,
    by_rater,
    expected_of,
    level_of,
    raters_of,
    scored_rounds,
    usable_probability,
)
from medjudge.scale import USABLE_FROM, consensus
from medjudge.scheme import LLMEVAL_MED, Scheme


class Pairs(NamedTuple):
    """One row an answer; every array has shape (n,) but `raters`.

    `expected` is the judge's expected score, or its score where it gives no probabilities; `usable_probability` is
    NaN there. `physician` is the consensus of the raters, `raters` each one's level, shape (n, raters), NaN where one
    did not score. `unsafe` marks answers that a physician called unsafe, and unusable ones in categories of safety.
    `teacher` is the teacher's level, NaN where it has none.
    """

    question_id: np.ndarray
    model: np.ndarray
    sample: np.ndarray
    category: np.ndarray
    subcategory: np.ndarray
    difficulty: np.ndarray
    language: np.ndarray
    conversation: np.ndarray
    judge: np.ndarray
    expected: np.ndarray
    usable_probability: np.ndarray
    physician: np.ndarray
    unsafe: np.ndarray
    raters: np.ndarray
    teacher: np.ndarray

    @property
    def conversations(self) -> int:
        """The number of conversations."""
        return len(set(self.conversation.tolist()))

    @property
    def keys(self) -> list[AnswerKey]:
        """The key of each row."""
        rows = zip(self.question_id, self.model, self.sample, strict=True)
        return [AnswerKey(question, model, int(sample)) for question, model, sample in rows]

    def only(self, rows: np.ndarray) -> "Pairs":
        """The rows of a mask, or in the order of indices."""
        return Pairs(*(column[rows] for column in self))


def paired(
    questions: Sequence[Question],
    judgments: Sequence[Judgment],
    scores: Sequence[PhysicianScore],
    teacher: Sequence[Judgment] = (),
    scheme: Scheme = LLMEVAL_MED,
) -> Pairs:
    """Joins judgments and physicians' scores by answer.

    Several rounds of a judge are averaged and rounded down, and so are several raters: the level is usable exactly when
    the mean is.

    Args:
        scores: Answers with no judgment are left out; they lower the coverage.
        teacher: Another judge's judgments of the same answers.
    """
    by_id = {question.id: question for question in questions}
    scores_by_answer = grouped(scores, lambda score: score.answer_key)
    binding = binding_by_answer(scores)
    rounds, of_teacher = scored_rounds(judgments), scored_rounds(teacher)
    keys = [key for key in scores_by_answer if key in rounds and key.question_id in by_id]
    question_of_key = [by_id[key.question_id] for key in keys]
    return Pairs(
        question_id=_text(key.question_id for key in keys),
        model=_text(key.model for key in keys),
        sample=np.array([key.sample for key in keys], dtype=int),
        category=_text(question.category for question in question_of_key),
        subcategory=_text(question.subcategory for question in question_of_key),
        difficulty=_text(question.difficulty for question in question_of_key),
        language=_text(question.language for question in question_of_key),
        conversation=_text(question.group for question in question_of_key),
        judge=np.array([level_of(rounds[key]) for key in keys], dtype=int),
        expected=np.array([expected_of(rounds[key]) for key in keys], dtype=float),
        usable_probability=np.array([usable_probability(rounds[key]) for key in keys], dtype=float),
        physician=np.array([consensus(score.level for score in binding[key]) for key in keys], dtype=int),
        unsafe=np.array([unsafe(by_id[key.question_id], binding[key], scheme) for key in keys], dtype=bool),
        raters=by_rater([scores_by_answer[key] for key in keys], raters_of(scores)),
        teacher=np.array([level_of(of_teacher[key]) if key in of_teacher else np.nan for key in keys], dtype=float),
    )


def unsafe(question: Question, scores: Sequence[PhysicianScore], scheme: Scheme = LLMEVAL_MED) -> bool:
    """True if a physician called an answer unsafe, or physicians call it unusable where the scheme equates the two."""
    if any(score.dimensions is not None and score.dimensions.safety == 0 for score in scores):
        return True
    unusable = consensus(score.level for score in scores) < USABLE_FROM
    return unusable and scheme.category(question.category).unusable_is_unsafe


def _text(values: Iterable[str]) -> np.ndarray:
    return np.array(list(values), dtype=object)
