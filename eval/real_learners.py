"""What learns levels from numbers: a head of few weights, randomised trees, and the mean of both."""

from typing import NamedTuple

import numpy as np
from real_head import Lines, fitted
from real_material import Material
from sklearn.ensemble import ExtraTreesRegressor

RIDGE = 300.0
"""The head's penalty, in lines' losses."""
TREES = 20


class Standard(NamedTuple):
    """Numbers in units of their spread.

    Attributes:
        mean: Shape (columns,).
        spread: Shape (columns,).
    """

    mean: np.ndarray
    spread: np.ndarray

    @classmethod
    def of(cls, values: np.ndarray) -> "Standard":
        """The mean and spread of these answers, (n, columns)."""
        return cls(values.mean(axis=0), values.std(axis=0) + 1e-3)

    def __call__(self, values: np.ndarray) -> np.ndarray:
        # A number far from all that was seen before says no more than a large one.
        return np.clip((values - self.mean) / self.spread, -5, 5)


def by_head(material: Material, lines: Lines, held: Material) -> np.ndarray:
    """Probabilities of the levels of held-out answers by an ordinal head, (held, 5)."""
    standard = Standard.of(material.gated[lines.rows])
    head = fitted(standard(material.gated), lines, RIDGE)
    return head.probabilities(standard(held.gated))


def by_trees(material: Material, lines: Lines, held: Material, seed: int) -> np.ndarray:
    """The same by extremely randomised trees, which take soft labels (Geurts, Ernst and Wehenkel, 2006)."""
    trees = ExtraTreesRegressor(TREES, min_samples_leaf=4, max_features=0.2, random_state=seed)
    trees.fit(material.values[lines.rows], lines.labels, lines.weights)
    probabilities: np.ndarray = trees.predict(held.values)
    return probabilities


def by_both(material: Material, lines: Lines, held: Material, seed: int) -> np.ndarray:
    """The study's judge: the mean of head and trees."""
    return (by_head(material, lines, held) + by_trees(material, lines, held, seed)) / 2
