"""Measures of agreement, computed from confusion matrices so that thousands of resamples cost one matrix product."""

import numpy as np

LEVELS = 5


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


def usable_agreement(counts: np.ndarray, usable_from: int = 4) -> np.ndarray:
    """The share of answers that both call usable or both call unusable (LLMEval-Med, section 4.4).

    Args:
        counts: Confusion matrices, shape (..., levels, levels).
        usable_from: The first usable level.

    Returns:
        Shares, shape (...); NaN where there is no answer.
    """
    two = _two_by_two(counts, usable_from)
    return _divided(two[..., 0, 0] + two[..., 1, 1], two.sum(axis=(-2, -1)))


def cohen_kappa(counts: np.ndarray, usable_from: int = 4) -> np.ndarray:
    """Cohen's kappa (Cohen, 1960) on usable / not usable, the chance-corrected partner of `usable_agreement`.

    Args:
        counts: Confusion matrices, shape (..., levels, levels).

    Returns:
        Kappas, shape (...); NaN where both used one and the same category throughout.
    """
    return _kappa(_two_by_two(counts, usable_from), 1 - np.eye(2))


def quadratic_kappa(counts: np.ndarray) -> np.ndarray:
    """Cohen's kappa with quadratic weights (Cohen, 1968) on all levels.

    Args:
        counts: Confusion matrices, shape (..., levels, levels).

    Returns:
        Kappas, shape (...); NaN where both gave one and the same level throughout.
    """
    level = np.arange(counts.shape[-1])
    return _kappa(counts, (level[:, None] - level[None, :]) ** 2.0)


def mae(counts: np.ndarray) -> np.ndarray:
    """Mean absolute difference in levels; counts (..., levels, levels) -> (...)."""
    level = np.arange(counts.shape[-1])
    return _divided((counts * np.abs(level[:, None] - level[None, :])).sum(axis=(-2, -1)), counts.sum(axis=(-2, -1)))


def bias(counts: np.ndarray) -> np.ndarray:
    """Mean of judge minus physician in levels, above 0 for a lenient judge; counts (..., levels, levels) -> (...)."""
    level = np.arange(counts.shape[-1])
    return _divided((counts * (level[:, None] - level[None, :])).sum(axis=(-2, -1)), counts.sum(axis=(-2, -1)))


def spearman(judge: np.ndarray, physician: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Spearman's rank correlation with mid-ranks, each pair counted `weights` times.

    Args:
        judge: Any numbers, shape (n,).
        physician: Of the same answers in the same order, shape (n,).
        weights: How often each pair counts, not negative, shape (..., n).

    Returns:
        -1 to 1, shape (...); NaN where one of both is constant.
    """
    total = weights.sum(axis=-1)
    first, second = _centred(_midranks(judge, weights), weights), _centred(_midranks(physician, weights), weights)
    together = (weights * first * second).sum(axis=-1)
    scale = np.sqrt((weights * first**2).sum(axis=-1) * (weights * second**2).sum(axis=-1))
    return _divided(together, np.where(scale > 1e-9 * total, scale, 0.0))


def _midranks(values: np.ndarray, weights: np.ndarray) -> np.ndarray:
    _, place = np.unique(values, return_inverse=True)
    order = np.argsort(place, kind="stable")
    starts = np.flatnonzero(np.diff(place[order], prepend=-1))
    mass = np.add.reduceat(weights[..., order], starts, axis=-1)
    return (np.cumsum(mass, axis=-1) - mass / 2)[..., place]


def _centred(ranks: np.ndarray, weights: np.ndarray) -> np.ndarray:
    mean = _divided((ranks * weights).sum(axis=-1), weights.sum(axis=-1))
    return ranks - np.nan_to_num(mean)[..., None]


def _two_by_two(counts: np.ndarray, usable_from: int) -> np.ndarray:
    cut = usable_from - 1
    rows = np.stack([counts[..., :cut, :].sum(axis=-2), counts[..., cut:, :].sum(axis=-2)], axis=-2)
    return np.stack([rows[..., :cut].sum(axis=-1), rows[..., cut:].sum(axis=-1)], axis=-1)


def _kappa(counts: np.ndarray, weights: np.ndarray) -> np.ndarray:
    total = counts.sum(axis=(-2, -1))
    by_chance = counts.sum(axis=-1)[..., :, None] * counts.sum(axis=-2)[..., None, :]
    observed = (counts * weights).sum(axis=(-2, -1)) * total
    expected = (by_chance * weights).sum(axis=(-2, -1))
    return 1 - _divided(observed, expected)


def _divided(above: np.ndarray, below: np.ndarray) -> np.ndarray:
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(below == 0, np.nan, above / np.where(below == 0, 1, below))
