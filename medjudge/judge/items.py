"""The interface of judges of items: an answer and the items of its question in, whether it meets each of them out."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple, Protocol

from medjudge.item_records import ItemJudgment, ItemVerdict
from medjudge.records import Answer, ErrorKind, Question, RubricItem, earlier_turns
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.text.checklist_items import items_of


class ItemAssignment(NamedTuple):
    """One answer to check against the items of its question; `earlier` are the user's earlier turns, oldest first."""

    question: Question
    earlier: tuple[str, ...]
    answer: Answer
    items: tuple[RubricItem, ...]
    scheme: Scheme = LLMEVAL_MED


class ItemJudge(Protocol):
    """Checks answers against items. `name` is also the name of the file of verdicts."""

    name: str

    def judge_items(self, assignments: Sequence[ItemAssignment]) -> Iterator[ItemJudgment]:
        """Yields one judgment for each assignment, in any order, as soon as it is made."""
        ...


def item_assignments(
    questions: Iterable[Question], answers: Iterable[Answer], scheme: Scheme = LLMEVAL_MED
) -> list[ItemAssignment]:
    """One assignment per answer to a question that has items; see `items_of`."""
    by_id = {question.id: question for question in questions}
    earlier = earlier_turns(list(by_id.values()))
    items = {name: tuple(items_of(question)) for name, question in by_id.items()}
    return [
        ItemAssignment(by_id[name], earlier[name], answer, items[name], scheme)
        for answer in answers
        if items.get(name := answer.question_id)
    ]


def judged_items(
    assignment: ItemAssignment,
    judge_name: str,
    met: Iterable[float],
    *,
    raw: str | None = None,
    answer_tokens_cut: int = 0,
) -> ItemJudgment:
    """An answer with a verdict on each item.

    Args:
        met: The probability that each item is met, in the order of the assignment's items.
    """
    verdicts = [
        ItemVerdict(item=item.text, met=round(float(probability), 6))
        for item, probability in zip(assignment.items, met, strict=True)
    ]
    answer = assignment.answer
    return ItemJudgment(
        question_id=answer.question_id,
        model=answer.model,
        sample=answer.sample,
        judge=judge_name,
        items=verdicts,
        raw=raw,
        answer_tokens_cut=answer_tokens_cut,
    )


def unjudged_items(
    assignment: ItemAssignment, judge_name: str, kind: ErrorKind, error: str, raw: str | None = None
) -> ItemJudgment:
    """An answer without verdicts; `kind` and `error` say why, as those of an unscored judgment do."""
    answer = assignment.answer
    return ItemJudgment(
        question_id=answer.question_id,
        model=answer.model,
        sample=answer.sample,
        judge=judge_name,
        items=None,
        error_kind=kind,
        error=error,
        raw=raw,
    )


class SplitItems(NamedTuple):
    """Answers that a judge must check, and the judgments of those that it need not look at."""

    work: list[ItemAssignment]
    judgments: list[ItemJudgment]


def split_empty_answers(work: Sequence[ItemAssignment], judge_name: str) -> SplitItems:
    """Separates empty answers, which no model is asked to check."""
    full = [assignment for assignment in work if assignment.answer.text.strip()]
    judgments = [
        unjudged_items(assignment, judge_name, ErrorKind.EMPTY_ANSWER, "the answer is empty")
        for assignment in work
        if not assignment.answer.text.strip()
    ]
    return SplitItems(full, judgments)
