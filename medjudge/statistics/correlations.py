"""Correlations between a judge's scores and physicians' levels, computed from tables of counts.

Every function takes counts of shape (values, levels, ...): how often the judge gave its i-th value and physicians level
j. Values and levels ascend. The result has shape (...); NaN if either side is constant.
"""

import numpy as np

from medjudge.statistics.measures import divided


def spearman(counts: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation with mid-ranks: Pearson's correlation of the ranks."""
    return _correlation(counts, _midranks(counts.sum(axis=1)), _midranks(counts.sum(axis=0)))


def pearson(counts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """Pearson's correlation of the judge's score with physicians' level.

    Args:
        counts: Shape (values, levels, ...).
        values: The judge's value of each row, shape (values,).
    """
    broadcast = (1,) * (counts.ndim - 2)
    levels = np.arange(float(counts.shape[1])).reshape(-1, *broadcast)
    return _correlation(counts, values.reshape(-1, *broadcast), levels)


def kendall_tau_b(counts: np.ndarray) -> np.ndarray:
    """Kendall's tau-b (Kendall, 1945): concordant minus discordant pairs, corrected for ties on both sides."""
    # Concordant partners of a cell are below and to the right of it, discordant ones below and to the left.
    below = counts.sum(axis=0) - np.cumsum(counts, axis=0)
    up_to = np.cumsum(below, axis=1)
    right_minus_left = up_to[:, -1:] - 2 * up_to + below
    total = counts.sum(axis=(0, 1))
    pairs = total * (total - 1) / 2
    untied = [pairs - (mass * (mass - 1) / 2).sum(axis=0) for mass in (counts.sum(axis=1), counts.sum(axis=0))]
    concordant_minus_discordant = (counts * right_minus_left).sum(axis=(0, 1))
    return divided(concordant_minus_discordant, np.sqrt(np.maximum(untied[0] * untied[1], 0)))


def icc(counts: np.ndarray) -> np.ndarray:
    """ICC(2,1), two-way random effects, absolute agreement, single rater (Shrout and Fleiss, 1979).

    Args:
        counts: Square confusion matrices, shape (levels, levels, ...).

    Returns:
        Shape (...); NaN for fewer than two answers, or if all scores are equal.
    """
    n = counts.sum(axis=(0, 1))
    level = np.arange(float(counts.shape[0]))
    sums, differences = np.add.outer(level, level), np.subtract.outer(level, level)
    degrees = np.maximum(n - 1, 0)
    between = divided(_squared_deviations(counts, sums, n), 2 * degrees)
    error = divided(_squared_deviations(counts, differences, n), 2 * degrees)
    raters = n * divided(np.tensordot(differences, counts), n) ** 2 / 2
    return divided(between - error, between + error + 2 * divided(raters - error, n))


def _squared_deviations(counts: np.ndarray, values: np.ndarray, n: np.ndarray) -> np.ndarray:
    mean = divided(np.tensordot(values, counts), n)
    return np.tensordot(values**2, counts) - n * mean**2


def _midranks(mass: np.ndarray) -> np.ndarray:
    return np.cumsum(mass, axis=0) - mass / 2


def _correlation(counts: np.ndarray, first: np.ndarray, second: np.ndarray) -> np.ndarray:
    rows, columns = counts.sum(axis=1), counts.sum(axis=0)
    total = rows.sum(axis=0)
    first = first - divided((rows * first).sum(axis=0), total)
    second = second - divided((columns * second).sum(axis=0), total)
    covariance = ((counts * second).sum(axis=1) * first).sum(axis=0)
    scale = np.sqrt((rows * first**2).sum(axis=0) * (columns * second**2).sum(axis=0))
    # Rounding leaves a small variance in a constant, which counts as zero.
    return divided(covariance, np.where(scale > 1e-9 * total, scale, 0.0))
