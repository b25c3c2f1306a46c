"""Before the first judgment: which questions have an answer, and which of these a judge can read."""

from collections import Counter
from collections.abc import Collection, Sequence

from medjudge.errors import InputError
from medjudge.judge.open import AnyRef, FolderRef, MemberRef, PanelRef
from medjudge.records import Question

NEARLY_NONE = 0.05
"""A judge that can read no larger share of the answered questions is refused."""


def preflight(judge_ref: AnyRef, questions: Sequence[Question], answered: Collection[str], to_come: int = 0) -> str:
    """Counts before anything is written, and returns the counts in one line.

    Args:
        answered: The ids of the questions that have an answer, or get one in this run.
        to_come: How many models answer in this run.

    Raises:
        InputError: No question has an answer, or the judge, or a member of the panel, can read none or nearly none of
            those that have one.
    """
    asked = [question for question in questions if question.id in answered]
    if not asked:
        raise InputError(
            f"none of the {len(questions):,} questions has an answer; `medjudge data template` writes a file to fill "
            "in, and --model answers first; nothing was written"
        )
    reasons = _of_panel(judge_ref, asked) if isinstance(judge_ref, PanelRef) else _of_judge(judge_ref, asked)
    readable = reasons.count(None)
    cannot = f"; it cannot read {_listed(reasons)}" if readable < len(asked) else ""
    models = f"answers from {to_come} model{'s' if to_come > 1 else ''} to come"
    with_answers = models if to_come else f"{len(asked):,} of them with an answer"
    few = "; --answered-only leaves the others out" if 2 * len(asked) < len(questions) else ""
    return f"{len(questions):,} questions, {with_answers}; the judge can read {readable:,} of these{cannot}{few}"


def _of_judge(judge_ref: MemberRef, asked: Sequence[Question]) -> list[str | None]:
    """The reason why a judge cannot read each question; None for one that it can."""
    reasons = [_why_unreadable(judge_ref, question) for question in asked]
    if reasons.count(None) <= NEARLY_NONE * len(asked):
        raise InputError(
            f"judge {judge_ref.name}: can read {reasons.count(None):,} of {len(asked):,} answered questions; it cannot "
            f"read {_listed(reasons)}. Choose a --judge that can, such as openai:MODEL or a judge "
            "trained for them, or name the questions with --ids FILE; nothing was written"
        )
    return reasons


def _of_panel(panel: PanelRef, asked: Sequence[Question]) -> list[str | None]:
    """As `_of_judge`: a panel scores what enough members can read."""
    by_member = []
    for member in panel.members:
        try:
            by_member.append(_of_judge(member, asked))
        except InputError as error:
            raise InputError(f"{panel.place}: member {member.name}: leave it out of the panel; {error}") from None
    few = f"that fewer than {panel.settings.fewest} members can read"
    return [None if reasons.count(None) >= panel.settings.fewest else few for reasons in zip(*by_member, strict=True)]


def _listed(reasons: Sequence[str | None]) -> str:
    why_not = Counter(reason for reason in reasons if reason is not None)
    return ", ".join(f"{number:,} {reason}" for reason, number in why_not.most_common())


def _why_unreadable(judge_ref: MemberRef, question: Question) -> str | None:
    if not isinstance(judge_ref, FolderRef):
        return None
    card = judge_ref.card
    if card.only_languages is not None and question.language not in card.only_languages:
        return f"in {question.language}"
    return "without a reference" if card.kind == "similarity" and not question.reference else None
