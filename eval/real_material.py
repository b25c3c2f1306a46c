"""The answers of the study on real scores, the splits of them, and whose labels a judge learns from."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from real_calibration import TEACHER
from real_features import UNTRAINED, Features, features_of
from real_head import Lines

from medjudge.distill.calibrate import calibrated, fit_teacher_map
from medjudge.records import AnswerKey
from medjudge.scale import USABLE_FROM
from medjudge.store import Run

FOLDS = 5
UNSEEN = ("questions", "models", "subjects")
FEW = (50, 200, 800, 3200)
SEEDS = (0, 1, 2)
GATES = ("short reference", "no reference", "question has options")
"""Every named number enters a second time for the questions of each of these kinds."""


class Material(NamedTuple):
    """Answers that people and the teacher scored; each array has n rows.

    Attributes:
        keys: Whose they are.
        values: The numbers that trees take, (n, columns).
        gated: Those that a linear head takes, (n, more columns).
        untrained: The untrained judge's number, (n,).
        expected: The teacher's score, (n,).
        people: People's levels, (n,), integers.
        subject: (n,).
        conversation: (n,).
        model: Who answered, (n,).
        tokens: Of question, reference and answer, (n,).
    """

    keys: list[AnswerKey]
    values: np.ndarray
    gated: np.ndarray
    untrained: np.ndarray
    expected: np.ndarray
    people: np.ndarray
    subject: np.ndarray
    conversation: np.ndarray
    model: np.ndarray
    tokens: np.ndarray

    def only(self, rows: np.ndarray) -> "Material":
        """Some of the answers, by row."""
        return Material([self.keys[row] for row in rows], *(each[rows] for each in self[1:]))

    @property
    def usable(self) -> np.ndarray:
        """By people, (n,), bool."""
        usable: np.ndarray = self.people >= USABLE_FROM
        return usable


def material_of(folder: Path, work: Path, axes: Path) -> Material:
    """Reads a converted folder with people's scores and the teacher's, and makes its numbers where they are missing.

    Args:
        folder: The run.
        work: Where its token states and numbers are kept.
        axes: The axes of the projections.
    """
    run = Run(folder)
    features = features_of(run, work, axes)
    questions = {question.id: question for question in run.questions()}
    people = {score.answer_key: score.level for score in run.physician_scores()}
    teacher = {judgment.answer_key: judgment.expected for judgment in run.judgments(TEACHER)}
    rows = [row for row, key in enumerate(features.keys) if key in people and teacher.get(key) is not None]
    keys = [features.keys[row] for row in rows]
    asked = [questions[key.question_id] for key in keys]
    return Material(
        keys=keys,
        values=features.values[rows],
        gated=gated(features)[rows],
        untrained=features.column(UNTRAINED)[rows],
        expected=np.array([teacher[key] for key in keys], float),
        people=np.array([people[key] for key in keys]),
        subject=np.array([question.category for question in asked], dtype=object),
        conversation=np.array([question.group for question in asked], dtype=object),
        model=np.array([key.model for key in keys], dtype=object),
        tokens=features.tokens[rows],
    )


def gated(features: Features) -> np.ndarray:
    """All numbers, and the named ones once more for each kind of question."""
    named = [at for at, name in enumerate(features.names) if " axis " not in name]
    parts = [features.values] + [features.values[:, named] * features.column(gate)[:, None] for gate in GATES]
    return np.hstack(parts)


def folds(material: Material, unseen: str, seed: int) -> np.ndarray:
    """The fold of each answer; those with the same question, model or subject are in one, (n,)."""
    groups = {"questions": material.conversation, "models": material.model, "subjects": material.subject}[unseen]
    names, member = np.unique(groups.astype(str), return_inverse=True)
    fold: np.ndarray = (np.random.default_rng(seed).permutation(len(names)) % FOLDS)[member]
    return fold


def drawn(rows: np.ndarray, count: int, seed: int) -> np.ndarray:
    """The answers that people score: random ones of `rows`; a larger draw of the same seed holds the smaller one."""
    return np.random.default_rng(1000 + seed).permutation(rows)[:count]


def one_hot(levels: np.ndarray) -> np.ndarray:
    """Levels 1 to 5 as probabilities, (n,) -> (n, 5)."""
    labels: np.ndarray = np.eye(5)[np.rint(levels).astype(int) - 1]
    return labels


def lines_for(material: Material, labels: str, rows: np.ndarray, scored: np.ndarray) -> Lines:
    """What a judge learns from.

    Args:
        labels: `teacher` for its scores as they are, `calibrated` for its scores mapped to people's levels, `people`,
            or `both`: people's scores where there are any, the calibrated teacher's elsewhere.
        rows: The answers that may be learned from.
        scored: Those of them that people scored.
    """
    if labels == "people":
        return Lines(scored, one_hot(material.people[scored]), np.ones(len(scored)))
    if labels == "teacher":
        return Lines(rows, one_hot(material.expected[rows]), np.ones(len(rows)))
    both = material.only(scored)
    teacher_map = fit_teacher_map(both.expected, both.people, both.subject, both.conversation)
    soft = calibrated(teacher_map, material.expected[rows], material.subject[rows])
    if labels == "both":
        own = np.isin(rows, scored)
        soft[own] = one_hot(material.people[rows[own]])
    return Lines(rows, soft, np.ones(len(rows)))
