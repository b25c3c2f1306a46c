"""One target per answer: what physicians and teachers say of it, joined."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from medjudge.distill.calibrate import NOT_CALIBRATED, Calibration, calibrate_teacher, calibrated, soft_label
from medjudge.errors import InputError
from medjudge.records import CONSTRUCTED, AnswerKey, Judgment, PhysicianScore, Question, grouped
from medjudge.rounds import binding_by_answer, expected_of, level_of, scored_rounds
from medjudge.scale import LEVELS, consensus, median_level

Physicians = Mapping[AnswerKey, Mapping[str, int]]
"""Answer -> rater -> level."""
Teachers = Mapping[str, Mapping[AnswerKey, Sequence[Judgment]]]
"""Teacher -> answer -> its scored rounds."""


class Label(NamedTuple):
    """The target of one answer."""

    level: int
    probabilities: np.ndarray
    source: Literal["physician", "constructed", "teacher", "synthetic"]
    scored_by: list[str]
    rationale: str | None


def physicians_by_answer(scores: Iterable[PhysicianScore]) -> dict[AnswerKey, dict[str, int]]:
    """Groups the scores; constructed levels give way where a physician scored, and all others to an agreed score.

    Raises:
        InputError: A rater gave one answer two levels.
    """
    by_answer: dict[AnswerKey, dict[str, int]] = {}
    for score in chain.from_iterable(binding_by_answer(scores).values()):
        levels = by_answer.setdefault(score.answer_key, {})
        if levels.setdefault(score.rater, score.level) != score.level:
            raise InputError(
                f"rater {score.rater} gave the answer of {score.model} to {score.question_id}, sample {score.sample}, "
                f"level {levels[score.rater]} and level {score.level}; keep one of the two"
            )
    return {
        key: {rater: level for rater, level in levels.items() if rater != CONSTRUCTED} or levels
        for key, levels in by_answer.items()
    }


def teachers_by_answer(judgments: Iterable[Judgment]) -> dict[str, dict[AnswerKey, list[Judgment]]]:
    """Groups the judgments that have a score."""
    by_teacher = grouped(judgments, lambda judgment: judgment.judge)
    return {name: rounds for name, own in by_teacher.items() if (rounds := scored_rounds(own))}


def label_answers(
    keys: Collection[AnswerKey],
    physicians: Physicians,
    teachers: Teachers,
    questions: Mapping[str, Question],
    calibrate_on: Collection[AnswerKey] | None,
    seed: int,
) -> tuple[dict[AnswerKey, Label], dict[str, dict[str, Any]]]:
    """Gives each answer its target, and the reports on teachers.

    A physician outranks a constructed level, which outranks a teacher. Several physicians become a soft label, the
    share of each level; the level stays their mean, rounded down. Several teachers become the mean of their
    distributions, each the calibrated one where its map helps, else the mean over its rounds. The level is the median
    of a calibrated label, and the mean over judgments, rounded down, of one that is not. A rationale argues for one
    score, so it is kept only where that score is the level.

    `calibrate_on` has the answers whose physicians' scores may fit a map: those of the training side; None for no map.
    """
    to_label = set(keys)
    teachers = {
        name: {key: rounds for key, rounds in by_answer.items() if key in to_label}
        for name, by_answer in teachers.items()
    }
    levels = {
        key: consensus(physicians[key].values())
        for key in calibrate_on or ()
        if key in physicians and CONSTRUCTED not in physicians[key]
    }
    maps = {
        name: NOT_CALIBRATED if calibrate_on is None else calibrate_teacher(rounds, levels, questions, seed)
        for name, rounds in teachers.items()
    }
    after = {name: _mapped(calibration, teachers[name], questions) for name, calibration in maps.items()}
    labels = {}
    for key in keys:
        rounds = {name: by_answer[key] for name, by_answer in teachers.items() if key in by_answer}
        if key in physicians:
            labels[key] = _by_physicians(physicians[key], rounds)
        else:
            labels[key] = _by_teachers(rounds, {name: after[name][key] for name in rounds if key in after[name]})
    return labels, {name: calibration.report for name, calibration in maps.items()}


def _mapped(
    calibration: Calibration, rounds: Mapping[AnswerKey, Sequence[Judgment]], questions: Mapping[str, Question]
) -> dict[AnswerKey, np.ndarray]:
    if calibration.teacher_map is None:
        return {}
    keys = list(rounds)
    category = np.array([questions[key.question_id].category for key in keys], dtype=object)
    rows = calibrated(calibration.teacher_map, np.array([expected_of(rounds[key]) for key in keys]), category)
    return dict(zip(keys, rows, strict=True))


def _by_physicians(levels: Mapping[str, int], rounds: Mapping[str, Sequence[Judgment]]) -> Label:
    level = consensus(levels.values())
    probabilities = np.eye(LEVELS)[np.array(list(levels.values())) - 1].mean(axis=0)
    source: Literal["constructed", "physician"] = "constructed" if CONSTRUCTED in levels else "physician"
    return Label(level, probabilities, source, list(levels), _rationale(chain.from_iterable(rounds.values()), level))


def _by_teachers(rounds: Mapping[str, Sequence[Judgment]], after: Mapping[str, np.ndarray]) -> Label:
    judgments = list(chain.from_iterable(rounds.values()))
    probabilities = np.mean([after.get(name, soft_label(its_rounds)) for name, its_rounds in rounds.items()], axis=0)
    level = median_level(probabilities) if after else level_of(judgments)
    scored_by = [f"{judgment.judge}, round {judgment.round}" for judgment in judgments]
    return Label(level, probabilities, "teacher", scored_by, _rationale(judgments, level))


def _rationale(judgments: Iterable[Judgment], level: int) -> str | None:
    return next((judgment.rationale for judgment in judgments if judgment.rationale and judgment.score == level), None)
