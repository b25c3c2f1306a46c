"""Proposals with their decisions, as versions, as a diff to review, and as the new benchmark."""

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Any, NamedTuple

from medjudge.records import Question
from medjudge.refine.decide import Decision, Scored
from medjudge.refine.material import Target, TargetKind
from medjudge.refine.proposals import Proposal, text_sha256
from medjudge.statistics.estimates import rounded


class Change(NamedTuple):
    """A proposal with its decision; `held_out` is None where answers could not be scored with it."""

    proposal: Proposal
    before: str
    decision: Decision
    held_out: Scored | None


def unified(changes: Sequence[Change]) -> str:
    """The kept changes as one unified diff, which `git apply` and `patch -p1` take.

    Rubrics are under `rubrics/`, as in a scheme's folder; checklists under `checklists/`, one file per question.
    """
    return "".join(
        _diff(change.proposal.target, change.before, change.proposal.text or "")
        for change in changes
        if change.decision.kept
    )


def file_of(target: Target) -> str:
    """The path of a text in the diff."""
    if target.kind == "rubric":
        return f"rubrics/{target.name}.md"
    return f"checklists/{target.name.replace('/', '--')}.md"


def changed_questions(questions: Sequence[Question], changes: Sequence[Change]) -> list[Question]:
    """The benchmark with the kept checklists; everything else is unchanged."""
    new = kept_texts(changes, "checklist")
    return [
        question.model_copy(update={"checklist": new[question.id]}) if question.id in new else question
        for question in questions
    ]


def kept_texts(changes: Sequence[Change], kind: TargetKind) -> dict[str, str]:
    """The kept texts of one kind, by name."""
    return {
        change.proposal.name: change.proposal.text or ""
        for change in changes
        if change.decision.kept and change.proposal.kind == kind
    }


def version_lines(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Every version with its hash and its held-out agreement: the text as it was, then the proposed one."""
    lines: list[dict[str, Any]] = []
    for change in changes:
        proposal, decision = change.proposal, change.decision
        target: Mapping[str, str] = proposal.target._asdict()
        original = text_sha256(change.before)
        lines.append(
            {
                **target,
                "version": "as it was",
                "sha256": original,
                "held_out": _agreement(change.held_out, after=False),
                "text": change.before,
            }
        )
        lines.append(
            {
                **target,
                "version": "proposed",
                "sha256": text_sha256(proposal.text or ""),
                "parent": original,
                "by": proposal.by,
                "cause_suggested": proposal.cause,
                "kept": decision.kept,
                "why": decision.why,
                "improvement": _rounded(decision.improvement),
                "standard_error": _rounded(decision.standard_error),
                "adjusted_p": _rounded(decision.adjusted_p),
                "held_out": _agreement(change.held_out, after=True),
                "text": proposal.text,
            }
        )
    return lines


def _agreement(scored: Scored | None, after: bool) -> dict[str, Any] | None:
    """Mean distance in levels, and usable agreement."""
    if scored is None or not len(scored.physician):
        return None
    judge = scored.after if after else scored.before
    return {
        "answers": len(judge),
        "distance": rounded(float(abs(judge - scored.physician).mean())),
        "usable_agreement": rounded(scored.usable_agreement()[after]),
    }


def _diff(target: Target, before: str, after: str) -> str:
    name = file_of(target)
    old, new = ([f"{line}\n" for line in text.splitlines()] for text in (before, after))
    old_name = f"a/{name}" if old else "/dev/null"
    return f"diff --git a/{name} b/{name}\n" + "".join(
        [*([] if old else ["new file mode 100644\n"]), *unified_diff(old, new, old_name, f"b/{name}")]
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else rounded(value)
