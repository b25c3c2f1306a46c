"""One target an answer: what physicians and teachers say of it, joined."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from medjudge.distill.calibrate import Calibration, calibrate_teacher, calibrated, soft_label
from medjudge.distill.raters import rater_labels
from medjudge.errors import InputError
from medjudge.records import CONSTRUCTED, AnswerKey, Judgment, PhysicianScore, Question
from medjudge.rounds import expected_of, level_of
from medjudge.scale import USABLE_FROM, consensus, median_level

Physicians = Mapping[AnswerKey, Mapping[str, int]]
"""Answer -> rater -> level."""
Teachers = Mapping[str, Mapping[AnswerKey, Sequence[Judgment]]]
"""Teacher -> answer -> its scored rounds."""


class Label(NamedTuple):
    """The target of one answer. `copied` is the level that its teachers give without calibration."""

    level: int
    probabilities: np.ndarray
    source: Literal["physician", "constructed", "teacher"]
    scored_by: list[str]
    rationale: str | None
    copied: int | None


class Labels(NamedTuple):
    """The labels, and what there is to say of raters and teachers."""

    by_answer: dict[AnswerKey, Label]
    raters: dict[str, Any]
    teachers: dict[str, dict[str, Any]]


def physicians_by_answer(scores: Iterable[PhysicianScore]) -> dict[AnswerKey, dict[str, int]]:
    """Groups the scores; constructed levels give way where a physician scored.

    Raises:
        InputError: A rater gave one answer two levels.
    """
    given: dict[AnswerKey, dict[str, int]] = {}
    for score in scores:
        levels = given.setdefault(score.answer_key, {})
        if levels.setdefault(score.rater, score.level) != score.level:
            raise InputError(
                f"rater {score.rater} gave the answer of {score.model} to {score.question_id}, sample {score.sample}, "
                f"level {levels[score.rater]} and level {score.level}; keep one of the two"
            )
    return {
        key: {rater: level for rater, level in levels.items() if rater != CONSTRUCTED} or levels
        for key, levels in given.items()
    }


def teachers_by_answer(judgments: Iterable[Judgment]) -> dict[str, dict[AnswerKey, list[Judgment]]]:
    """Groups the judgments that have a score."""
    given: dict[str, dict[AnswerKey, list[Judgment]]] = {}
    for one in judgments:
        if one.score is not None:
            given.setdefault(one.judge, {}).setdefault(one.answer_key, []).append(one)
    return given


def label_answers(
    keys: Collection[AnswerKey],
    physicians: Physicians,
    teachers: Teachers,
    questions: Mapping[str, Question],
    calibrate_on: Collection[AnswerKey] | None,
    seed: int,
) -> Labels:
    """Gives each answer its target.

    A physician outranks a constructed level, and that outranks a teacher. Several physicians become a soft label by
    `rater_labels`; the level stays their mean, rounded down. Several teachers become the mean of their distributions,
    each the calibrated one where its map helps, else the mean over its rounds. The level is the median of a calibrated
    label, and the mean over judgments, rounded down, of one that is not. A rationale argues for one score, so it is
    kept only where that score is the level.

    Args:
        keys: The answers to label.
        calibrate_on: Answers whose physicians' scores may fit a map: those of the training side. None for
            no map: teachers are copied as they are.
        seed: Fixes the folds of the maps.
    """
    wanted = set(keys)
    teachers = {
        name: {key: rounds for key, rounds in given.items() if key in wanted} for name, given in teachers.items()
    }
    scored = {key: given for key, given in physicians.items() if CONSTRUCTED not in given}
    soft, raters = rater_labels(scored)
    levels = {key: consensus(scored[key].values()) for key in calibrate_on or () if key in scored}
    maps = {
        name: Calibration(None, {"applied": False, "why": "no calibration was wanted"})
        if calibrate_on is None
        else calibrate_teacher(rounds, levels, questions, seed)
        for name, rounds in teachers.items()
    }
    after = {name: _mapped(one, teachers[name], questions) for name, one in maps.items()}
    by_answer = {}
    for key in keys:
        rounds = {name: given[key] for name, given in teachers.items() if key in given}
        if key in physicians:
            by_answer[key] = _by_physicians(physicians[key], soft.get(key), rounds)
        else:
            by_answer[key] = _by_teachers(rounds, {name: after[name][key] for name in rounds if key in after[name]})
    return Labels(by_answer, raters, {name: one.report for name, one in maps.items()})


def changes(labels: Mapping[AnswerKey, Label], questions: Mapping[str, Question]) -> dict[str, Any]:
    """What calibration changed in the labels that teachers gave: levels, and usable answers by category."""
    taught = {key: label for key, label in labels.items() if label.copied is not None}
    table = Counter((label.copied, label.level) for label in taught.values())
    categories = sorted({questions[key.question_id].category for key in taught})
    parts = {
        name: [one for key, one in taught.items() if questions[key.question_id].category == name] for name in categories
    }
    return {
        **_usable(taught.values()),
        "other_level": sum(label.copied != label.level for label in taught.values()),
        "levels_before_after": {
            str(before): {str(after): table[before, after] for after in range(1, 6)} for before in range(1, 6)
        },
        "by_category": {name: _usable(part) for name, part in parts.items()},
    }


def _usable(labels: Collection[Label]) -> dict[str, Any]:
    """Answers, and how many are usable by level before and after, and by the sum of their probabilities."""
    return {
        "answers": len(labels),
        "usable_before": sum(label.copied is not None and label.copied >= USABLE_FROM for label in labels),
        "usable_after": sum(label.level >= USABLE_FROM for label in labels),
        "usable_expected": round(float(sum(label.probabilities[USABLE_FROM - 1 :].sum() for label in labels)), 1),
    }


def _mapped(
    calibration: Calibration, rounds: Mapping[AnswerKey, Sequence[Judgment]], questions: Mapping[str, Question]
) -> dict[AnswerKey, np.ndarray]:
    if calibration.teacher_map is None:
        return {}
    keys = list(rounds)
    category = np.array([questions[key.question_id].category for key in keys], dtype=object)
    rows = calibrated(calibration.teacher_map, np.array([expected_of(rounds[key]) for key in keys]), category)
    return dict(zip(keys, rows, strict=True))


def _by_physicians(
    given: Mapping[str, int], soft: np.ndarray | None, rounds: Mapping[str, Sequence[Judgment]]
) -> Label:
    level = consensus(given.values())
    probabilities = np.eye(5)[level - 1] if soft is None else soft
    source: Literal["constructed", "physician"] = "constructed" if CONSTRUCTED in given else "physician"
    return Label(level, probabilities, source, list(given), _rationale(rounds, level), None)


def _by_teachers(rounds: Mapping[str, Sequence[Judgment]], after: Mapping[str, np.ndarray]) -> Label:
    every = [one for given in rounds.values() for one in given]
    copied = level_of(every)
    probabilities = np.mean([after.get(name, soft_label(given)) for name, given in rounds.items()], axis=0)
    level = median_level(probabilities) if after else copied
    scored_by = [f"{one.judge}, round {one.round}" for one in every]
    return Label(level, probabilities, "teacher", scored_by, _rationale(rounds, level), copied)


def _rationale(rounds: Mapping[str, Sequence[Judgment]], level: int) -> str | None:
    every = (one for given in rounds.values() for one in given)
    return next((one.rationale for one in every if one.rationale and one.score == level), None)
