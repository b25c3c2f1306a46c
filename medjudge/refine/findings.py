"""The disagreements of a run beyond noise, with suggested causes, and questions that separate models badly.

Causes are rules of thumb on the scores: a physician decides what is wrong with a question.
"""

import re
from collections.abc import Sequence
from enum import Enum
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from medjudge.records import Answer, AnswerKey, Judgment, PhysicianScore, Question
from medjudge.refine.disagreements import Tested, bulk_noise, cluster_means, rater_variance, shifts, sizes
from medjudge.refine.material import Material, Target, answer_keys
from medjudge.rounds import level_of, scored_rounds
from medjudge.scale import LEVELS, USABLE_FROM
from medjudge.statistics.item_response import (
    FEWEST_MODELS,
    FEWEST_QUESTIONS,
    Flawed,
    discriminates,
    fit_two_parameter,
    flawed_items,
)
from medjudge.validation.answers import Pairs

_LENIENT = 0.5
"""Levels above the physicians from which on their comment on an answer may say what the judge overlooks."""


class CauseKind(Enum):
    """A possible cause of a disagreement between judge and physicians, in the words that users and proposers read."""

    JUDGE_MISREAD = "judge misread"
    POINT_MISSING = "checklist point missing"
    REFERENCE_DISPUTABLE = "reference disputable"
    SAFETY_OVERLOOKED = "safety overlooked"
    LEVEL_AMBIGUOUS = "rubric level ambiguous"
    PHYSICIANS_DISAGREE = "physicians disagree with each other"


_FAR_APART = 1.0
"""Mean distance of two physicians, in levels, from which on their own disagreement may be the cause."""
_SAFETY = re.compile(
    r"\b(?:unsafe|danger\w*|harm\w*|contraindicat\w*|overdos\w*|toxic\w*|risk\w*|fatal\w*)\b|危险|有害|禁忌|不安全|过量|风险|致命|中毒",
    re.IGNORECASE,
)


class Cause(NamedTuple):
    """A suggested cause and the evidence for it."""

    kind: CauseKind
    evidence: str

    def as_json(self) -> dict[str, str]:
        return {"name": self.kind.value, "evidence": self.evidence}


def question_causes(
    shift: float,
    size: float,
    pairs: Pairs,
    question: Question,
    answers: dict[AnswerKey, Answer],
    comments: Sequence[str],
) -> list[Cause]:
    """The causes that a question's scores suggest, the likeliest first.

    Args:
        shift: Mean of judge minus physicians in levels, less the judge's usual lenience.
        size: The same as a root mean square over models.
        pairs: The rows of this question, at least one.
        answers: By key.
        comments: The physicians' comments on those answers on which the judge is too lenient.
    """
    direction = "more lenient" if shift > 0 else "stricter"
    evidence = f"judge {abs(shift):.1f} levels {direction} than usual; {_mean_levels(pairs)}"
    if shift > 0 and not question.checklist:
        evidence += "; the question has no checklist"
    candidates = [
        _misread(pairs, question, answers),
        _physicians_disagree(size, pairs),
        _safety(pairs, comments) if shift > 0 else None,
        Cause(CauseKind.POINT_MISSING if shift > 0 else CauseKind.REFERENCE_DISPUTABLE, evidence),
    ]
    return [cause for cause in candidates if cause is not None]


def rubric_causes(shift: float, pairs: Pairs) -> list[Cause]:
    """The causes that the scores of a whole category suggest, the likeliest first."""
    disagreement = _physicians_disagree(abs(shift), pairs)
    direction = "lenient" if shift > 0 else "strict"
    evidence = f"judge {abs(shift):.1f} levels too {direction} throughout the category; {_mean_levels(pairs)}"
    return [*([disagreement] if disagreement else []), Cause(CauseKind.LEVEL_AMBIGUOUS, evidence)]


def comments_of(keys: set[AnswerKey], scores: Sequence[PhysicianScore]) -> list[str]:
    """Comments of physicians on these answers."""
    return [score.comment for score in scores if score.answer_key in keys and score.comment and score.comment.strip()]


def _misread(pairs: Pairs, question: Question, answers: dict[AnswerKey, Answer]) -> Cause | None:
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


def _safety(pairs: Pairs, comments: Sequence[str]) -> Cause | None:
    called_usable = int((pairs.unsafe & (pairs.judge >= USABLE_FROM)).sum())
    if called_usable:
        evidence = f"judge calls {called_usable} of {int(pairs.unsafe.sum())} unsafe answers usable"
        return Cause(CauseKind.SAFETY_OVERLOOKED, evidence)
    term = next((match[0] for match in map(_SAFETY.search, comments) if match), None)
    if term and (pairs.judge >= USABLE_FROM).any() and (pairs.physician < USABLE_FROM).any():
        evidence = f"a physician's comment mentions '{term}', and the judge calls answers usable"
        return Cause(CauseKind.SAFETY_OVERLOOKED, evidence)
    return None


def _mean_levels(pairs: Pairs) -> str:
    return f"mean scores: judge {pairs.expected.mean():.1f}, physicians {np.nanmean(pairs.raters, axis=1).mean():.1f}"


class Finding(NamedTuple):
    """A disagreement beyond noise, in levels.

    Attributes:
        rows: The rows of the material that it was found on.
        shift: Mean of judge minus physicians, less the judge's usual lenience.
        size: The root mean square of the same over models; for a rubric the absolute mean over conversations.
        noise: What noise alone makes of `size`; for a rubric its standard error.
        adjusted_p: The least share of false findings at which this is one.
        causes: The likeliest first, at least one.
        unsafe_only: Whether it concerns only the answers that physicians call unsafe.
    """

    target: Target
    rows: np.ndarray
    shift: float
    size: float
    noise: float
    adjusted_p: float
    causes: list[Cause]
    unsafe_only: bool = False

    def line(self) -> dict[str, Any]:
        """Its line in `disagreements.jsonl`."""
        return {
            **self.target._asdict(),
            "answers": len(self.rows),
            "of": "answers that physicians call unsafe" if self.unsafe_only else "all answers",
            "shift": round(self.shift, 3),
            "size": round(self.size, 3),
            "noise": round(self.noise, 3),
            "adjusted_p": float(f"{self.adjusted_p:.3g}"),
            "cause_suggested": self.causes[0].kind.value,
            "evidence": self.causes[0].evidence,
            "also": [cause.as_json() for cause in self.causes[1:]],
        }


def find(material: Material, fdr: float) -> list[Finding]:
    """The disagreements beyond noise on the proposing part, surest first; the held-out part is not looked at.

    Args:
        material: All scored answers; the `rows` of a finding are rows of its `pairs`.
        fdr: The accepted share of false findings, above 0.
    """
    pairs, proposing = material.pairs, ~material.held_out
    if not proposing.any():
        return []
    view = rater_variance(pairs.raters[proposing], pairs.question_id[proposing])
    findings = _questions(material, np.flatnonzero(proposing), view, fdr)
    findings += _rubrics(material, np.flatnonzero(proposing & ~material.in_held_out_conversation), view, fdr)
    return sorted(findings, key=lambda finding: (finding.adjusted_p, -finding.size / finding.noise, finding.target))


def _questions(material: Material, rows: np.ndarray, view: float, fdr: float) -> list[Finding]:
    """Test each question as a whole, and its unsafe answers alone: these may be one of four."""
    pairs = material.pairs
    names = list(dict.fromkeys(pairs.question_id[rows]))
    groups = [rows[pairs.question_id[rows] == name] for name in names]
    means = [_means(pairs, group, pairs.model) for group in groups]
    category = np.array([material.questions[name].category for name in names], dtype=object)
    centre, variance = bulk_noise(means, category, view / _raters(pairs, groups))
    deviations = [mean - usual for mean, usual in zip(means, centre, strict=True)]
    partly_unsafe = [index for index, group in enumerate(groups) if 0 < pairs.unsafe[group].sum() < len(group)]
    unsafe_groups = [groups[index][pairs.unsafe[groups[index]]] for index in partly_unsafe]
    deviations += [
        _means(pairs, group, pairs.model) - centre[index]
        for index, group in zip(partly_unsafe, unsafe_groups, strict=True)
    ]
    tested = [*groups, *unsafe_groups]
    result = sizes(deviations, view / _raters(pairs, tested), variance)
    findings: dict[str, Finding] = {}
    for index in np.argsort(result.p_value, kind="stable"):
        name = str(pairs.question_id[tested[index][0]])
        if result.adjusted_p[index] > fdr or name in findings:
            continue
        causes = _causes_of(material, tested[index], float(result.shift[index]), float(result.size[index]))
        target, unsafe_only = Target("checklist", name), bool(index >= len(groups))
        findings[name] = _finding(target, tested[index], result, int(index), causes, unsafe_only)
    return list(findings.values())


def _causes_of(material: Material, rows: np.ndarray, shift: float, size: float) -> list[Cause]:
    pairs = material.pairs.only(rows)
    lenient = pairs.only(difference(pairs) > _LENIENT)
    comments = comments_of(set(answer_keys(lenient)), material.scores)
    question = material.questions[str(pairs.question_id[0])]
    return question_causes(shift, size, pairs, question, material.answers, comments)


def _rubrics(material: Material, rows: np.ndarray, view: float, fdr: float) -> list[Finding]:
    """Test each category and language over its conversations; a sound rubric has no shift at all."""
    pairs, names = material.pairs, material.rubric_names
    groups = [rows[names[rows] == name] for name in dict.fromkeys(names[rows])]
    # One conversation says nothing about a category.
    groups = [group for group in groups if len(set(pairs.conversation[group])) > 1]
    if not groups:
        return []
    means = [_means(pairs, group, pairs.conversation) for group in groups]
    result = shifts(means, view / _raters(pairs, groups))
    return [
        _finding(
            Target("rubric", str(names[group[0]])),
            group,
            result,
            index,
            rubric_causes(float(result.shift[index]), pairs.only(group)),
        )
        for index, group in enumerate(groups)
        if result.adjusted_p[index] <= fdr
    ]


def _finding(
    target: Target, rows: np.ndarray, tested: Tested, index: int, causes: list[Cause], unsafe_only: bool = False
) -> Finding:
    shift, size, noise, _, adjusted_p = (float(column[index]) for column in tested)
    return Finding(target, rows, shift, size, noise, adjusted_p, causes, unsafe_only)


def difference(pairs: Pairs) -> np.ndarray:
    """The judge's expected score minus the physicians' mean, in levels, shape (n,)."""
    return pairs.expected - np.nanmean(pairs.raters, axis=1)


def _means(pairs: Pairs, rows: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    return cluster_means(difference(pairs.only(rows)), cluster[rows].astype(str))


def _raters(pairs: Pairs, groups: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([np.isfinite(pairs.raters[group]).any(axis=0).sum() for group in groups])


class FlawedQuestion(NamedTuple):
    """A question with its item of the response model."""

    question_id: str
    item: Flawed

    def as_json(self) -> dict[str, Any]:
        """Its line in `flawed_items.jsonl`."""
        wrong_way = "the wrong way round: weaker models pass it more often"
        separates = wrong_way if self.item.kind == "negative" else "hardly"
        return {
            "question_id": self.question_id,
            "discrimination": self.item.kind,
            "value": round(self.item.discrimination, 3),
            "low": round(self.item.low, 3),
            "high": round(self.item.high, 3),
            "doubt": round(self.item.doubt, 4),
            "reason": f"separates able models from others {separates}; check its reference, checklist and wording",
        }


class FlawedQuestions(NamedTuple):
    """The flawed questions among `questions` that `models` answered; `why` says why none could be found."""

    models: int
    questions: int
    flawed: list[FlawedQuestion]
    why: str | None

    def as_json(self) -> dict[str, Any]:
        """Its entry in `summary.json`."""
        return {"models": self.models, "questions": self.questions, "listed": len(self.flawed), "why": self.why}


def flawed_questions(judgments: Sequence[Judgment], question_ids: set[str]) -> FlawedQuestions:
    """Fit a response model to the judge's usable verdicts, and lists the questions that it finds flawed.

    Args:
        judgments: All judgments of the judge; those of questions that are not in `question_ids` are left out.
    """
    rounds = {key: made for key, made in scored_rounds(judgments).items() if key.question_id in question_ids}
    models = sorted({key.model for key in rounds})
    questions = sorted({key.question_id for key in rounds})
    if len(models) < FEWEST_MODELS or len(questions) < FEWEST_QUESTIONS:
        too_few = (
            f"{len(models)} models and {len(questions)} questions are too few; at least {FEWEST_MODELS} and "
            f"{FEWEST_QUESTIONS} are needed"
        )
        return FlawedQuestions(len(models), len(questions), [], too_few)
    usable, samples = np.zeros((2, len(models), len(questions)))
    for key, made in rounds.items():
        cell = models.index(key.model), questions.index(key.question_id)
        samples[cell] += 1
        usable[cell] += level_of(made) >= USABLE_FROM
    fit = fit_two_parameter(usable, samples)
    why = None if discriminates(fit) else "the questions as a whole hardly separate the models"
    flawed = [FlawedQuestion(questions[item.question], item) for item in flawed_items(fit)]
    return FlawedQuestions(len(models), len(questions), flawed, why)
