"""The disagreements of a run: each question and category beyond noise, with its suggested causes."""

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from medjudge.records import Answer, AnswerKey, PhysicianScore, Question
from medjudge.refine.causes import Cause, comments_of, question_causes, rubric_causes, usual_overlap
from medjudge.refine.disagreements import bulk_noise, cluster_means, rater_variance, shifts, sizes
from medjudge.refine.split import Split
from medjudge.validation.pairs import Pairs

_LENIENT = 0.5
"""Levels above the physicians from which on their comment on an answer may say what the judge passes over."""


class Target(NamedTuple):
    """What could be changed: the checklist of a question (by id), or a rubric (`MK.en`)."""

    kind: Literal["checklist", "rubric"]
    name: str


class Finding(NamedTuple):
    """A disagreement beyond noise, in levels.

    `rows` are the answers, of those given, that it was found on. `shift` is judge minus physicians in the mean, less
    the judge's usual lenience; `size` the root mean square over models, `noise` what noise alone makes of it (of a
    rubric: the mean over conversations, and its standard error).
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
        """As it stands in `disagreements.jsonl`."""
        return {
            **self.target._asdict(),
            "answers": len(self.rows),
            "of": "answers that physicians call unsafe" if self.unsafe_only else "all answers",
            "shift": round(self.shift, 3),
            "size": round(self.size, 3),
            "noise": round(self.noise, 3),
            "adjusted_p": float(f"{self.adjusted_p:.3g}"),
            "cause_suggested": self.causes[0].name,
            "evidence": self.causes[0].evidence,
            "also": [cause._asdict() for cause in self.causes[1:]],
        }


def answer_keys(pairs: Pairs) -> list[AnswerKey]:
    """The key of each row."""
    rows = zip(pairs.question_id, pairs.model, pairs.sample, strict=True)
    return [AnswerKey(str(question), str(model), int(sample)) for question, model, sample in rows]


def proposing_rows(pairs: Pairs, split: Split) -> tuple[np.ndarray, np.ndarray]:
    """The rows that a checklist, and that a rubric, may be proposed from: two masks of shape (n,)."""
    checklist = np.array([key not in split.answers for key in answer_keys(pairs)], dtype=bool)
    outside = np.array([group not in split.conversations for group in pairs.conversation], dtype=bool)
    return checklist, checklist & outside


def find(
    pairs: Pairs,
    split: Split,
    questions: dict[str, Question],
    answers: dict[AnswerKey, Answer],
    scores: Sequence[PhysicianScore],
    fdr: float,
) -> list[Finding]:
    """The disagreements beyond noise on the proposing part, surest first; the held-out part is not looked at.

    Args:
        pairs: All scored answers, n rows; `rows` of a finding count through them.
        scores: For their comments.
        fdr: The share of false findings that is accepted, above 0.
    """
    of_checklist, of_rubric = proposing_rows(pairs, split)
    if not of_checklist.any():
        return []
    noise = rater_variance(pairs.raters[of_checklist], pairs.question_id[of_checklist])
    found = _questions(pairs, np.flatnonzero(of_checklist), questions, answers, scores, noise, fdr)
    found += _rubrics(pairs, np.flatnonzero(of_rubric), noise, fdr)
    return sorted(found, key=lambda one: (one.adjusted_p, -one.size / one.noise, one.target))


def _questions(
    pairs: Pairs,
    rows: np.ndarray,
    questions: dict[str, Question],
    answers: dict[AnswerKey, Answer],
    scores: Sequence[PhysicianScore],
    noise: float,
    fdr: float,
) -> list[Finding]:
    """Each question as a whole, and its unsafe answers alone: these may be one of four."""
    names = list(dict.fromkeys(pairs.question_id[rows]))
    groups = [rows[pairs.question_id[rows] == name] for name in names]
    means = [_means(pairs, group, pairs.model) for group in groups]
    category = np.array([questions[name].category for name in names], dtype=object)
    centre, variance = bulk_noise(means, category, noise / _raters(pairs, groups))
    deviations = [one - usual for one, usual in zip(means, centre, strict=True)]
    unsafe = [place for place, group in enumerate(groups) if 0 < pairs.unsafe[group].sum() < len(group)]
    some_unsafe = [groups[place][pairs.unsafe[groups[place]]] for place in unsafe]
    tested = [*groups, *some_unsafe]
    deviations += [
        _means(pairs, group, pairs.model) - centre[place] for place, group in zip(unsafe, some_unsafe, strict=True)
    ]
    result = sizes(deviations, noise / _raters(pairs, tested), variance)
    usual = usual_overlap(pairs.only(rows), questions, answers)
    found: dict[str, Finding] = {}
    for place in np.argsort(result.p_value, kind="stable"):
        name = str(pairs.question_id[tested[place][0]])
        if result.adjusted_p[place] > fdr or name in found:
            continue
        some = pairs.only(tested[place])
        lenient = some.only(difference(some) > _LENIENT)
        comments = comments_of(set(answer_keys(lenient)), scores)
        shift, size = float(deviations[place].mean()), float(result.size[place])
        causes = question_causes(shift, size, some, questions[name], answers, comments, usual)
        found[name] = Finding(
            Target("checklist", name),
            tested[place],
            shift,
            size,
            float(result.noise[place]),
            float(result.adjusted_p[place]),
            causes,
            bool(place >= len(groups)),
        )
    return list(found.values())


def _rubrics(pairs: Pairs, rows: np.ndarray, noise: float, fdr: float) -> list[Finding]:
    """Each category and language, over its conversations; a sound rubric has no shift at all."""
    names = np.array([f"{one}.{two}" for one, two in zip(pairs.category, pairs.language, strict=True)], dtype=object)
    groups = [rows[names[rows] == name] for name in dict.fromkeys(names[rows])]
    # One conversation says nothing of a category.
    groups = [group for group in groups if len(set(pairs.conversation[group])) > 1]
    if not groups:
        return []
    means = [_means(pairs, group, pairs.conversation) for group in groups]
    result = shifts(means, noise / _raters(pairs, groups))
    return [
        Finding(
            Target("rubric", str(names[group[0]])),
            group,
            float(result.shift[place]),
            abs(float(result.shift[place])),
            float(result.standard_error[place]),
            float(result.adjusted_p[place]),
            rubric_causes(float(result.shift[place]), pairs.only(group)),
        )
        for place, group in enumerate(groups)
        if result.adjusted_p[place] <= fdr
    ]


def difference(pairs: Pairs) -> np.ndarray:
    """The judge's expected score minus the physicians' mean, in levels, shape (n,)."""
    return pairs.expected - np.nanmean(pairs.raters, axis=1)


def _means(pairs: Pairs, rows: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    some = pairs.only(rows)
    return cluster_means(difference(some), cluster[rows].astype(str))


def _raters(pairs: Pairs, groups: Sequence[np.ndarray]) -> np.ndarray:
    return np.array([np.isfinite(pairs.raters[group]).any(axis=0).sum() for group in groups])
