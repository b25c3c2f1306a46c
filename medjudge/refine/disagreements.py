"""Where judge and physicians disagree in a run, with suggested causes; some answers are held out to try changes on.

Causes are rules of thumb on the scores: a physician decides what is wrong with a question.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cached_property
from hashlib import sha256
from itertools import combinations
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import t as student

from medjudge.benchmark.splits import held_out_groups
from medjudge.records import Answer, AnswerKey, Judgment, PhysicianScore, Question, earlier_turns
from medjudge.scale import LEVELS, USABLE_FROM
from medjudge.scheme import Scheme
from medjudge.statistics.bootstrap import Interval
from medjudge.validation.answers import Pairs

TargetKind = Literal["checklist", "rubric"]
Rounds = Mapping[AnswerKey, Sequence[Judgment]]
"""The scored judgments of each answer, one per round."""

QUESTION_SIZE, RUBRIC_SHIFT = 1.0, 0.5
"""Levels between judge and physicians from which on a question, or a category as a whole, is listed."""
_ROUNDING = 1 / 12
"""The variance from rounding to whole levels: the least that a mean of few values is believed to have."""
_FAR_APART = 1.0
"""Mean distance of two physicians, in levels, from which on their own disagreement may be the cause."""


class CauseKind(Enum):
    """A possible cause of a disagreement between judge and physicians, in the words that users and proposers read."""

    JUDGE_MISREAD = "judge misread"
    POINT_MISSING = "checklist point missing"
    REFERENCE_DISPUTABLE = "reference disputable"
    SAFETY_OVERLOOKED = "safety overlooked"
    LEVEL_AMBIGUOUS = "rubric level ambiguous"
    PHYSICIANS_DISAGREE = "physicians disagree with each other"


class Cause(NamedTuple):
    """A suggested cause and the evidence for it."""

    kind: CauseKind
    evidence: str


class Target(NamedTuple):
    """A text that can be changed: the checklist of a question (by id), or a rubric (such as `MK.en`)."""

    kind: TargetKind
    name: str


class Split(NamedTuple):
    """The answers held out, and the conversations held out from the wording of rubrics."""

    answers: frozenset[AnswerKey]
    conversations: frozenset[str]


@dataclass(frozen=True)
class Material:
    """Records and arrays that a refinement works on. Row i of `pairs` is the answer `keys[i]`; n rows."""

    questions: dict[str, Question]
    answers: dict[AnswerKey, Answer]
    scores: list[PhysicianScore]
    judgments: list[Judgment]
    pairs: Pairs
    split: Split
    scheme: Scheme

    @cached_property
    def keys(self) -> list[AnswerKey]:
        """The key of each row."""
        return answer_keys(self.pairs)

    @cached_property
    def scores_of(self) -> dict[AnswerKey, list[PhysicianScore]]:
        """The physicians' scores by answer."""
        by_answer: dict[AnswerKey, list[PhysicianScore]] = {}
        for score in self.scores:
            by_answer.setdefault(score.answer_key, []).append(score)
        return by_answer

    @cached_property
    def earlier(self) -> dict[str, tuple[str, ...]]:
        """The user's earlier turns of each question's conversation, oldest first."""
        return earlier_turns(list(self.questions.values()))

    @cached_property
    def held_out(self) -> np.ndarray:
        """The rows of held-out answers, shape (n,)."""
        return np.array([key in self.split.answers for key in self.keys], dtype=bool)

    def concerned(self, target: Target) -> np.ndarray:
        """The rows that are judged with the target, shape (n,)."""
        if target.kind == "checklist":
            return np.asarray(self.pairs.question_id == target.name)
        return np.array([rubric_name(self.questions[key.question_id]) == target.name for key in self.keys], dtype=bool)

    def deciding(self, target: Target) -> np.ndarray:
        """The held-out rows that decide about a change of the target, shape (n,)."""
        rows = self.concerned(target) & self.held_out
        return rows & self._held_out_conversation if target.kind == "rubric" else rows

    def proposing(self, target: Target) -> np.ndarray:
        """The rows that may be shown to whoever proposes a change of the target, shape (n,)."""
        rows = self.concerned(target) & ~self.held_out
        return rows & ~self._held_out_conversation if target.kind == "rubric" else rows

    @cached_property
    def _held_out_conversation(self) -> np.ndarray:
        return np.array([group in self.split.conversations for group in self.pairs.conversation], dtype=bool)


def answer_keys(pairs: Pairs) -> list[AnswerKey]:
    """The key of each row."""
    rows = zip(pairs.question_id, pairs.model, pairs.sample, strict=True)
    return [AnswerKey(str(question), str(model), int(sample)) for question, model, sample in rows]


def rubric_name(question: Question) -> str:
    """The name of the rubric that answers to a question are judged by."""
    return f"{question.category}.{question.language}"


def split_answers(questions: Sequence[Question], scored: Iterable[AnswerKey], share: float, seed: int) -> Split:
    """Draw the answers that decide about changes, and the conversations that do so for rubrics.

    A checklist belongs to one question, so other questions cannot show whether it got better: other answers to the same
    question are held out, as whole models where there are two (samples of one model resemble each other). A rubric
    serves a category, and what was written after some conversations must hold in others. No held-out answer ever
    reaches a prompt, whatever it is about.

    Args:
        share: Share of each question's models and of each category's conversations, above 0 and below 1. At least one
            is held out and one is not. A question with one scored answer goes with its conversation.
        seed: Fixes the draw. A question's draw does not depend on the other questions.
    """
    by_question: dict[str, list[AnswerKey]] = {}
    for key in sorted(set(scored)):
        by_question.setdefault(key.question_id, []).append(key)
    scored_questions = [question for question in questions if question.id in by_question]
    conversations = held_out_groups(scored_questions, share, seed)
    held: set[AnswerKey] = set()
    for question in scored_questions:
        keys = by_question[question.id]
        if len(keys) == 1:
            held.update(keys if question.group in conversations else ())
            continue
        models = sorted({key.model for key in keys})
        units = [[key for key in keys if key.model == model] for model in models]
        if len(models) == 1:
            units = [[key] for key in keys]
        draw = np.random.default_rng(int.from_bytes(sha256(f"{seed}/{question.id}".encode()).digest()[:8], "big"))
        count = min(max(round(share * len(units)), 1), len(units) - 1)
        held.update(key for index in draw.permutation(len(units))[:count] for key in units[index])
    return Split(frozenset(held), frozenset(conversations))


class Finding(NamedTuple):
    """A disagreement on the answers that are not held out.

    Attributes:
        answers: How many it was found on.
        shift: Mean of judge minus physicians in levels; of a question in a category that is listed itself, less the
            shift of the category.
        size: The root mean square of the same over models; for a rubric the absolute shift.
        causes: The likeliest first, at least one.
    """

    target: Target
    answers: int
    shift: float
    size: float
    causes: list[Cause]

    def line(self) -> dict[str, Any]:
        """Its line in `disagreements.jsonl`."""
        return {
            **self.target._asdict(),
            "answers": self.answers,
            "shift": round(self.shift, 3),
            "size": round(self.size, 3),
            "cause_suggested": self.causes[0].kind.value,
            "evidence": self.causes[0].evidence,
            "also": [{"name": cause.kind.value, "evidence": cause.evidence} for cause in self.causes[1:]],
        }


def find(material: Material) -> list[Finding]:
    """The disagreements, the rubrics first, then the largest; held-out answers are not looked at.

    A rubric is listed where the judge is half a level or more too lenient or too strict throughout its category, with
    an interval over conversations that excludes 0; a question where judge and physicians are a level or more apart.
    """
    pairs = material.pairs
    names = sorted({rubric_name(question) for question in material.questions.values()})
    rubrics = [finding for name in names if (finding := _rubric(material, Target("rubric", name)))]
    shift = np.zeros(len(material.keys))
    for finding in rubrics:
        shift[material.concerned(finding.target)] = finding.shift
    questions = [
        finding
        for name in dict.fromkeys(map(str, pairs.question_id))
        if (finding := _question(material, Target("checklist", name), shift))
    ]
    by_size = sorted(questions, key=lambda finding: (-finding.size, finding.target))
    return sorted(rubrics, key=lambda finding: (-finding.size, finding.target)) + by_size


def _rubric(material: Material, target: Target) -> Finding | None:
    pairs = material.pairs.only(np.flatnonzero(material.proposing(target)))
    means = cluster_means(difference(pairs), pairs.conversation)
    if len(means) < 2:  # one conversation says nothing about a category
        return None
    shift, low, high = mean_interval(means)
    if abs(shift) < RUBRIC_SHIFT or low <= 0 <= high:
        return None
    return Finding(target, len(pairs.judge), shift, abs(shift), rubric_causes(shift, pairs))


def _question(material: Material, target: Target, category_shift: np.ndarray) -> Finding | None:
    rows = np.flatnonzero(material.proposing(target))
    if not len(rows):
        return None
    pairs = material.pairs.only(rows)
    means = cluster_means(difference(pairs) - category_shift[rows], pairs.model)
    shift, size = float(means.mean()), float(np.sqrt((means**2).mean()))
    if size < QUESTION_SIZE:
        return None
    causes = question_causes(shift, size, pairs, material.questions[target.name], material.answers)
    return Finding(target, len(rows), shift, size, causes)


def difference(pairs: Pairs) -> np.ndarray:
    """The judge's expected score minus the physicians' mean, in levels, shape (n,)."""
    return np.asarray(pairs.expected - np.nanmean(pairs.raters, axis=1))


def cluster_means(values: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """The mean of each cluster, shape (clusters,)."""
    names, member = np.unique(clusters.astype(str), return_inverse=True)
    return np.asarray(np.bincount(member, values, len(names)) / np.bincount(member, minlength=len(names)))


def mean_interval(values: np.ndarray) -> Interval:
    """The mean with Student's 95 % interval, its variance at least that of rounding to whole levels.

    Args:
        values: Levels, at least one, shape (n,).

    Returns:
        Without ends (NaN) from a single value.
    """
    n, mean = len(values), float(values.mean())
    if n < 2:
        return Interval(mean, float("nan"), float("nan"))
    reach = float(student.ppf(0.975, n - 1) * np.sqrt(max(values.var(ddof=1), _ROUNDING) / n))
    return Interval(mean, mean - reach, mean + reach)


def question_causes(
    shift: float, size: float, pairs: Pairs, question: Question, answers: Mapping[AnswerKey, Answer]
) -> list[Cause]:
    """The causes that a question's scores suggest, the likeliest first.

    Args:
        shift: Mean of judge minus physicians in levels.
        size: The same as a root mean square over models.
        pairs: The rows of this question, at least one.
        answers: By key.
    """
    direction = "more lenient" if shift > 0 else "stricter"
    evidence = f"judge {abs(shift):.1f} levels {direction} than the physicians; {_mean_levels(pairs)}"
    if shift > 0 and not question.checklist:
        evidence += "; the question has no checklist"
    candidates = [
        _misread(pairs, question, answers),
        _physicians_disagree(size, pairs),
        _safety(pairs) if shift > 0 else None,
        Cause(CauseKind.POINT_MISSING if shift > 0 else CauseKind.REFERENCE_DISPUTABLE, evidence),
    ]
    return [cause for cause in candidates if cause is not None]


def rubric_causes(shift: float, pairs: Pairs) -> list[Cause]:
    """The causes that the scores of a whole category suggest, the likeliest first."""
    disagreement = _physicians_disagree(abs(shift), pairs)
    direction = "lenient" if shift > 0 else "strict"
    evidence = f"judge {abs(shift):.1f} levels too {direction} throughout the category; {_mean_levels(pairs)}"
    return [*([disagreement] if disagreement else []), Cause(CauseKind.LEVEL_AMBIGUOUS, evidence)]


def _misread(pairs: Pairs, question: Question, answers: Mapping[AnswerKey, Answer]) -> Cause | None:
    """A right answer that the judge marks down: neither reference nor checklist can be at fault."""
    reference = " ".join((question.reference or "").split())
    texts = [" ".join(answers[key].text.split()) for key in answer_keys(pairs)]
    same = np.array([bool(reference) and text == reference for text in texts])
    full = np.nanmin(pairs.raters, axis=1) == LEVELS
    if not (rows := same & full & (pairs.judge < LEVELS)).any():
        return None
    levels = ", ".join(str(level) for level in sorted(set(pairs.judge[rows].astype(int).tolist())))
    evidence = f"judge gives {levels} to {int(rows.sum())} answers that equal the reference, and every physician 5"
    return Cause(CauseKind.JUDGE_MISREAD, evidence)


def _physicians_disagree(size: float, pairs: Pairs) -> Cause | None:
    distances = [
        abs(first - second) for row in pairs.raters for first, second in combinations(row[np.isfinite(row)].tolist(), 2)
    ]
    if not distances or np.mean(distances) < max(_FAR_APART, size):
        return None
    evidence = (
        f"two physicians who score the same answer are {np.mean(distances):.1f} levels apart, the judge {size:.1f} "
        "from their mean"
    )
    return Cause(CauseKind.PHYSICIANS_DISAGREE, evidence)


def _safety(pairs: Pairs) -> Cause | None:
    called_usable = int((pairs.unsafe & (pairs.judge >= USABLE_FROM)).sum())
    if not called_usable:
        return None
    evidence = f"judge calls {called_usable} of {int(pairs.unsafe.sum())} unsafe answers usable"
    return Cause(CauseKind.SAFETY_OVERLOOKED, evidence)


def _mean_levels(pairs: Pairs) -> str:
    return f"mean scores: judge {pairs.expected.mean():.1f}, physicians {np.nanmean(pairs.raters, axis=1).mean():.1f}"
