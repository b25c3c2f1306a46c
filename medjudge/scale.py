"""The five levels on which every answer is scored, and which of them are usable."""

from collections.abc import Iterable

import numpy as np

LEVELS = 5
"""The number of levels; the lowest is 1."""

USABLE_FROM = 4
"""The lowest level of a usable answer (LLMEval-Med, arXiv 2506.04078, section 3.3)."""


def consensus(levels: Iterable[int]) -> int:
    """Combine several scores of one answer into a level: their mean, rounded down.

    Rounding down keeps the paper's rule: the level is usable exactly if the mean is.
    """
    values = list(levels)
    return sum(values) // len(values)


def median_level(probabilities: np.ndarray) -> int:
    """The median of five level probabilities; a tie between two levels goes to the upper one."""
    # The tolerance keeps a tie on the upper side in spite of rounding errors.
    return min(LEVELS, 1 + int(np.sum(np.cumsum(probabilities) <= 0.5 + 1e-9)))
