"""The five levels that every answer is scored on, and which of them count as usable."""

from collections.abc import Iterable

import numpy as np

LEVELS = 5
"""How many levels there are; the lowest is 1."""

USABLE_FROM = 4
"""A score from which an answer counts as usable (LLMEval-Med, arXiv 2506.04078, section 3.3)."""


def consensus(levels: Iterable[int]) -> int:
    """Several scores of one answer as one level: their mean, rounded down.

    Rounding down keeps the rule of the paper: the result is usable exactly when the mean is.
    """
    values = list(levels)
    return sum(values) // len(values)


def median_level(probabilities: np.ndarray) -> int:
    """The median of five level probabilities; a tie between two levels goes to the upper one."""
    # The tolerance keeps a tie on the upper side, whatever the rounding of the sums before it.
    return min(5, 1 + int(np.sum(np.cumsum(probabilities) <= 0.5 + 1e-9)))
