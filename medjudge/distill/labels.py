"""One target per answer: what physicians and teachers say of it, joined; and each physician's bias and noise."""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import norm

from medjudge.distill.calibrate import NOT_CALIBRATED, Calibration, calibrate_teacher, calibrated, soft_label
from medjudge.errors import InputError
from medjudge.records import CONSTRUCTED, AnswerKey, Judgment, PhysicianScore, Question
from medjudge.rounds import binding_by_answer, expected_of, level_of
from medjudge.scale import LEVELS, USABLE_FROM, consensus, median_level

FEWEST_SHARED = 20
"""Answers that a rater must share with others before bias and noise say something of that rater."""

_BIASES = np.round(np.arange(-2, 2.01, 0.05), 2)
_NOISES = np.geomspace(0.2, 3, 28)
_PRIOR_BIAS, _PRIOR_NOISE, _PRIOR_LOG_NOISE = 0.3, 0.6, 0.5
"""Before any score: a bias of 0 with standard deviation 0.3 levels; a noise of 0.6 levels, e^0.5 up or down."""
_ITERATIONS = 500


class RaterLabels(NamedTuple):
    """Probabilities (5,) by answer, and the report on the raters."""

    by_answer: dict[AnswerKey, np.ndarray]
    report: dict[str, Any]


class RaterModel(NamedTuple):
    """One row per answer, one value per rater.

    `labels` (n, 5) are the probabilities of the level behind the scores; NaN in a row without a score. `bias` is how
    far a rater scores above it, in levels; `noise` the standard deviation around that; `reliability` the probability
    that the rater gives that level itself. `prevalence` (5,) is the share of each level.
    """

    labels: np.ndarray
    bias: np.ndarray
    noise: np.ndarray
    reliability: np.ndarray
    prevalence: np.ndarray


def fit_raters(levels: np.ndarray) -> RaterModel:
    """Fits the raters of an ordinal scale by expectation-maximisation.

    The latent level is a class, as in Dawid and Skene (Applied Statistics 28, 1979). A rater is no full confusion
    matrix of 20 numbers but a bias and a noise: a normal around the level, cut into the five scores (after
    Lakshminarayanan and Teh, arXiv 1305.0015). Both have priors, so that two raters with 20 answers stay near unbiased
    ones of equal noise. The maximisation searches a grid of these two numbers, so it always finds the best pair.

    Args:
        levels: 1-5, shape (n, raters), NaN where a rater did not score.
    """
    scored = np.isfinite(levels)
    # One-hot scores, zero where there is none: every sum below runs over what was scored.
    scores = np.eye(LEVELS)[np.where(scored, levels, 1).astype(int) - 1] * scored[..., None]
    table, prior = _grid()
    flat = table.reshape(len(table), -1)
    labels = (scores.sum(axis=1) + 0.1) / (scores.sum(axis=1) + 0.1).sum(axis=1, keepdims=True)
    prevalence, chosen = np.empty(LEVELS), np.empty(0, dtype=int)
    for _ in range(_ITERATIONS):
        counts = np.einsum("nt,nrl->rtl", labels, scores).reshape(levels.shape[1], -1)
        chosen = np.argmax(counts @ flat.T + prior, axis=1)
        prevalence = labels[scored.any(axis=1)].sum(axis=0) + 1
        prevalence /= prevalence.sum()
        log_likelihood = np.einsum("nrl,rtl->nt", scores, table[chosen]) + np.log(prevalence)
        new = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        new /= new.sum(axis=1, keepdims=True)
        moved = np.abs(new - labels).max(initial=0)
        labels = new
        if moved < 1e-6:
            break
    labels[~scored.any(axis=1)] = np.nan
    right = np.exp(np.diagonal(table[chosen], axis1=1, axis2=2))
    bias, noise = np.divmod(chosen, len(_NOISES))
    return RaterModel(labels, _BIASES[bias], _NOISES[noise], right @ prevalence, prevalence)


def rater_labels(scores: Mapping[AnswerKey, Mapping[str, int]]) -> RaterLabels:
    """Soft labels of answers that physicians scored, and a report on the raters.

    Where fewer than 20 answers have several scores, raters cannot be distinguished: the label is the plain mean of the
    one-hot scores. So it is for a single score of a rater who shares fewer than 20 answers with others.

    Args:
        scores: Answer -> rater -> level.
    """
    raters = sorted({rater for by_rater in scores.values() for rater in by_rater})
    column = {rater: index for index, rater in enumerate(raters)}
    levels = np.full((len(scores), len(raters)), np.nan)
    for row, by_rater in enumerate(scores.values()):
        for rater, level in by_rater.items():
            levels[row, column[rater]] = level
    several = np.isfinite(levels).sum(axis=1) > 1
    shared = np.isfinite(levels[several]).sum(axis=0)
    one_hot = np.eye(LEVELS)
    labels = {key: one_hot[np.array(list(by_rater.values())) - 1].mean(axis=0) for key, by_rater in scores.items()}
    model = fit_raters(levels) if several.sum() >= FEWEST_SHARED else None
    if model is not None:
        known = shared >= FEWEST_SHARED
        for row, (key, by_rater) in enumerate(scores.items()):
            if several[row] or known[column[next(iter(by_rater))]]:
                labels[key] = model.labels[row]
    reports: dict[str, dict[str, Any]] = {
        rater: {
            "n": int(np.isfinite(levels[:, index]).sum()),
            "shared": int(shared[index]),
            "bias": None if model is None else round(float(model.bias[index]), 2),
            "noise": None if model is None else round(float(model.noise[index]), 2),
            "reliability": None if model is None else round(float(model.reliability[index]), 3),
        }
        for rater, index in column.items()
    }
    return RaterLabels(labels, {"fitted": model is not None, "several": int(several.sum()), "raters": reports})


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Log P(score | level) for each bias and noise, shape (grid, 5, 5), and the log prior, shape (grid,)."""
    bias, noise = (axis.ravel()[:, None, None] for axis in np.meshgrid(_BIASES, _NOISES, indexing="ij"))
    edges = np.concatenate([[-np.inf], np.arange(1.5, LEVELS), [np.inf]])
    level = np.arange(1, LEVELS + 1)[:, None]
    table = np.log(np.maximum(np.diff(norm.cdf((edges - level - bias) / noise), axis=2), 1e-6))
    log_noise = np.log(noise / _PRIOR_NOISE) / _PRIOR_LOG_NOISE
    prior = -((bias / _PRIOR_BIAS) ** 2 + log_noise**2) / 2
    return table, prior.ravel()


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
    """The labels, and the reports on raters and teachers."""

    by_answer: dict[AnswerKey, Label]
    raters: dict[str, Any]
    teachers: dict[str, dict[str, Any]]


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
    by_teacher: dict[str, dict[AnswerKey, list[Judgment]]] = {}
    for judgment in judgments:
        if judgment.score is not None:
            by_teacher.setdefault(judgment.judge, {}).setdefault(judgment.answer_key, []).append(judgment)
    return by_teacher


def label_answers(
    keys: Collection[AnswerKey],
    physicians: Physicians,
    teachers: Teachers,
    questions: Mapping[str, Question],
    calibrate_on: Collection[AnswerKey] | None,
    seed: int,
) -> Labels:
    """Gives each answer its target.

    A physician outranks a constructed level, which outranks a teacher. Several physicians become a soft label by
    `rater_labels`; the level stays their mean, rounded down. Several teachers become the mean of their distributions,
    each the calibrated one where its map helps, else the mean over its rounds. The level is the median of a calibrated
    label, and the mean over judgments, rounded down, of one that is not. A rationale argues for one score, so it is
    kept only where that score is the level.

    Args:
        calibrate_on: Answers whose physicians' scores may fit a map: those of the training side. None for
            no map: teachers are copied as they are.
    """
    to_label = set(keys)
    teachers = {
        name: {key: rounds for key, rounds in by_answer.items() if key in to_label}
        for name, by_answer in teachers.items()
    }
    scored = {key: levels for key, levels in physicians.items() if CONSTRUCTED not in levels}
    soft, raters = rater_labels(scored)
    levels = {key: consensus(scored[key].values()) for key in calibrate_on or () if key in scored}
    maps = {
        name: NOT_CALIBRATED if calibrate_on is None else calibrate_teacher(rounds, levels, questions, seed)
        for name, rounds in teachers.items()
    }
    after = {name: _mapped(calibration, teachers[name], questions) for name, calibration in maps.items()}
    labels = {}
    for key in keys:
        rounds = {name: by_answer[key] for name, by_answer in teachers.items() if key in by_answer}
        if key in physicians:
            labels[key] = _by_physicians(physicians[key], soft.get(key), rounds)
        else:
            labels[key] = _by_teachers(rounds, {name: after[name][key] for name in rounds if key in after[name]})
    return Labels(labels, raters, {name: calibration.report for name, calibration in maps.items()})


def changes(labels: Mapping[AnswerKey, Label], questions: Mapping[str, Question]) -> dict[str, Any]:
    """Changes by calibration in the labels that teachers gave: levels, and usable answers by category."""
    taught = {key: label for key, label in labels.items() if label.copied is not None}
    table = Counter((label.copied, label.level) for label in taught.values())
    categories = sorted({questions[key.question_id].category for key in taught})
    by_category = {
        category: [label for key, label in taught.items() if questions[key.question_id].category == category]
        for category in categories
    }
    return {
        **_usable(taught.values()),
        "other_level": sum(label.copied != label.level for label in taught.values()),
        "levels_before_after": {
            str(before): {str(after): table[before, after] for after in range(1, LEVELS + 1)}
            for before in range(1, LEVELS + 1)
        },
        "by_category": {category: _usable(labels) for category, labels in by_category.items()},
    }


def _usable(labels: Collection[Label]) -> dict[str, Any]:
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
    levels: Mapping[str, int], soft: np.ndarray | None, rounds: Mapping[str, Sequence[Judgment]]
) -> Label:
    level = consensus(levels.values())
    probabilities = np.eye(LEVELS)[level - 1] if soft is None else soft
    source: Literal["constructed", "physician"] = "constructed" if CONSTRUCTED in levels else "physician"
    return Label(level, probabilities, source, list(levels), _rationale(rounds, level), None)


def _by_teachers(rounds: Mapping[str, Sequence[Judgment]], after: Mapping[str, np.ndarray]) -> Label:
    judgments = [judgment for its_rounds in rounds.values() for judgment in its_rounds]
    copied = level_of(judgments)
    probabilities = np.mean([after.get(name, soft_label(its_rounds)) for name, its_rounds in rounds.items()], axis=0)
    level = median_level(probabilities) if after else copied
    scored_by = [f"{judgment.judge}, round {judgment.round}" for judgment in judgments]
    return Label(level, probabilities, "teacher", scored_by, _rationale(rounds, level), copied)


def _rationale(rounds: Mapping[str, Sequence[Judgment]], level: int) -> str | None:
    judgments = (judgment for its_rounds in rounds.values() for judgment in its_rounds)
    return next((judgment.rationale for judgment in judgments if judgment.rationale and judgment.score == level), None)
