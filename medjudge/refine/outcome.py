"""The result of a refinement, and the files that it is written to."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medjudge.files import write_json, write_whole
from medjudge.refine.changes import Change, changed_questions, kept_texts, unified, version_lines
from medjudge.refine.findings import Finding
from medjudge.refine.flawed_items import FlawedQuestions
from medjudge.refine.material import Material, Rounds, Unscored
from medjudge.refine.proposals import Outcome, Proposal
from medjudge.rounds import level_of
from medjudge.statistics.estimates import Estimate
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
    """What became of the requested proposals; `left_out` maps why a disagreement got no request to how many."""

    requested: int
    proposed: int
    declined: int
    unreadable: int
    failed: int
    unscored: int
    left_out: dict[str, int]

    @property
    def incomplete(self) -> bool:
        """Whether a proposal could not be read, made or scored."""
        return bool(self.unreadable or self.failed or self.unscored)

    def as_json(self) -> dict[str, Any]:
        return {
            "asked": self.requested,
            "proposed": self.proposed,
            "declined": self.declined,
            "unreadable": self.unreadable,
            "failed": self.failed,
            "unscored": self.unscored,
            "left_out": self.left_out,
        }


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
        judge: The judge's name.
        folder: Where all files of the refinement are.
        scored_answers: Answers that both judge and physicians scored.
        held_out_answers: Those of them that decide about changes.
        raters: How many physicians scored.
        unscored: Answers that only the physicians scored.
        fdr: The accepted share of false findings.
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
        """Whether every answer was scored and every proposal could be read, made and scored."""
        return not self.unscored.answers and not (self.revision and self.revision.counts.incomplete)

    def summary_lines(self) -> list[str]:
        """The result in a few lines."""
        lines = [
            f"Judge {self.judge} against {self.raters} physicians: {self.scored_answers} answers, "
            f"{self.held_out_answers} of them held out",
            f"{len(self.findings)} disagreements beyond noise (false discovery rate {self.fdr:g})",
        ]
        causes = Counter(finding.causes[0].kind.text for finding in self.findings)
        lines += [f"  {count}: {cause}" for cause, count in causes.most_common()]
        if self.revision is not None:
            counts = self.revision.counts
            lines.append(f"{counts.proposed} proposals, {len(self.revision.kept)} kept")
            lines += [f"  {change.proposal.name}: {change.decision.why}" for change in self.revision.kept]
        return [*lines, f"Files: {self.folder}"]

    def __str__(self) -> str:
        return "\n".join(self.summary_lines())

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
            "causes": dict(Counter(finding.causes[0].kind.text for finding in self.findings)),
            "flawed_items": self.flawed.as_json(),
            "proposals": None,
            "kept": [],
            "held_out": None,
        }
        if self.revision is not None:
            summary |= {
                "proposals": self.revision.counts.as_json(),
                "kept": [_change_json(change) for change in self.revision.kept],
                "not_kept": [_change_json(change) for change in self.revision.not_kept],
                "held_out": _agreement_json(self.revision.agreement),
            }
        return summary


def count_outcomes(
    proposals: Sequence[Proposal], changes: Sequence[Change], left_out: dict[str, int]
) -> ProposalCounts:
    """Counts what became of the proposals."""
    outcomes = Counter(proposal.outcome for proposal in proposals)
    return ProposalCounts(
        requested=len(proposals),
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
    compared = compare(levels_after, levels_before, pairs.physician, pairs.conversation, _RESAMPLES, seed)
    return JointAgreement(len(rows), before=compared.second, after=compared.first, difference=compared.difference)


def write_findings(folder: Path, findings: Sequence[Finding], flawed: FlawedQuestions) -> None:
    """Writes `disagreements.jsonl` and `flawed_items.jsonl`."""
    _write_lines(folder / "disagreements.jsonl", [finding.line() for finding in findings])
    _write_lines(folder / "flawed_items.jsonl", [question.as_json() for question in flawed.flawed])


def write_changes(folder: Path, material: Material, changes: Sequence[Change]) -> None:
    """Writes the diff, all versions, the kept rubrics and the new benchmark."""
    write_whole(folder / "changes.diff", unified(changes))
    _write_lines(folder / "versions.jsonl", version_lines(changes))
    for name, text in kept_texts(changes, "rubric").items():
        write_whole(folder / "rubrics" / f"{name}.md", text + "\n")
    # With the kept rubrics, so that the folder's questions can be evaluated as they are.
    write_scheme(folder, material.scheme.with_rubrics(kept_texts(changes, "rubric")))
    write_records(folder / "questions.jsonl", changed_questions(list(material.questions.values()), changes))


def write_summary(refinement: Refinement) -> None:
    """Writes `summary.json`."""
    write_json(refinement.folder / "summary.json", refinement.as_json())


def _change_json(change: Change) -> dict[str, Any]:
    decision = change.decision
    numbers = {
        name: None if value is None else float(f"{value:.3g}")
        for name, value in (
            ("improvement", decision.improvement),
            ("standard_error", decision.standard_error),
            ("adjusted_p", decision.adjusted_p),
        )
    }
    return {**change.proposal.target._asdict(), **numbers, "why": decision.why}


def _agreement_json(agreement: JointAgreement | None) -> dict[str, Any] | None:
    return agreement and {
        "answers": agreement.answers,
        "after": agreement.after,
        "before": agreement.before,
        "difference": agreement.difference,
        "note": SELECTION_NOTE,
    }


def _write_lines(file: Path, lines: Iterable[Mapping[str, Any]]) -> None:
    write_whole(file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
