"""The result of a refinement, and the files that it is written to."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from difflib import unified_diff
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medjudge.files import write_whole
from medjudge.records import Question
from medjudge.refine.findings import Finding, FlawedQuestions
from medjudge.refine.material import Material, Rounds, Target, Unscored, text_sha256, write_lines
from medjudge.refine.proposals import Outcome, Proposal
from medjudge.refine.trials import Change, Scored, kept_texts
from medjudge.rounds import level_of
from medjudge.statistics.bootstrap import Resampling
from medjudge.statistics.estimates import Estimate, rounded
from medjudge.statistics.two_judges import compare
from medjudge.store import write_records, write_scheme

SELECTION_NOTE = "the kept changes were selected on these answers, so expect a smaller gain on new ones"
_RESAMPLES = 2000


class JointAgreement(NamedTuple):
    """Agreement on all held-out answers before and after the kept changes: measure -> estimate."""

    answers: int
    before: dict[str, Estimate]
    after: dict[str, Estimate]
    difference: dict[str, Estimate]


@dataclass(frozen=True)
class ProposalCounts:
    """Outcomes of the requested proposals; `left_out` maps why a disagreement got no request to how many."""

    asked: int
    proposed: int
    declined: int
    unreadable: int
    failed: int
    unscored: int
    left_out: dict[str, int]

    @property
    def incomplete(self) -> bool:
        """A proposal could not be read, made or scored."""
        return bool(self.unreadable or self.failed or self.unscored)


@dataclass(frozen=True)
class Revision:
    """The changes that were tried, and the agreement with the kept ones; None where no held-out answer has a score."""

    counts: ProposalCounts
    changes: list[Change]
    agreement: JointAgreement | None

    @property
    def kept(self) -> list[Change]:
        return [change for change in self.changes if change.decision.kept]

    @property
    def not_kept(self) -> list[Change]:
        return [change for change in self.changes if not change.decision.kept]


@dataclass(frozen=True, repr=False)
class Refinement:
    """The result of `refine_checklists`; printed, it shows its summary.

    Attributes:
        scored_answers: Answers that both judge and physicians scored.
        held_out_answers: Those of them that decide about changes.
        findings: The disagreements beyond noise, surest first.
        revision: What was changed; None where nothing was proposed.
        why_not_refinable: Why no change can affect this judge; None where one can.
    """

    judge: str
    folder: Path
    seed: int
    scored_answers: int
    held_out_answers: int
    raters: int
    unscored: Unscored
    fdr: float
    findings: list[Finding]
    flawed: FlawedQuestions
    revision: Revision | None = None
    why_not_refinable: str | None = None

    @property
    def complete(self) -> bool:
        """Every answer was scored, and every proposal could be read, made and scored."""
        return not self.unscored.answers and not (self.revision and self.revision.counts.incomplete)

    def __str__(self) -> str:
        """The result in a few lines."""
        lines = [
            f"Judge {self.judge} against {self.raters} physicians: {self.scored_answers} answers, "
            f"{self.held_out_answers} of them held out",
            f"{len(self.findings)} disagreements beyond noise (false discovery rate {self.fdr:g})",
        ]
        causes = Counter(finding.causes[0].kind.value for finding in self.findings)
        lines += [f"  {count}: {cause}" for cause, count in causes.most_common()]
        if self.revision is not None:
            lines.append(f"{self.revision.counts.proposed} proposals, {len(self.revision.kept)} kept")
            lines += [f"  {change.proposal.name}: {change.decision.why}" for change in self.revision.kept]
        return "\n".join([*lines, f"Files: {self.folder}"])

    __repr__ = __str__

    def as_json(self) -> dict[str, Any]:
        """The content of `summary.json`, and what `medjudge refine --json` prints."""
        summary: dict[str, Any] = {
            "judge": self.judge,
            "seed": self.seed,
            "scored_answers": self.scored_answers,
            "held_out_answers": self.held_out_answers,
            "raters": self.raters,
            "unscored": self.unscored.answers,
            "not_judged": self.unscored.not_judged,
            "unscored_why": self.unscored.reasons,
            "fdr": self.fdr,
            "disagreements": [finding.line() for finding in self.findings],
            "causes": dict(Counter(finding.causes[0].kind.value for finding in self.findings)),
            "flawed_items": self.flawed.as_json(),
            "proposals": None,
            "kept": [],
            "held_out": None,
        }
        if self.revision is not None:
            summary |= {
                "proposals": asdict(self.revision.counts),
                "kept": [_change_json(change) for change in self.revision.kept],
                "not_kept": [_change_json(change) for change in self.revision.not_kept],
                "held_out": self.revision.agreement and self.revision.agreement._asdict() | {"note": SELECTION_NOTE},
            }
        return summary


def count_outcomes(
    proposals: Sequence[Proposal], changes: Sequence[Change], left_out: dict[str, int]
) -> ProposalCounts:
    """Count the outcomes of the proposals."""
    outcomes = Counter(proposal.outcome for proposal in proposals)
    return ProposalCounts(
        asked=len(proposals),
        proposed=len(changes),
        declined=outcomes[Outcome.DECLINED],
        unreadable=outcomes[Outcome.UNREADABLE],
        failed=outcomes[Outcome.FAILED],
        unscored=sum(change.held_out is None for change in changes),
        left_out=left_out,
    )


def joint_agreement(material: Material, before: Rounds, after: Rounds, seed: int) -> JointAgreement | None:
    """Agreement on all held-out answers before and after the kept changes, by one draw of conversations.

    The changes were selected on these answers, so the difference flatters them somewhat.

    Args:
        after: The judge's scores with the kept changes in place.

    Returns:
        None where no held-out answer has a score.
    """
    rows = [row for row, key in enumerate(material.keys) if material.held_out[row] and key in after]
    if not rows:
        return None
    keys, pairs = [material.keys[row] for row in rows], material.pairs.only(np.array(rows))
    levels_after, levels_before = (
        np.array([level_of(rounds[key]) for key in keys], dtype=int) for rounds in (after, before)
    )
    how: Resampling = {"resamples": _RESAMPLES, "seed": seed}
    compared = compare(levels_after, levels_before, pairs.physician, pairs.conversation, **how)
    return JointAgreement(len(rows), before=compared.second, after=compared.first, difference=compared.difference)


def write_findings(folder: Path, findings: Sequence[Finding], flawed: FlawedQuestions) -> None:
    """Write `disagreements.jsonl` and `flawed_items.jsonl`."""
    write_lines(folder / "disagreements.jsonl", [finding.line() for finding in findings])
    write_lines(folder / "flawed_items.jsonl", [question.as_json() for question in flawed.flawed])


def write_changes(folder: Path, material: Material, changes: Sequence[Change]) -> None:
    """Write the diff, all versions, the kept rubrics and the new benchmark."""
    write_whole(folder / "changes.diff", unified(changes))
    write_lines(folder / "versions.jsonl", version_lines(changes))
    for name, text in kept_texts(changes, "rubric").items():
        write_whole(folder / "rubrics" / f"{name}.md", text + "\n")
    # With the kept rubrics, so that the folder's questions can be evaluated as they are.
    write_scheme(folder, material.scheme.with_rubrics(kept_texts(changes, "rubric")))
    write_records(folder / "questions.jsonl", changed_questions(list(material.questions.values()), changes))


def _change_json(change: Change) -> dict[str, Any]:
    numbers = {
        name: None if value is None else float(f"{value:.3g}") for name, value in change.decision.numbers().items()
    }
    return {**change.proposal.target._asdict(), **numbers, "why": change.decision.why}


def unified(changes: Sequence[Change]) -> str:
    """The kept changes as one unified diff, which `git apply` and `patch -p1` take.

    Rubrics are under `rubrics/`, as in a scheme's folder; checklists under `checklists/`, one file per question.
    """
    return "".join(
        _diff(change.proposal.target, change.before, change.proposal.text or "")
        for change in changes
        if change.decision.kept
    )


def changed_questions(questions: Sequence[Question], changes: Sequence[Change]) -> list[Question]:
    """The benchmark with the kept checklists; everything else is unchanged."""
    new = kept_texts(changes, "checklist")
    return [
        question.model_copy(update={"checklist": new[question.id]}) if question.id in new else question
        for question in questions
    ]


def version_lines(changes: Sequence[Change]) -> list[dict[str, Any]]:
    """Every version with its hash and its held-out agreement: the text as it was, then the proposed one."""
    lines: list[dict[str, Any]] = []
    for proposal, before, decision, held_out in changes:
        target, original = proposal.target._asdict(), text_sha256(before)
        how: dict[str, Any] = {"parent": original, "by": proposal.by, "cause_suggested": proposal.cause}
        how |= {"kept": decision.kept, "why": decision.why}
        how |= {name: None if value is None else rounded(value) for name, value in decision.numbers().items()}
        for version, text, made in (("as it was", before, {}), ("proposed", proposal.text or "", how)):
            agreement = _agreement(held_out, after=bool(made))
            named = {**target, "version": version, "sha256": text_sha256(text)}
            lines.append({**named, **made, "held_out": agreement, "text": text})
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
    folder = "rubrics" if target.kind == "rubric" else "checklists"
    name = f"{folder}/{target.name.replace('/', '--')}.md"
    old, new = ([f"{line}\n" for line in text.splitlines()] for text in (before, after))
    old_name = f"a/{name}" if old else "/dev/null"
    heading = f"diff --git a/{name} b/{name}\n" + ("" if old else "new file mode 100644\n")
    return heading + "".join(unified_diff(old, new, old_name, f"b/{name}"))
