"""Measures of agreement on levels, computed from confusion matrices: a resample needs a matrix, not a pass over rows.

Every function takes counts of shape (5, 5, ...), judge by row and physician by column, and returns an array of shape
(...); NaN if the measure is undefined. The matrices are along the last axes, which makes sums over cells fast.
"""

import numpy as np

from medjudge.scale import LEVELS, USABLE_FROM

_DIFFERENCE = np.subtract.outer(np.arange(5.0), np.arange(5.0))
"""Judge minus physician, in levels."""


def confusion(judge: np.ndarray, physician: np.ndarray) -> np.ndarray:
    """Counts pairs of levels.

    Args:
        judge: Levels 1 to 5, shape (n,), integers.
        physician: Levels of the same answers in the same order, shape (n,).
    """
    cells = (judge - 1) * LEVELS + physician - 1
    return np.bincount(cells, minlength=LEVELS**2).reshape(LEVELS, LEVELS).astype(float)


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
    return kappa(two_by_two(counts), 1 - np.eye(2))


def quadratic_kappa(counts: np.ndarray) -> np.ndarray:
    """Cohen's kappa with quadratic weights (Cohen, 1968) on all levels; NaN if all scores are equal."""
    return kappa(counts, _DIFFERENCE**2)


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


def kappa(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Cohen's kappa on any labels, with weights of their distances; NaN if only one label was given."""
    observed = np.tensordot(weights, counts) * counts.sum(axis=(0, 1))
    expected = (np.tensordot(weights, counts.sum(axis=0), axes=1) * counts.sum(axis=1)).sum(axis=0)
    return 1 - divided(observed, expected)


def f1(table: np.ndarray, category: int) -> np.ndarray:
    """F1 for one label of a table of counts; NaN if neither gives it."""
    return divided(2 * table[category, category], table[category].sum(axis=0) + table[:, category].sum(axis=0))


# --- Correlations -----------------------------------------------------------------------------------------------------
# Counts have shape (values, levels, ...): how often the judge gave its i-th value and physicians level j. Values and
# levels ascend. NaN where either side is constant.


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


# --- Krippendorff's alpha, for any number of raters and missing scores ---


def coincidences(scores: np.ndarray) -> np.ndarray:
    """The coincidence matrix of each answer (Krippendorff, 2011, "Computing Krippendorff's Alpha-Reliability").

    Each ordered pair of scores of one answer counts 1 / (its scores - 1). Matrices of several answers add up.

    Args:
        scores: Levels 1..5 NaN if a rater did not score, shape (n, raters).

    Returns:
        Shape (n, 5, 5); zeros for an answer with fewer than two scores.
    """
    one_hot = (scores[..., None] == np.arange(1, LEVELS + 1)).astype(float)
    counts = one_hot.sum(axis=1)
    total = counts.sum(axis=-1)
    pairs = counts[:, :, None] * counts[:, None, :] - counts[:, :, None] * np.eye(LEVELS)
    return pairs / np.maximum(total - 1, 1)[:, None, None]


def krippendorff_alpha(coincidence: np.ndarray) -> np.ndarray:
    """Krippendorff's alpha with the ordinal metric.

    Args:
        coincidence: Coincidence matrices, shape (5, 5, ...).

    Returns:
        1 perfect, 0 chance level, shape (...); NaN if all scores are equal.
    """
    mass = coincidence.sum(axis=0)
    ranks = _midranks(mass)
    distance = (ranks[:, None] - ranks[None, :]) ** 2
    observed = (coincidence * distance).sum(axis=(0, 1)) * (mass.sum(axis=0) - 1)
    by_chance = (mass[:, None] * mass[None, :] * distance).sum(axis=(0, 1))
    return 1 - divided(observed, by_chance)
