"""What every judge does, and how a station hands it work."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from medjudge.records import Answer, ErrorKind, Judgment, Question, earlier_turns
from medjudge.scale import median_level
from medjudge.scheme import LLMEVAL_MED, Scheme


class Assignment(NamedTuple):
    """One answer to judge.

    `earlier` holds the user's earlier turns of the conversation, oldest first; `scheme` holds the question's rubric.
    """

    question: Question
    earlier: tuple[str, ...]
    answer: Answer
    round: int = 1
    scheme: Scheme = LLMEVAL_MED


class Judge(Protocol):
    """Scores answers. Its `name` is the name of the file that its judgments go to."""

    name: str

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        """Yields one judgment for each assignment, in any order, as soon as it is made."""
        ...


def assignments(
    questions: Iterable[Question], answers: Iterable[Answer], rounds: int = 1, scheme: Scheme = LLMEVAL_MED
) -> list[Assignment]:
    """Joins answers to their questions, and to the scheme that these belong to, `rounds` times.

    Answers to questions that are not among `questions` are left out.
    """
    by_id = {question.id: question for question in questions}
    earlier = earlier_turns(list(by_id.values()))
    return [
        Assignment(by_id[answer.question_id], earlier[answer.question_id], answer, round_, scheme)
        for answer in answers
        if answer.question_id in by_id
        for round_ in range(1, rounds + 1)
    ]


def scored(
    assignment: Assignment,
    judge: str,
    probabilities: np.ndarray,
    *,
    rationale: str | None = None,
    raw: str | None = None,
    answer_tokens_cut: int = 0,
    context_tokens_cut: int = 0,
) -> Judgment:
    """A judgment from the probabilities of the five levels.

    The score is their median: it is usable exactly when the probability of a usable level is at least one half.

    Args:
        probabilities: Shape (5,), level 1 first, adding up to 1.
    """
    exact = np.asarray(probabilities, dtype=np.float64)
    exact = exact / exact.sum()
    return Judgment(
        question_id=assignment.answer.question_id,
        model=assignment.answer.model,
        sample=assignment.answer.sample,
        judge=judge,
        round=assignment.round,
        score=median_level(exact),
        expected=min(5.0, max(1.0, round(float(exact @ np.arange(1, 6)), 6))),
        probabilities=[round(float(value), 6) for value in exact],
        rationale=rationale,
        raw=raw,
        answer_tokens_cut=answer_tokens_cut,
        context_tokens_cut=context_tokens_cut,
    )


def unscored(assignment: Assignment, judge: str, kind: ErrorKind, error: str, raw: str | None = None) -> Judgment:
    """A judgment without a score.

    Args:
        kind: Why there is no score; whatever depends on the reason reads this.
        error: The same for people, in one line.
        raw: What the model replied, if anything.
    """
    return Judgment(
        question_id=assignment.answer.question_id,
        model=assignment.answer.model,
        sample=assignment.answer.sample,
        judge=judge,
        round=assignment.round,
        score=None,
        error_kind=kind,
        error=error,
        raw=raw,
    )


def split_empty(work: Sequence[Assignment], judge: str) -> tuple[list[Assignment], list[Judgment]]:
    """Sets aside the answers with no text: there is nothing to score in them, and a model must not be asked to."""
    full = [one for one in work if one.answer.text.strip()]
    empty = [
        unscored(one, judge, ErrorKind.EMPTY_ANSWER, "the answer is empty")
        for one in work
        if not one.answer.text.strip()
    ]
    return full, empty
