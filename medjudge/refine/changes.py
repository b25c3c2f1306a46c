"""What became of the proposals: versions, a diff to review, the new benchmark."""

from collections.abc import Mapping, Sequence
from difflib import unified_diff
from typing import Any, NamedTuple

from medjudge.records import Question
from medjudge.refine.decide import Decision, Scored
from medjudge.refine.findings import Target
from medjudge.refine.proposals import Proposal, text_sha256
from medjudge.statistics.estimates import rounded


class Change(NamedTuple):
    """A proposal with its verdict; `held_out` is None where no answer could decide it."""

    proposal: Proposal
    before: str
    decision: Decision
    held_out: Scored | None


def unified(changes: Sequence[Change]) -> str:
    """The kept changes as one unified diff, which `git apply` and `patch -p1` take.

    Rubrics lie as in a scheme's folder, under `rubrics/`, checklists under `checklists/`, a file a question.
    """
    return "".join(
        _diff(change.proposal.target, change.before, change.proposal.text or "")
        for change in changes
        if change.decision.kept
    )


def file_of(target: Target) -> str:
    """Where a text lies, as the diff names it."""
    if target.kind == "rubric":
        return f"rubrics/{target.name}.md"
    return f"checklists/{target.name.replace('/', '--')}.md"


def changed_questions(questions: Sequence[Question], changes: Sequence[Change]) -> list[Question]:
    """The benchmark with the kept checklists; everything else as it was."""
    new = kept_texts(changes, "checklist")
    return [one.model_copy(update={"checklist": new[one.id]}) if one.id in new else one for one in questions]


def kept_texts(changes: Sequence[Change], kind: str) -> dict[str, str]:
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
        asked, decision = change.proposal, change.decision
        target: Mapping[str, str] = asked.target._asdict()
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
                "sha256": text_sha256(asked.text or ""),
                "parent": original,
                "by": asked.by,
                "cause_suggested": asked.cause,
                "kept": decision.kept,
                "why": decision.why,
                "improvement": _shown(decision.improvement),
                "standard_error": _shown(decision.standard_error),
                "adjusted_p": _shown(decision.adjusted_p),
                "held_out": _agreement(change.held_out, after=True),
                "text": asked.text,
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
    there = f"a/{name}" if old else "/dev/null"
    return f"diff --git a/{name} b/{name}\n" + "".join(
        [*([] if old else ["new file mode 100644\n"]), *unified_diff(old, new, there, f"b/{name}")]
    )


def _shown(value: float | None) -> float | None:
    return None if value is None else rounded(value)
