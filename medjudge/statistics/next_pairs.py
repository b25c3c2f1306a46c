"""Which pairs to compare next: those that tell most about the models' strengths (a D-optimal design, chosen greedily).

Chernoff, H. (1959). Sequential design of experiments. Annals of Mathematical Statistics 30, 755-770. A comparison adds
information c c' w to that on the strengths, with c the two models' contrast and w the variance of its score under
Davidson's model at the strengths fitted so far. The one with the greatest w c' S c, S the covariance of the strengths,
raises the determinant of the information most.
"""

import numpy as np

from medjudge.statistics.davidson import PRIOR_VARIANCE, fit_davidson, outcome_probabilities

_TIE_PRIOR = np.array([0.5, 0.5, 0.5])
"""Added to the outcomes of each pair of models, so that a few comparisons do not make a next one look certain."""


def most_informative(
    first: np.ndarray,
    second: np.ndarray,
    outcomes: np.ndarray,
    open_first: np.ndarray,
    open_second: np.ndarray,
    models: int,
    number: int,
) -> np.ndarray:
    """Chooses open comparisons, the most informative first; of equal ones the earlier.

    Args:
        first: Index of a model in each comparison made so far, shape (n,).
        second: Index of the other model, shape (n,).
        outcomes: Shares of first, tie and second, shape (n, 3).
        open_first: The same of the comparisons that can be made, shape (m,).
        open_second: Shape (m,).
        models: The number of models.
        number: How many to choose; fewer if there are fewer.

    Returns:
        Indices into the open comparisons, shape (at most number,).
    """
    rows, columns = np.triu_indices(models, k=1)
    fitted = fit_davidson(
        np.concatenate([first, rows]).astype(int),
        np.concatenate([second, columns]).astype(int),
        np.concatenate([np.reshape(outcomes, (-1, 3)), np.tile(_TIE_PRIOR, (len(rows), 1))]),
        models,
    )
    strength, tie = fitted.strength, fitted.tie

    def information(one: np.ndarray, other: np.ndarray) -> np.ndarray:
        chance = outcome_probabilities(strength[one] - strength[other], tie)
        variance: np.ndarray = (chance[0] + chance[2] - (chance[0] - chance[2]) ** 2) / 4
        return variance

    known = np.eye(models) / PRIOR_VARIANCE
    for one, other, weight in zip(first, second, information(first, second) if len(first) else (), strict=True):
        contrast = _contrast(models, one, other)
        known += weight * np.outer(contrast, contrast)
    covariance = np.linalg.inv(known)
    waiting: dict[tuple[int, int], list[int]] = {}
    for index, (one, other) in enumerate(zip(open_first.tolist(), open_second.tolist(), strict=True)):
        waiting.setdefault((min(one, other), max(one, other)), []).append(index)
    kinds = sorted(waiting)
    left = {kind: iter(indices) for kind, indices in waiting.items()}
    remaining = {kind: len(indices) for kind, indices in waiting.items()}
    chosen: list[int] = []
    while kinds and len(chosen) < number:
        one, other = np.array(kinds).T
        spread = covariance[one, one] + covariance[other, other] - 2 * covariance[one, other]
        weight = information(one, other)
        best = int(np.argmax(weight * spread))
        kind = kinds[best]
        chosen.append(next(left[kind]))
        # Sherman and Morrison (1950): the covariance after one more comparison.
        moved = covariance @ _contrast(models, *kind)
        covariance -= weight[best] * np.outer(moved, moved) / (1 + weight[best] * spread[best])
        remaining[kind] -= 1
        if not remaining[kind]:
            kinds.remove(kind)
    return np.array(chosen, dtype=int)


def _contrast(models: int, first: int, second: int) -> np.ndarray:
    contrast = np.zeros(models)
    contrast[first], contrast[second] = 1.0, -1.0
    return contrast
