"""What turns a reader's output into a level: a few numbers with a weight each, and ordered cut points.

Few answers have experts' scores. So everything with many parameters is trained on other data, and the scores fit only
these weights (proportional odds; McCullagh, 1980).
"""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

NAMES = ("level_weights", "level_cuts")
"""The tensors of a head in `reader.safetensors`."""


class LevelHead(NamedTuple):
    """P(level > k) = sigmoid(features @ weights - cuts[k - 1]), with or without points to compare an answer with.

    Attributes:
        weights: One for each feature, without points (first row) and with points, shape (2, features).
        cuts: In ascending order, shape (2, 4).
    """

    weights: np.ndarray
    cuts: np.ndarray

    def cumulative(self, features: np.ndarray, has_points: np.ndarray) -> np.ndarray:
        """Logits of level > 1, > 2, > 3, > 4.

        Args:
            features: Shape (n, features).
            has_points: Whether each answer was compared with a reference or a checklist, shape (n,), boolean.

        Returns:
            Shape (n, 4).
        """
        row = has_points.astype(int)
        return (features * self.weights[row]).sum(axis=1, keepdims=True) - self.cuts[row]


def fit_level_head(
    features: np.ndarray, has_points: np.ndarray, labels: np.ndarray, sample_weights: np.ndarray, ridge: float = 0.02
) -> LevelHead:
    """Fits weights and cut points to soft labels, apart for answers without and with points.

    Args:
        features: Shape (n, features).
        has_points: As for `LevelHead.cumulative`; some answers of each kind are needed.
        labels: Probabilities of the five levels, shape (n, 5).
        sample_weights: Shape (n,).
        ridge: The penalty on the squared weights of standardised features.
    """
    fitted = [
        _fit(features[chosen], labels[chosen], sample_weights[chosen], ridge) for chosen in (~has_points, has_points)
    ]
    return LevelHead(np.stack([weights for weights, _ in fitted]), np.stack([cuts for _, cuts in fitted]))


def _fit(
    features: np.ndarray, labels: np.ndarray, sample_weights: np.ndarray, ridge: float
) -> tuple[np.ndarray, np.ndarray]:
    """The weights, (features,), and cut points, (4,), of the answers of one kind."""
    mean, spread = features.mean(axis=0), features.std(axis=0) + 1e-6
    standard = (features - mean) / spread
    above = labels[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    shares = sample_weights / sample_weights.sum()
    count = features.shape[1]

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
    optimum = minimize(loss, start, jac=True, method="L-BFGS-B", options={"maxiter": 2000}).x
    weights = optimum[:count] / spread
    cuts = optimum[count] + np.concatenate([[0.0], np.cumsum(np.exp(optimum[count + 1 :]))])
    return weights, cuts + float(mean @ weights)
