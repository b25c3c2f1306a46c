"""Before the first judgment: which questions have an answer, and which of these a judge can read."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from medjudge.errors import InputError
from medjudge.judge.open import AnyRef, FolderRef, PanelRef
from medjudge.records import Question

NEARLY_NONE = 0.05
"""A judge that can read no larger share of the answered questions is refused."""


class Preflight(NamedTuple):
    """A count of what a judge will find.

    Attributes:
        questions: All questions.
        answered: Those that have an answer, or get one in this run.
        readable: Those of the answered ones that the judge can read.
        why_not: The number of the other answered ones by reason.
        to_come: How many models answer in this run.
    """

    questions: int
    answered: int
    readable: int
    why_not: Mapping[str, int]
    to_come: int = 0

    @property
    def reasons(self) -> str:
        """Why the judge cannot read the others: `12 in zh, 3 without a reference`."""
        return ", ".join(f"{number:,} {reason}" for reason, number in self.why_not.items())

    @property
    def line(self) -> str:
        """The numbers in one line. Answers that belong to no question were refused before."""
        reasons = f"; it cannot read {self.reasons}" if self.why_not else ""
        models = f"answers from {self.to_come} model{'s' if self.to_come > 1 else ''} to come"
        answered = models if self.to_come else f"{self.answered:,} of them with an answer"
        few = "; --answered-only leaves the others out" if 2 * self.answered < self.questions else ""
        return f"{self.questions:,} questions, {answered}; the judge can read {self.readable:,} of these{reasons}{few}"


def preflight(
    judge_ref: AnyRef, questions: Sequence[Question], answered: Collection[str], to_come: int = 0
) -> Preflight:
    """Counts before anything is written.

    Args:
        answered: The ids of the questions that have an answer, or get one in this run.
        to_come: How many models answer in this run.

    Raises:
        InputError: No question has an answer, or the judge, or a member of the panel, can read none or nearly none of
            those that have one.
    """
    if isinstance(judge_ref, PanelRef):
        return _of_panel(judge_ref, questions, answered)._replace(to_come=to_come)
    asked = [question for question in questions if question.id in answered]
    if not asked:
        raise InputError(
            f"none of the {len(questions):,} questions has an answer; `medjudge data template` writes a file to fill "
            "in, and --model answers first; nothing was written"
        )
    reasons = [_why_unreadable(judge_ref, question) for question in asked]
    why_not = Counter(reason for reason in reasons if reason is not None)
    counts = Preflight(len(questions), len(asked), len(asked) - why_not.total(), dict(why_not.most_common()), to_come)
    if counts.readable <= NEARLY_NONE * counts.answered:
        raise InputError(
            f"judge {judge_ref.name}: can read {counts.readable:,} of {counts.answered:,} answered questions; it "
            f"cannot read {counts.reasons}. Choose a --judge that can, such as openai:MODEL or a judge trained for "
            "them, or name the questions with --ids FILE; nothing was written"
        )
    return counts


def _of_panel(panel: PanelRef, questions: Sequence[Question], answered: Collection[str]) -> Preflight:
    """Counts what enough members can read for the panel to score it."""
    for member in panel.members:
        try:
            preflight(member, questions, answered)
        except InputError as error:
            raise InputError(f"{panel.place}: member {member.name}: leave it out of the panel; {error}") from None
    asked = [question for question in questions if question.id in answered]
    readers = [sum(_why_unreadable(member, question) is None for member in panel.members) for question in asked]
    readable = sum(number >= panel.settings.fewest for number in readers)
    few = len(asked) - readable
    why_not = {f"that fewer than {panel.settings.fewest} members can read": few} if few else {}
    return Preflight(len(questions), len(asked), readable, why_not)


def _why_unreadable(judge_ref: AnyRef, question: Question) -> str | None:
    if not isinstance(judge_ref, FolderRef):
        return None
    card = judge_ref.card
    if card.only_languages is not None and question.language not in card.only_languages:
        return f"in {question.language}"
    return "without a reference" if card.kind == "similarity" and not question.reference else None
