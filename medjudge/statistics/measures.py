"""Measures of agreement on levels, computed from confusion matrices: a resample needs a matrix, not a pass over rows.

Every function takes counts of shape (5, 5, ...), judge by row and physician by column, and returns an array of shape
(...); NaN if the measure is undefined. The matrices are along the last axes, which makes sums over cells fast.
"""

import numpy as np

from medjudge.scale import LEVELS, USABLE_FROM

_DIFFERENCE = np.subtract.outer(np.arange(5.0), np.arange(5.0))
"""Judge minus physician, in levels."""


def confusion(judge: np.ndarray, physician: np.ndarray, levels: int = LEVELS) -> np.ndarray:
    """Counts pairs of levels.

    Args:
        judge: Levels 1..levels, shape (n,), integers.
        physician: Levels of the same answers in the same order, shape (n,).

    Returns:
        Counts, shape (levels, levels): judge by row, physician by column.

    Raises:
        ValueError: The shapes differ, or a level lies outside 1..levels.
    """
    judge, physician = np.asarray(judge), np.asarray(physician)
    if judge.shape != physician.shape or judge.ndim != 1:
        raise ValueError(f"judge {judge.shape} and physician {physician.shape} must be of one length")
    for name, scores in (("judge", judge), ("physician", physician)):
        if scores.size and (scores.min() < 1 or scores.max() > levels):
            raise ValueError(
                f"{name}: levels from {scores.min()} to {scores.max()}, and the scale goes from 1 to {levels}"
            )
    counts = np.zeros((levels, levels))
    np.add.at(counts, (judge - 1, physician - 1), 1)
    return counts


def two_by_two(counts: np.ndarray) -> np.ndarray:
    """Groups levels into not usable (first) and usable (second): counts (5, 5, ...) -> (2, 2, ...)."""
    cut = USABLE_FROM - 1
    rows = np.stack([counts[:cut].sum(axis=0), counts[cut:].sum(axis=0)])
    return np.stack([rows[:, :cut].sum(axis=1), rows[:, cut:].sum(axis=1)], axis=1)


def usable_agreement(counts: np.ndarray) -> np.ndarray:
    """The share of answers that both call usable or both call not usable (LLMEval-Med, section 4.4)."""
    table = two_by_two(counts)
    return divided(table[0, 0] + table[1, 1], table.sum(axis=(0, 1)))


def cohen_kappa(counts: np.ndarray) -> np.ndarray:
    """Cohen's kappa (Cohen, 1960) on usable / not usable, the chance-corrected partner of `usable_agreement`.

    NaN if both used only one and the same category.
    """
    return _kappa(two_by_two(counts), 1 - np.eye(2))


def quadratic_kappa(counts: np.ndarray) -> np.ndarray:
    """Cohen's kappa with quadratic weights (Cohen, 1968) on all levels; NaN if all scores are equal."""
    return _kappa(counts, _DIFFERENCE**2)


def gwet_ac1(counts: np.ndarray) -> np.ndarray:
    """Gwet's AC1 (Gwet, 2008) on usable / not usable.

    Chance agreement is 2 p (1 - p) with p the mean share of usable, so it stays meaningful if nearly all answers are
    usable, where Cohen's kappa falls to 0 in spite of few disagreements.
    """
    table = two_by_two(counts)
    total = table.sum(axis=(0, 1))
    observed = divided(table[0, 0] + table[1, 1], total)
    usable = divided(table[1].sum(axis=0) + table[:, 1].sum(axis=0), 2 * total)
    by_chance = 2 * usable * (1 - usable)
    return divided(observed - by_chance, 1 - by_chance)


def f1_usable(counts: np.ndarray) -> np.ndarray:
    """F1 for usable answers; NaN if neither calls any answer usable."""
    return _f1(two_by_two(counts), 1)


def f1_unusable(counts: np.ndarray) -> np.ndarray:
    """F1 for unusable answers; NaN if neither calls any answer unusable."""
    return _f1(two_by_two(counts), 0)


def mae(counts: np.ndarray) -> np.ndarray:
    """Mean absolute difference in levels."""
    return divided(np.tensordot(np.abs(_DIFFERENCE), counts), counts.sum(axis=(0, 1)))


def bias(counts: np.ndarray) -> np.ndarray:
    """Mean of judge minus physician in levels: above 0 for a lenient judge."""
    return divided(np.tensordot(_DIFFERENCE, counts), counts.sum(axis=(0, 1)))


def divided(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """Numerator / denominator; NaN where the denominator is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(denominator == 0, np.nan, numerator / np.where(denominator == 0, 1, denominator))


def _kappa(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    observed = np.tensordot(weights, counts) * counts.sum(axis=(0, 1))
    expected = (np.tensordot(weights, counts.sum(axis=0), axes=1) * counts.sum(axis=1)).sum(axis=0)
    return 1 - divided(observed, expected)


def _f1(table: np.ndarray, category: int) -> np.ndarray:
    return divided(2 * table[category, category], table[category].sum(axis=0) + table[:, category].sum(axis=0))
