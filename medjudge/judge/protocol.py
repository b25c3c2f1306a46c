"""The interface of all judges: assignments in, judgments out."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

import numpy as np

from medjudge.errors import InputError
from medjudge.records import Answer, ErrorKind, Judgment, PointVerdict, Question, earlier_turns
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
    """Scores answers. `name` is also the name of the judgments file."""

    name: str

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        """Yields one judgment for each assignment, in any order, as soon as it is made."""
        ...


def assignments(
    questions: Iterable[Question], answers: Iterable[Answer], rounds: int = 1, scheme: Scheme = LLMEVAL_MED
) -> list[Assignment]:
    """Makes one assignment per answer and round.

    Answers whose question is not among `questions` are left out.
    """
    by_id = {question.id: question for question in questions}
    earlier = earlier_turns(list(by_id.values()))
    return [
        Assignment(by_id[answer.question_id], earlier[answer.question_id], answer, round_number, scheme)
        for answer in answers
        if answer.question_id in by_id
        for round_number in range(1, rounds + 1)
    ]


def scored(
    assignment: Assignment,
    judge_name: str,
    probabilities: np.ndarray,
    *,
    rationale: str | None = None,
    raw: str | None = None,
    answer_tokens_cut: int = 0,
    context_tokens_cut: int = 0,
    points: Sequence[PointVerdict] | None = None,
) -> Judgment:
    """A judgment from the probabilities of the five levels.

    The score is their median, so it is usable exactly if the probability of a usable level is at least one half.

    Args:
        probabilities: Probabilities that add up to 1, level 1 first, shape (5,).
        points: What the judge says of each point, if it reads points.

    Raises:
        InputError: The probabilities are not finite.
    """
    exact = np.asarray(probabilities, dtype=np.float64)
    if not np.isfinite(exact).all() or exact.sum() <= 0:
        raise InputError(
            f"judge {judge_name}: its probabilities for the answer of {assignment.answer.model} to "
            f"{assignment.answer.question_id} are not finite; its weights or its base model's are damaged, restore them"
        )
    exact = exact / exact.sum()
    return Judgment(
        question_id=assignment.answer.question_id,
        model=assignment.answer.model,
        sample=assignment.answer.sample,
        judge=judge_name,
        round=assignment.round,
        score=median_level(exact),
        expected=min(5.0, max(1.0, round(float(exact @ np.arange(1, 6)), 6))),
        probabilities=[round(float(value), 6) for value in exact],
        rationale=rationale,
        raw=raw,
        answer_tokens_cut=answer_tokens_cut,
        context_tokens_cut=context_tokens_cut,
        points=None if points is None else list(points),
    )


def unscored(assignment: Assignment, judge_name: str, kind: ErrorKind, error: str, raw: str | None = None) -> Judgment:
    """A judgment without a score.

    Args:
        kind: Why there is no score. Code that depends on the reason reads this.
        error: The reason in one line, for people.
        raw: What the model replied, if anything.
    """
    return Judgment(
        question_id=assignment.answer.question_id,
        model=assignment.answer.model,
        sample=assignment.answer.sample,
        judge=judge_name,
        round=assignment.round,
        score=None,
        error_kind=kind,
        error=error,
        raw=raw,
    )


class SplitWork(NamedTuple):
    """Assignments that a judge must score, and the judgments of those that it need not look at."""

    work: list[Assignment]
    judgments: list[Judgment]


def split_empty(work: Sequence[Assignment], judge_name: str) -> SplitWork:
    """Separates empty answers, which no model is asked to score.

    Returns:
        The assignments that have a text, and an unscored judgment for each of the others.
    """
    not_empty = [assignment for assignment in work if assignment.answer.text.strip()]
    judgments = [
        unscored(assignment, judge_name, ErrorKind.EMPTY_ANSWER, "the answer is empty")
        for assignment in work
        if not assignment.answer.text.strip()
    ]
    return SplitWork(not_empty, judgments)
