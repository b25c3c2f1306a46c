"""Disagreements of judge and physicians in a run, with suggested causes; some answers are held out to try changes on.

Causes are rules of thumb on the scores: a physician decides what is wrong with a question.
"""

from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from hashlib import sha256
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from medjudge.records import Answer, AnswerKey, Judgment, PhysicianScore, Question, grouped
from medjudge.scale import LEVELS, USABLE_FROM
from medjudge.scheme import Scheme
from medjudge.validation.answers import Pairs

Rounds = Mapping[AnswerKey, Sequence[Judgment]]
"""The scored judgments of each answer, one per round."""

_LISTED = 1.0
"""Levels between judge and physicians from which on a question is listed."""
_FAR_APART = 1.0
"""Mean distance of two physicians, in levels, from which on their own disagreement may be the cause."""


class CauseKind(Enum):
    """A possible cause of a disagreement between judge and physicians, in the words that users and proposers read."""

    JUDGE_MISREAD = "judge misread"
    POINT_MISSING = "checklist point missing"
    REFERENCE_DISPUTABLE = "reference disputable"
    SAFETY_OVERLOOKED = "safety overlooked"
    PHYSICIANS_DISAGREE = "physicians disagree with each other"


class Cause(NamedTuple):
    """A suggested cause and the evidence for it."""

    kind: CauseKind
    evidence: str


class Material(NamedTuple):
    """Records and arrays that a refinement works on. Row i of `pairs` is the answer `pairs.keys[i]`; n rows.

    `held_out` marks the rows of held-out answers, shape (n,).
    """

    questions: dict[str, Question]
    answers: dict[AnswerKey, Answer]
    scores: list[PhysicianScore]
    judgments: list[Judgment]
    pairs: Pairs
    held_out: np.ndarray
    scheme: Scheme

    def rows_of(self, question_id: str, held_out: bool) -> np.ndarray:
        """The rows of a question that decide about a change of its checklist, or those that it may be made from."""
        return np.flatnonzero((self.pairs.question_id == question_id) & (self.held_out == held_out))


def split_answers(scored: Iterable[AnswerKey], share: float, seed: int) -> frozenset[AnswerKey]:
    """Draw the answers that decide about changes, and never reach a prompt.

    A checklist belongs to one question, so other questions cannot show whether it got better: other answers to the same
    question are held out, as whole models where there are two (samples of one model resemble each other).

    Args:
        share: Share of each question's models, above 0 and below 1. At least one is held out and one is not; of a
            question with one scored answer none is. A question's draw does not depend on the others.
    """
    held: set[AnswerKey] = set()
    for question_id, keys in grouped(sorted(set(scored)), lambda key: key.question_id).items():
        units = list(grouped(keys, lambda key: key.model).values())
        if len(units) == 1:
            units = [[key] for key in keys]
        draw = np.random.default_rng(int.from_bytes(sha256(f"{seed}/{question_id}".encode()).digest()[:8], "big"))
        count = min(max(round(share * len(units)), 1), len(units) - 1)
        held.update(key for index in draw.permutation(len(units))[:count] for key in units[index])
    return frozenset(held)


class Finding(NamedTuple):
    """A question on which judge and physicians disagree, by its answers that are not held out, and their number.

    `shift` is the mean of judge minus physicians in levels, `size` the root mean square of the same over models;
    `causes` are the likeliest first, at least one.
    """

    question_id: str
    answers: int
    shift: float
    size: float
    causes: list[Cause]

    def line(self) -> dict[str, Any]:
        """Its line in `disagreements.jsonl`."""
        return {
            "name": self.question_id,
            "answers": self.answers,
            "shift": round(self.shift, 3),
            "size": round(self.size, 3),
            "cause_suggested": self.causes[0].kind.value,
            "evidence": self.causes[0].evidence,
            "also": [{"name": cause.kind.value, "evidence": cause.evidence} for cause in self.causes[1:]],
        }


def find(material: Material) -> list[Finding]:
    """The questions on which judge and physicians are a level or more apart, the largest disagreement first."""
    findings = []
    for question_id in dict.fromkeys(material.pairs.question_id):
        pairs = material.pairs.only(material.rows_of(question_id, held_out=False))
        if len(pairs.judge):
            names, model = np.unique(pairs.model.astype(str), return_inverse=True)
            means = np.bincount(model, difference(pairs), len(names)) / np.bincount(model)
            shift, size = float(means.mean()), float(np.sqrt((means**2).mean()))
            if size >= _LISTED:
                causes = question_causes(shift, size, pairs, material.questions[question_id], material.answers)
                findings.append(Finding(question_id, len(model), shift, size, causes))
    return sorted(findings, key=lambda finding: (-finding.size, finding.question_id))


def difference(pairs: Pairs) -> np.ndarray:
    """The judge's expected score minus the physicians' mean, in levels, shape (n,)."""
    return np.asarray(pairs.expected - np.nanmean(pairs.raters, axis=1))


def question_causes(
    shift: float, size: float, pairs: Pairs, question: Question, answers: Mapping[AnswerKey, Answer]
) -> list[Cause]:
    """The causes that a question's scores suggest, the likeliest first; shift and size as of `Finding`."""
    causes = []
    # A right answer that the judge marks down: neither reference nor checklist can be at fault.
    reference = " ".join((question.reference or "").split())
    same = np.array([bool(reference) and " ".join(answers[key].text.split()) == reference for key in pairs.keys])
    misread = same & (np.nanmin(pairs.raters, axis=1) == LEVELS) & (pairs.judge < LEVELS)
    if misread.any():
        levels = ", ".join(str(level) for level in np.unique(pairs.judge[misread]))
        evidence = f"judge gives {levels} to {misread.sum()} answers that equal the reference, and every physician 5"
        causes.append(Cause(CauseKind.JUDGE_MISREAD, evidence))
    distances = [abs(one - other) for row in pairs.raters for one, other in combinations(row[np.isfinite(row)], 2)]
    if distances and np.mean(distances) >= max(_FAR_APART, size):
        evidence = (
            f"two physicians who score the same answer are {np.mean(distances):.1f} levels apart, the judge {size:.1f} "
            "from their mean"
        )
        causes.append(Cause(CauseKind.PHYSICIANS_DISAGREE, evidence))
    overlooked = int((pairs.unsafe & (pairs.judge >= USABLE_FROM)).sum())
    if shift > 0 and overlooked:
        evidence = f"judge calls {overlooked} of {int(pairs.unsafe.sum())} unsafe answers usable"
        causes.append(Cause(CauseKind.SAFETY_OVERLOOKED, evidence))
    evidence = (
        f"judge {abs(shift):.1f} levels {'more lenient' if shift > 0 else 'stricter'} than the physicians; mean "
        f"scores: judge {pairs.expected.mean():.1f}, physicians {np.nanmean(pairs.raters, axis=1).mean():.1f}"
    )
    if shift > 0 and not question.checklist:
        evidence += "; the question has no checklist"
    return [*causes, Cause(CauseKind.POINT_MISSING if shift > 0 else CauseKind.REFERENCE_DISPUTABLE, evidence)]
