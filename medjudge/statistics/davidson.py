"""Ranks models from paired comparisons with ties: Davidson's extension of the Bradley-Terry model.

Davidson, R. R. (1970). On extending the Bradley-Terry model to accommodate ties in paired comparison experiments.
Journal of the American Statistical Association 65, 317-328. With strengths u, of model i against model j:

    P(i wins) : P(tie) : P(j wins)  =  exp(d / 2) : exp(t) : exp(-d / 2),   d = u_i - u_j + b x

`t` is the logarithm of Davidson's nu, `x` an optional covariate of the comparison that changes sign with the order of
the two, such as the difference of their lengths (Dubois et al., 2024, Length-Controlled AlpacaEval, arXiv 2404.04475).
The likelihood is concave; Newton's method fits all resamples of a bootstrap at once.
"""

from typing import NamedTuple

import numpy as np
from typing_extensions import Unpack

from medjudge.statistics.bootstrap import Interval, Resampling, Sums, Tally, bootstrap

PRIOR_VARIANCE = 9.0
"""Of the normal prior of each strength, so that a model which never loses has a finite one. A strength of 3 above
another wins 95 of 100 comparisons that are no ties."""

_STEPS, _MOVED = 50, 1e-9
_LONGEST_STEP = 2.0


class Fitted(NamedTuple):
    """The parameters; `...` are further axes of the counts, such as resamples.

    `strength` has mean 0 over the models, shape (models, ...); `tie` is the logarithm of Davidson's nu, shape (...),
    `covariate` the coefficient of the covariate, 0 without one.
    """

    strength: np.ndarray
    tie: np.ndarray
    covariate: np.ndarray


def fit_davidson(
    first: np.ndarray,
    second: np.ndarray,
    outcomes: np.ndarray,
    models: int,
    covariate: np.ndarray | None = None,
    prior_variance: float = PRIOR_VARIANCE,
) -> Fitted:
    """Fits Davidson's model.

    Args:
        first: Index of a model, shape (n,).
        second: Index of the other model of the comparison, shape (n,).
        outcomes: How often the first won, neither, and the second, shape (n, 3, ...); probabilities count as shares.
        models: The number of models.
        covariate: One number a comparison, positive where it favours the first, shape (n,).
        prior_variance: Of the strengths; infinity for maximum likelihood, which has no solution where a group of
            models never loses to the others.
    """
    counts = np.asarray(outcomes, dtype=float)
    further = counts.shape[2:]
    design = np.eye(models)[first] - np.eye(models)[second]
    if covariate is not None:
        design = np.column_stack([design, covariate])
    parameters = _newton(design, counts.reshape(len(first), 3, -1), models, prior_variance)
    strength = parameters[:models]
    slope = parameters[models:-1].sum(axis=0)  # one row, or none
    return Fitted(
        (strength - strength.mean(axis=0)).reshape(models, *further),
        parameters[-1].reshape(further),
        slope.reshape(further),
    )


def outcome_probabilities(difference: np.ndarray, tie: np.ndarray) -> np.ndarray:
    """The probabilities of first, tie and second at a difference of strengths; shapes (...) -> (3, ...)."""
    logits = np.stack(np.broadcast_arrays(difference / 2, tie, -difference / 2))
    weights = np.exp(logits - logits.max(axis=0))
    shares: np.ndarray = weights / weights.sum(axis=0)
    return shares


def win_shares(fitted: Fitted) -> np.ndarray:
    """The mean share of comparisons with the others that each model wins, ties half, shape (models, ...)."""
    strength = fitted.strength
    chances = outcome_probabilities(strength[:, None] - strength[None], np.asarray(fitted.tie))
    shares = chances[0] + chances[1] / 2
    # Against itself a model would win half.
    means: np.ndarray = (shares.sum(axis=1) - 0.5) / (len(strength) - 1)
    return means


def ranking(
    first: np.ndarray,
    second: np.ndarray,
    outcomes: np.ndarray,
    models: int,
    cluster: np.ndarray,
    covariate: np.ndarray | None = None,
    **how: Unpack[Resampling],
) -> dict[str, Interval]:
    """Strengths with 95 % intervals from a bootstrap over questions, each resample fitted anew.

    Args:
        cluster: The question or conversation of each comparison, at least one, shape (n,). The others are those of
            `fit_davidson`, with outcomes of shape (n, 3).

    Returns:
        `strength 0`, `strength 1`, … of each model; `share 0`, …, the share of comparisons with all other models that
        it is expected to win, ties half, where the covariate is 0; `tie`, the probability of a tie of two equally
        strong models; and `covariate`, its coefficient.
    """
    # Comparisons of the same two models with the same covariate are counted in one cell.
    keys = np.column_stack([first, second, np.zeros(len(first)) if covariate is None else covariate])
    cells, cell = np.unique(keys, axis=0, return_inverse=True)
    cell = cell.reshape(-1)
    of_first, of_second = cells[:, 0].astype(int), cells[:, 1].astype(int)
    of_covariate = None if covariate is None else cells[:, 2]

    def fit(sums: Sums) -> dict[str, np.ndarray]:
        fitted = fit_davidson(of_first, of_second, sums["outcomes"], models, of_covariate)
        values = {"tie": outcome_probabilities(np.zeros_like(fitted.tie), fitted.tie)[1], "covariate": fitted.covariate}
        values |= {f"strength {model}": strength for model, strength in enumerate(fitted.strength)}
        return values | {f"share {model}": share for model, share in enumerate(win_shares(fitted))}

    counted = Tally(
        np.repeat(np.arange(len(cell)), 3),
        (cell[:, None] * 3 + np.arange(3)).reshape(-1),
        np.asarray(outcomes, dtype=float).reshape(-1),
        (len(cells), 3),
    )
    return bootstrap({"outcomes": counted}, cluster, fit, **how)


def _newton(design: np.ndarray, counts: np.ndarray, models: int, prior_variance: float) -> np.ndarray:
    """The parameters of greatest posterior density, strengths first and the tie's last, (parameters, resamples)."""
    parameters, resamples = design.shape[1] + 1, counts.shape[2]
    theta = np.zeros((resamples, parameters))
    # A tiny precision holds what the likelihood leaves open: the mean of the strengths, ties that never happened.
    precision = np.full(parameters, 1e-8)
    precision[:models] += 1 / prior_variance
    n = counts.sum(axis=1)
    products = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
    active = np.arange(resamples)
    for _ in range(_STEPS):
        here = theta[active]
        first, tie, second = outcome_probabilities(design @ here[:, :-1].T, here[:, -1])
        of, total = counts[:, :, active], n[:, active]
        gradient = np.empty_like(here)
        gradient[:, :-1] = ((of[:, 0] - of[:, 2] - total * (first - second)) / 2).T @ design
        gradient[:, -1] = (of[:, 1] - total * tie).sum(axis=0)
        gradient -= precision * here
        curve = total * (first + second - (first - second) ** 2) / 4
        mixed = -total * tie * (first - second) / 2
        hessian = np.empty((len(active), parameters, parameters))
        hessian[:, :-1, :-1] = (curve.T @ products).reshape(len(active), parameters - 1, parameters - 1)
        hessian[:, :-1, -1] = hessian[:, -1, :-1] = mixed.T @ design
        hessian[:, -1, -1] = (total * tie * (1 - tie)).sum(axis=0)
        hessian += np.diag(precision)
        step = np.linalg.solve(hessian, gradient[:, :, None])[:, :, 0]
        # A Newton step from far away would overshoot.
        longest = np.abs(step).max(axis=1, keepdims=True)
        theta[active] = here + step * np.minimum(1, _LONGEST_STEP / np.maximum(longest, _LONGEST_STEP))
        active = active[longest[:, 0] > _MOVED]
        if not len(active):
            break
    return theta.T
