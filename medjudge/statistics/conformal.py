"""Conformal sets: the labels that a judge cannot rule out at a given error rate, and which answers to defer."""

import math
from typing import NamedTuple

import numpy as np

from medjudge.errors import InputError
from medjudge.scale import LEVELS, USABLE_FROM
from medjudge.statistics.estimates import Record, Rounded

_ROUNDING = 1e-8
"""Tolerance of the comparison with a threshold, so that a calibration answer is in its own set."""


class Conformal(NamedTuple):
    """Thresholds as plain numbers, which can be stored as JSON.

    A label is in the set if 1 - its probability is at most the threshold: `usable` over the two labels, `level` over
    the five. `calibrated_on` counts conversations.
    """

    error_rate: float
    usable_threshold: float
    level_threshold: float
    calibrated_on: int


class SetQuality(Record):
    """Means over conversations: sets with the physicians' label, labels per set, and sets with exactly one label."""

    coverage: Rounded | None
    mean_size: Rounded | None
    certain: Rounded | None


class CrossCoverage(NamedTuple):
    """The quality of sets on conversations that they were not calibrated on."""

    usable: SetQuality
    level: SetQuality


def fit_conformal(
    probabilities: np.ndarray, levels: np.ndarray, clusters: np.ndarray, error_rate: float = 0.1, seed: int = 0
) -> Conformal | None:
    """Split conformal prediction (Vovk, Gammerman and Shafer, 2005) with the score 1 - P(label).

    The score is LAC (Sadinle, Lei and Wasserman, 2019). Conversations are exchangeable, answers of one conversation are
    not, so one random answer of each is used. A set then contains the physicians' label of a random answer of a new
    conversation with probability at least 1 - error_rate: on average over all answers, not per category or level.

    Args:
        probabilities: The judge's probabilities of levels 1..5, shape (n, 5), on answers that it was not trained on.
        levels: The physicians' levels, shape (n,), integers.
        clusters: The conversation of each answer, shape (n,).
        error_rate: How often a set may miss, above 0 and below 1.
        seed: The seed of the draw of answers.

    Returns:
        None if there are fewer conversations than `conversations_needed`.

    Raises:
        InputError: The error rate lies outside 0..1.
        ValueError: The shapes differ, a row is not of probabilities, or a level lies outside 1..5.
    """
    probabilities, levels, clusters = _checked(probabilities, levels, clusters)
    rows = _one_answer_each(clusters, seed)
    if len(rows) < conversations_needed(error_rate):
        return None
    usable = (levels[rows] >= USABLE_FROM).astype(int)
    return Conformal(
        error_rate,
        _threshold(_two_labels(probabilities[rows]), usable, error_rate),
        _threshold(probabilities[rows], levels[rows] - 1, error_rate),
        len(rows),
    )


def conversations_needed(error_rate: float) -> int:
    """The fewest conversations m with ceil((m + 1)(1 - error_rate)) <= m.

    With fewer, only the set of all labels keeps the error rate.

    Raises:
        InputError: The error rate lies outside 0..1.
    """
    if not 0 < error_rate < 1:
        raise InputError(f"error rate: {error_rate} is not above 0 and below 1; 0.1 lets one set in ten miss")
    # Starts from the closed form, then uses the same expression as the threshold, including its rounding.
    needed = max(1, math.ceil(1 / error_rate) - 2)
    while math.ceil((needed + 1) * (1 - error_rate)) > needed:
        needed += 1
    return needed


def usable_sets(conformal: Conformal, probabilities: np.ndarray) -> np.ndarray:
    """Which of unusable and usable a judge cannot rule out; (n, 5) probabilities -> (n, 2) bool.

    Exactly one label is a certain answer; both labels, or none, should be deferred to a physician.
    """
    return _within(_two_labels(_normalised(probabilities)), conformal.usable_threshold)


def level_sets(conformal: Conformal, probabilities: np.ndarray) -> np.ndarray:
    """Which of the five levels a judge cannot rule out; (n, 5) probabilities -> (n, 5) bool."""
    return _within(_normalised(probabilities), conformal.level_threshold)


def cross_conformal_coverage(
    probabilities: np.ndarray,
    levels: np.ndarray,
    clusters: np.ndarray,
    error_rate: float = 0.1,
    folds: int = 5,
    seed: int = 0,
) -> CrossCoverage | None:
    """Held-out coverage: the sets of each fold of conversations are calibrated on the other folds.

    Each conversation counts once, as in the guarantee, regardless of its number of answers.

    Args:
        probabilities: The judge's probabilities of levels 1..5, shape (n, 5).
        levels: The physicians' levels, shape (n,), integers.
        clusters: The conversation of each answer, shape (n,).
        error_rate: How often a set may miss, above 0 and below 1.
        folds: The number of folds, at least 2.
        seed: The seed of the folds and of the draws of answers.

    Returns:
        None if the other folds of any fold have too few conversations for the error rate.
    """
    probabilities, levels, clusters = _checked(probabilities, levels, clusters)
    names, cluster = np.unique(clusters, return_inverse=True)
    fold = (np.random.default_rng(seed).permutation(len(names)) % folds)[cluster]
    usable = np.zeros((len(levels), 2), dtype=bool)
    level = np.zeros((len(levels), LEVELS), dtype=bool)
    for number in range(folds):
        held_out = fold == number
        conformal = fit_conformal(probabilities[~held_out], levels[~held_out], clusters[~held_out], error_rate, seed)
        if conformal is None:
            return None
        usable[held_out] = usable_sets(conformal, probabilities[held_out])
        level[held_out] = level_sets(conformal, probabilities[held_out])
    return CrossCoverage(
        _quality(usable, (levels >= USABLE_FROM).astype(int), cluster), _quality(level, levels - 1, cluster)
    )


def most_uncertain(usable_probability: np.ndarray, share: float, sets: np.ndarray | None = None) -> np.ndarray:
    """The answers that a physician should see first: those the judge is least certain about.

    Answers whose conformal set does not have exactly one label come first, then those with P(usable) nearest to one
    half. Ties keep the order of rows.

    Args:
        usable_probability: The judge's P(usable), 0..1, shape (n,).
        share: The share of answers to defer, 0..1.
        sets: Sets from `usable_sets`, shape (n, 2); None to use the probability alone.

    Returns:
        Row indices, most uncertain first, shape (ceil(share * n),).

    Raises:
        InputError: The share lies outside 0..1.
        ValueError: The shapes differ.
    """
    probability = np.asarray(usable_probability, float)
    if not 0 <= share <= 1:
        raise InputError(f"share to defer: {share} is not between 0 and 1; 0.2 defers one answer in five")
    sets = np.ones((len(probability), 2), dtype=bool) if sets is None else np.asarray(sets, bool)
    if probability.ndim != 1 or sets.shape != (len(probability), 2):
        raise ValueError(f"usable_probability {probability.shape} and sets {sets.shape} must be (n,) and (n, 2)")
    certain = sets.sum(axis=1) == 1
    # Rounded, so that 0.3 and 0.7 tie and 0.07 of 100 answers are 7.
    order = np.lexsort((np.round(np.abs(probability - 0.5), 12), certain))
    return order[: math.ceil(round(share * len(probability), 9))]


def _threshold(probabilities: np.ndarray, labels: np.ndarray, error_rate: float) -> float:
    """The ceil((n + 1)(1 - error_rate))-th smallest of the scores 1 - P(label)."""
    scores = np.sort(1 - probabilities[np.arange(len(labels)), labels])
    return float(scores[math.ceil((len(scores) + 1) * (1 - error_rate)) - 1])


def _within(probabilities: np.ndarray, threshold: float) -> np.ndarray:
    return (1 - probabilities) - threshold <= _ROUNDING


def _two_labels(probabilities: np.ndarray) -> np.ndarray:
    usable = probabilities[:, USABLE_FROM - 1 :].sum(axis=1)
    return np.column_stack([1 - usable, usable])


def _normalised(probabilities: np.ndarray) -> np.ndarray:
    """Scales rows to add up to 1 exactly; those of judgments are rounded."""
    probabilities = np.asarray(probabilities, float)
    if probabilities.ndim != 2 or probabilities.shape[1] != LEVELS:
        raise ValueError(f"probabilities {probabilities.shape} must be (n, {LEVELS})")
    total = probabilities.sum(axis=1, keepdims=True)
    if not ((probabilities >= 0).all() and (np.abs(total - 1) <= 0.002).all()):
        raise ValueError("probabilities: a row has a number below 0, or does not add up to 1")
    return probabilities / total


def _checked(
    probabilities: np.ndarray, levels: np.ndarray, clusters: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    probabilities, levels, clusters = _normalised(probabilities), np.asarray(levels), np.asarray(clusters).astype(str)
    if not len(probabilities) == len(levels) == len(clusters):
        raise ValueError(
            f"{len(probabilities)} probabilities, {len(levels)} levels and {len(clusters)} clusters differ"
        )
    if len(levels) and (levels.min() < 1 or levels.max() > LEVELS):
        raise ValueError(f"levels: from {levels.min()} to {levels.max()}, and the scale goes from 1 to {LEVELS}")
    return probabilities, levels, clusters


def _one_answer_each(clusters: np.ndarray, seed: int) -> np.ndarray:
    """A random row of each cluster, shape (clusters,)."""
    shuffled = np.random.default_rng(seed).permutation(len(clusters))
    _, first = np.unique(clusters[shuffled], return_index=True)
    return shuffled[first]


def _quality(sets: np.ndarray, labels: np.ndarray, cluster: np.ndarray) -> SetQuality:
    answers = np.bincount(cluster)
    size = sets.sum(axis=1)

    def mean(values: np.ndarray) -> float:
        return float(np.mean(np.bincount(cluster, weights=values) / answers))

    covered = mean(sets[np.arange(len(labels)), labels])
    return SetQuality(coverage=covered, mean_size=mean(size), certain=mean(size == 1))
