"""Krippendorff's alpha for any number of raters and missing scores, from coincidence matrices that add up."""

import numpy as np

from medjudge.scale import LEVELS
from medjudge.statistics.measures import divided


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
    ranks = np.cumsum(mass, axis=0) - mass / 2
    distance = (ranks[:, None] - ranks[None, :]) ** 2
    observed = (coincidence * distance).sum(axis=(0, 1)) * (mass.sum(axis=0) - 1)
    by_chance = (mass[:, None] * mass[None, :] * distance).sum(axis=(0, 1))
    return 1 - divided(observed, by_chance)
