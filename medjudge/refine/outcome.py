"""The result of a refinement."""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from medjudge.records import AnswerKey
from medjudge.refine.disagreements import Finding, Material, Rounds
from medjudge.refine.proposals import Outcome, Proposal
from medjudge.refine.trials import Change
from medjudge.rounds import level_of
from medjudge.statistics.two_judges import compare

SELECTION_NOTE = "the kept changes were selected on these answers, so expect a smaller gain on new ones"


@dataclass(frozen=True, repr=False)
class Refinement:
    """The result of `refine_checklists`; printed, it shows its summary.

    Attributes:
        scored_answers: Answers that both judge and physicians scored.
        held_out_answers: Those of them that decide about changes.
        not_judged: Answers that physicians scored and the judge never judged.
        unscored: Why the judge could not score others -> how many.
        findings: The disagreements, the largest first.
        why_not_refinable: Why no change can affect this judge; None where one can.
        proposals: Every requested proposal; None where none was to be requested.
        left_out: Why a disagreement got no request -> how many.
        changes: Those that were tried.
        agreement: Agreement on all held-out answers before and after the kept changes, and its difference; None where
            no held-out answer has a score.
    """

    judge: str
    folder: Path
    seed: int
    scored_answers: int
    held_out_answers: int
    raters: int
    not_judged: int
    unscored: dict[str, int]
    findings: list[Finding]
    why_not_refinable: str | None = None
    proposals: list[Proposal] | None = None
    left_out: dict[str, int] = field(default_factory=dict)
    changes: list[Change] = field(default_factory=list)
    agreement: dict[str, Any] | None = None

    @property
    def kept(self) -> list[Change]:
        """The changes that were kept."""
        return [change for change in self.changes if change.decision.kept]

    def counts(self) -> dict[str, int]:
        """How many proposals had which outcome."""
        outcomes = Counter(proposal.outcome for proposal in self.proposals or ())
        return {
            "asked": outcomes.total(),
            "proposed": len(self.changes),
            "declined": outcomes[Outcome.DECLINED],
            "unreadable": outcomes[Outcome.UNREADABLE],
            "failed": outcomes[Outcome.FAILED],
            "unscored": sum(change.decision.unscored for change in self.changes),
        }

    @property
    def complete(self) -> bool:
        """Every answer was scored, and every proposal could be read, made and scored."""
        counts = self.counts()
        return not any((self.not_judged, self.unscored, counts["unreadable"], counts["failed"], counts["unscored"]))

    def __str__(self) -> str:
        """The result in a few lines."""
        lines = [
            f"Judge {self.judge} against {self.raters} physicians: {self.scored_answers} answers, "
            f"{self.held_out_answers} of them held out",
            f"{len(self.findings)} disagreements",
        ]
        lines += [f"  {count}: {cause}" for cause, count in self._causes.items()]
        if self.proposals is not None:
            lines.append(f"{len(self.changes)} proposals, {len(self.kept)} kept")
            lines += [f"  {change.proposal.name}: {change.decision.why}" for change in self.kept]
        return "\n".join([*lines, f"Files: {self.folder}"])

    __repr__ = __str__

    @property
    def _causes(self) -> dict[str, int]:
        return dict(Counter(finding.causes[0].kind.value for finding in self.findings).most_common())

    def as_json(self) -> dict[str, Any]:
        """The content of `summary.json`, and what `medjudge refine --json` prints."""
        summary: dict[str, Any] = {
            "judge": self.judge,
            "seed": self.seed,
            "scored_answers": self.scored_answers,
            "held_out_answers": self.held_out_answers,
            "raters": self.raters,
            "unscored": self.not_judged + sum(self.unscored.values()),
            "not_judged": self.not_judged,
            "unscored_why": self.unscored,
            "disagreements": [finding.line() for finding in self.findings],
            "causes": self._causes,
            "proposals": None,
            "kept": [change.as_json() for change in self.kept],
            "held_out": self.agreement,
        }
        if self.proposals is not None:
            summary["proposals"] = {**self.counts(), "left_out": self.left_out}
            summary["not_kept"] = [change.as_json() for change in self.changes if not change.decision.kept]
        return summary


def why_unscored(material: Material) -> dict[AnswerKey, str]:
    """The answers that physicians scored and the judge could not score, each with the reason."""
    scored = {score.answer_key for score in material.scores} - set(material.keys)
    return {
        judgment.answer_key: judgment.error or "no score"
        for judgment in material.judgments
        if judgment.answer_key in scored
    }


def joint_agreement(material: Material, before: Rounds, after: Rounds, seed: int) -> dict[str, Any] | None:
    """Agreement on all held-out answers before and after the kept changes, by one draw of conversations.

    Args:
        after: The judge's scores with the kept changes in place.

    Returns:
        None where no held-out answer has a score.
    """
    rows = np.flatnonzero(material.held_out)
    if not len(rows):
        return None
    keys, pairs = [material.keys[row] for row in rows], material.pairs.only(rows)
    levels_after, levels_before = (
        np.array([level_of(rounds[key]) for key in keys], dtype=int) for rounds in (after, before)
    )
    compared = compare(levels_after, levels_before, pairs.physician, pairs.conversation, resamples=2000, seed=seed)
    return {
        "answers": len(rows),
        "before": compared.second,
        "after": compared.first,
        "difference": compared.difference,
        "note": SELECTION_NOTE,
    }
