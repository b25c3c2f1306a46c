"""Which questions of a benchmark are used."""

from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import NamedTuple

from medjudge.errors import InputError
from medjudge.files import read_text
from medjudge.records import Question

_EXAMPLES = 3


class Choice(NamedTuple):
    """A choice of questions. A chosen question brings the earlier turns of its conversation.

    Attributes:
        ids: A text file with the ids of questions, one a line.
        per_category: Only the first so many questions of each category.
        answered_only: Only questions that have an answer.
    """

    ids: Path | None = None
    per_category: int | None = None
    answered_only: bool = False


def chosen(
    questions: Sequence[Question], choice: Choice, answered: Collection[str], limit: int | None = None
) -> list[Question]:
    """The questions of a choice, in their order.

    Args:
        answered: The ids of the questions that have an answer.
        limit: Only the first so many of them.

    Raises:
        InputError: The file of ids cannot be read or names no question, or nothing is left.
    """
    left = list(questions)
    if choice.ids is not None:
        wanted = _ids(choice.ids, questions)
        left = [question for question in left if question.id in wanted]
    if choice.answered_only:
        left = [question for question in left if question.id in answered]
        if not left:
            raise InputError("--answered-only: no question has an answer; leave it out, or give --answers FILE")
    if choice.per_category is not None:
        left = _first_of_each(left, choice.per_category)
    if choice != Choice():
        left = _with_earlier_turns(questions, left)
    return left[:limit]


def examples(ids: Sequence[str]) -> str:
    """A few ids for a message: `'a', 'b', 'c'`."""
    return ", ".join(f"'{name}'" for name in ids[:_EXAMPLES])


def _ids(path: Path, questions: Sequence[Question]) -> set[str]:
    known = {question.id for question in questions}
    listed = {line.strip(): number for number, line in enumerate(read_text(path).split("\n"), 1) if line.strip()}
    if not listed:
        raise InputError(f"--ids {path}: no id in it; write the id of a question on each line")
    strangers = [name for name in listed if name not in known]
    if strangers:
        raise InputError(
            f"--ids {path}, line {listed[strangers[0]]}: '{strangers[0]}' is no question of the benchmark "
            f"({len(strangers)} of {len(listed)} are none); its ids look like {examples([q.id for q in questions])}"
        )
    return set(listed)


def _first_of_each(questions: Sequence[Question], number: int) -> list[Question]:
    taken: Counter[str] = Counter()
    first = []
    for question in questions:
        taken[question.category] += 1
        if taken[question.category] <= number:
            first.append(question)
    return first


def _with_earlier_turns(questions: Sequence[Question], left: Sequence[Question]) -> list[Question]:
    last_round: dict[str, int] = {}
    for question in left:
        last_round[question.group] = max(question.round, last_round.get(question.group, 0))
    kept = {question.id for question in left}
    return [
        question for question in questions if question.id in kept or question.round < last_round.get(question.group, 0)
    ]
