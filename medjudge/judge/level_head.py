"""What turns a reader's output into a level: a few numbers with a weight each, and ordered cut points.

Few answers have experts' scores. So everything with many parameters is trained on other data, and the scores fit these
weights (proportional odds; McCullagh, 1980).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

NAMES = ("level_weights", "level_cuts")
"""The tensors of a head in `reader.safetensors`."""
ROWS = 4
"""Without and with points to compare an answer with; then the same two with a second opinion."""
UNUSED = 2


class LevelHead(NamedTuple):
    """P(level > k) = sigmoid(features @ weights[row] - cuts[row, k - 1]).

    Attributes:
        weights: Of each feature, by what there is to judge by (`row_of`), shape (`ROWS`, features).
        cuts: In ascending order, shape (`ROWS`, 4).
    """

    weights: np.ndarray
    cuts: np.ndarray

    def cumulative(self, features: np.ndarray, rows: np.ndarray) -> np.ndarray:
        """Logits of level > 1, > 2, > 3, > 4, shape (n, 4), from features of shape (n, features) and rows of (n,)."""
        return (features * self.weights[rows]).sum(axis=1, keepdims=True) - self.cuts[rows]


def row_of(has_points: np.ndarray, has_second: np.ndarray) -> np.ndarray:
    """The row of a `LevelHead` for each answer, (n,).

    Args:
        has_points: Whether an answer was compared with a reference or a checklist, (n,), boolean.
        has_second: Whether there is a second opinion, (n,), boolean.
    """
    return has_points.astype(int) + 2 * has_second.astype(int)


class Scored(NamedTuple):
    """Answers that a row is fitted to.

    Attributes:
        features: Shape (n, features).
        labels: Probabilities of the five levels, shape (n, 5).
        weights: Of each answer, shape (n,).
    """

    features: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


def fit_level_head(rows: Sequence[Scored], signs: Sequence[np.ndarray], ridge: float) -> LevelHead:
    """Fits the weights and cut points of each row.

    Args:
        rows: The answers of each row, `ROWS` of them.
        signs: For each row, 1 for a feature that may only raise a level, -1 for one that may only lower it, `UNUSED`
            for one without weight, else 0, (features,).
        ridge: The penalty on the squared weights of standardised features.
    """
    fitted = [_fit(scored, sign, ridge) for scored, sign in zip(rows, signs, strict=True)]
    return LevelHead(np.stack([weights for weights, _ in fitted]), np.stack([cuts for _, cuts in fitted]))


def _fit(scored: Scored, signs: np.ndarray, ridge: float) -> tuple[np.ndarray, np.ndarray]:
    """The weights, (features,), and cut points, (4,), of one row."""
    mean, spread = scored.features.mean(axis=0), scored.features.std(axis=0)
    # What never differs says nothing.
    spread = np.where(spread < 1e-6, np.inf, spread)
    standard = (scored.features - mean) / spread
    above = scored.labels[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    shares = scored.weights / scored.weights.sum()
    count = standard.shape[1]

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        weights, steps = parameters[:count], np.exp(parameters[count + 1 :])
        cuts = parameters[count] + np.concatenate([[0.0], np.cumsum(steps)])
        logits = (standard @ weights)[:, None] - cuts
        value = (shares[:, None] * (np.logaddexp(0, logits) - above * logits)).sum() + ridge * (weights**2).sum()
        error = shares[:, None] * (expit(logits) - above)
        to_cuts = -error.sum(axis=0)
        to_steps = np.array([to_cuts[at + 1 :].sum() for at in range(3)]) * steps
        gradient = np.concatenate([standard.T @ error.sum(axis=1) + 2 * ridge * weights, [to_cuts.sum()], to_steps])
        return float(value), gradient

    start = np.concatenate([np.zeros(count), [-1.0, 0.0, 0.0, 0.0]])
    allowed = {1: (0.0, None), -1: (None, 0.0), 0: (None, None), UNUSED: (0.0, 0.0)}
    bounds = [*(allowed[int(sign)] for sign in signs), *[(None, None)] * 4]
    optimum = minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds, options={"maxiter": 2000}).x
    weights = optimum[:count] / spread
    cuts = optimum[count] + np.concatenate([[0.0], np.cumsum(np.exp(optimum[count + 1 :]))])
    return weights, cuts + float(mean @ weights)
