"""The study's head: one weight for each number and four ordered cuts, fitted to soft labels (McCullagh, 1980)."""

from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import expit

LEVELS = np.arange(1, 6)


class Lines(NamedTuple):
    """What a head is fitted to.

    Attributes:
        rows: Which answers, shape (n,).
        labels: Probabilities of the five levels, shape (n, 5).
        weights: Shape (n,).
    """

    rows: np.ndarray
    labels: np.ndarray
    weights: np.ndarray


class Head(NamedTuple):
    """P(level > k) = sigmoid(values @ weights - cuts[k - 1]) of standardised values.

    Attributes:
        weights: Shape (columns,).
        cuts: In ascending order, shape (4,).
    """

    weights: np.ndarray
    cuts: np.ndarray

    def probabilities(self, values: np.ndarray) -> np.ndarray:
        """Of the five levels, (n, columns) -> (n, 5)."""
        above = expit((values @ self.weights)[:, None] - self.cuts)
        padded = np.hstack([np.ones((len(above), 1)), above, np.zeros((len(above), 1))])
        probabilities: np.ndarray = padded[:, :-1] - padded[:, 1:]
        return probabilities


class Pairs(NamedTuple):
    """Answers to one question of which one is better: rows of `values`, shape (pairs,) both, and the term's weight."""

    better: np.ndarray
    worse: np.ndarray
    weight: float


def fitted(
    values: np.ndarray, lines: Lines, ridge: float, start: Head | None = None, pairs: Pairs | None = None
) -> Head:
    """Fits a head.

    Args:
        values: Standardised, of all answers, shape (answers, columns).
        ridge: The penalty, in lines' losses, on the squared distance of the weights from those of `start`.
        start: The head that the penalty pulls to; one of zeros if omitted.
        pairs: Adds the mean of log(1 + exp(worse - better)).
    """
    inside, total = values[lines.rows].astype(np.float32), float(lines.weights.sum())
    share = lines.weights / total
    above = lines.labels[:, ::-1].cumsum(axis=1)[:, ::-1][:, 1:]
    columns = values.shape[1]
    centre = np.zeros(columns) if start is None else start.weights
    apart = None if pairs is None else values[pairs.better] - values[pairs.worse]

    def loss(parameters: np.ndarray) -> tuple[float, np.ndarray]:
        weights, steps = parameters[:columns], np.exp(parameters[columns + 1 :])
        cuts = parameters[columns] + np.concatenate([[0.0], np.cumsum(steps)])
        logits = (inside @ weights.astype(np.float32)).astype(float)[:, None] - cuts
        error = share[:, None] * (expit(logits) - above)
        off = weights - centre
        value = (share[:, None] * (np.logaddexp(0, logits) - above * logits)).sum() + ridge / total * (off @ off)
        slope = inside.T @ error.sum(axis=1).astype(np.float32) + 2 * ridge / total * off
        if pairs is not None and apart is not None:
            gaps = apart @ weights
            value += pairs.weight * np.logaddexp(0, -gaps).mean()
            slope -= pairs.weight * (apart.T @ expit(-gaps)) / len(gaps)
        to_cuts = -error.sum(axis=0)
        to_steps = np.array([to_cuts[at + 1 :].sum() for at in range(3)]) * steps
        return float(value), np.concatenate([slope, [to_cuts.sum()], to_steps])

    found = minimize(loss, _start(centre, start, lines), jac=True, method="L-BFGS-B", options={"maxiter": 100}).x
    cuts = found[columns] + np.concatenate([[0.0], np.cumsum(np.exp(found[columns + 1 :]))])
    return Head(found[:columns], cuts)


def _start(centre: np.ndarray, start: Head | None, lines: Lines) -> np.ndarray:
    if start is not None:
        cuts = start.cuts
    else:
        below = np.cumsum(np.average(lines.labels, axis=0, weights=lines.weights))[:4].clip(0.02, 0.98)
        cuts = np.log(below / (1 - below))
    return np.concatenate([centre, cuts[:1], np.log(np.maximum(np.diff(cuts), 0.02))])
