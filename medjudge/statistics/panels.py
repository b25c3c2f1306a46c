"""Judges who vote together: how their verdicts are combined and weighted, and how many independent votes they are.

All functions take members along the second axis of probabilities, shape (n, members, levels), and weights of shape
(members,). A member that did not score an answer has NaN there, and the others' weights count as if it were not there.
"""

from typing import Literal, NamedTuple

import numpy as np
from typing_extensions import Unpack

from medjudge.statistics.bootstrap import Interval, Resampling, Sums, bootstrap, by_percentile, dense_tally
from medjudge.statistics.measures import divided

Rule = Literal["mean", "median", "vote"]

_LEAST_ERROR = 0.02
"""The smallest rate of errors that weights believe in, and one half minus it the largest."""


def combined(probabilities: np.ndarray, weights: np.ndarray, rule: Rule = "mean") -> np.ndarray:
    """The panel's probabilities of the levels.

    `mean` is the linear opinion pool (Stone, 1961). `median` takes at each level k the weighted median of the members'
    P(level > k), which stays a distribution because each member's P(level > k) falls in k. In a `vote` each member has
    its median level only, and the shares of the votes are the probabilities.

    Args:
        probabilities: Shape (n, members, levels), NaN rows where a member did not score.
        weights: At least 0, shape (members,).

    Returns:
        Shape (n, levels); NaN where no member with a weight scored.
    """
    present = np.isfinite(probabilities).all(axis=2)
    share = np.where(present, weights, 0.0)
    share = divided(share, share.sum(axis=1, keepdims=True))
    known = np.where(present[:, :, None], probabilities, 0.0)
    if rule == "median":
        return _median_of(known, share)
    return np.einsum("nm,nml->nl", share, _votes(known) if rule == "vote" else known)


def _votes(probabilities: np.ndarray) -> np.ndarray:
    """Each member's median level as one-hot; a tie between two levels goes to the upper one, as in `median_level`."""
    below = np.cumsum(probabilities, axis=2) <= 0.5 + 1e-9
    levels = probabilities.shape[2]
    return np.eye(levels)[np.minimum(below.sum(axis=2), levels - 1)]


def _median_of(probabilities: np.ndarray, share: np.ndarray) -> np.ndarray:
    above = 1 - np.cumsum(probabilities, axis=2)[:, :, :-1]
    order = np.argsort(above, axis=1)
    values = np.take_along_axis(above, order, axis=1)
    reached = np.cumsum(np.take_along_axis(np.repeat(share[:, :, None], above.shape[2], axis=2), order, axis=1), axis=1)
    # The lower and the upper weighted median; where they differ, half the weight lies on each side.
    lower = np.take_along_axis(values, np.argmax(reached >= 0.5 - 1e-9, axis=1)[:, None], axis=1)[:, 0]
    upper = np.take_along_axis(values, np.argmax(reached > 0.5 + 1e-9, axis=1)[:, None], axis=1)[:, 0]
    middle = np.where(np.isfinite(share).all(axis=1)[:, None], (lower + upper) / 2, np.nan)
    edge = np.ones((len(middle), 1))
    return -np.diff(np.concatenate([edge, middle, 0 * edge], axis=1), axis=1)


def log_odds_weights(agreement: np.ndarray) -> np.ndarray:
    """The best weights of independent votes with known shares of right ones: their log odds (Nitzan and Paroush, 1982).

    Args:
        agreement: The share of right votes of each member, 0..1, shape (members,).

    Returns:
        Weights that add up to 1. A member that is right in half of its votes or fewer has none; equal weights where
        that is so of all.
    """
    share = np.clip(agreement, 0.5, 1 - _LEAST_ERROR)
    odds = np.log(share / (1 - share))
    return odds / odds.sum() if odds.sum() > 0 else np.full(len(odds), 1 / len(odds))


def shrunk(agreement: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Shares of right votes, shrunk to their mean by as much as noise explains their differences.

    Empirical Bayes with the variance between members by moments (DerSimonian and Laird, 1986): members whose agreement
    differs no more than chance makes it differ become equal.

    Args:
        agreement: The share of right votes of each member, shape (members,).
        variance: The sampling variance of each share, above 0, shape (members,).

    Returns:
        Shape (members,).
    """
    precision = 1 / variance
    fixed = (precision * agreement).sum() / precision.sum()
    spread = (precision * (agreement - fixed) ** 2).sum() - (len(agreement) - 1)
    between = max(0.0, float(spread / (precision.sum() - (precision**2).sum() / precision.sum())))
    total = 1 / (between + variance)
    middle = (total * agreement).sum() / total.sum()
    return np.asarray(middle + between * total * (agreement - middle))


def effective_votes(correlation: np.ndarray, members: int) -> np.ndarray:
    """The number of independent votes that a panel is worth: members / (1 + (members - 1) correlation).

    Kish's effective sample size with his design effect (Survey Sampling, 1965, section 5.4), with members as the units
    of a cluster and the mean correlation of their errors as its homogeneity, as Kohli (2026, arXiv 2605.29800) applies
    it to panels of judges.

    Args:
        correlation: The mean correlation of the errors of two members, any shape.
        members: Their number.

    Returns:
        The same shape; at most `members`, for errors that are less alike than independent ones would be too.
    """
    return np.asarray(members / (1 + (members - 1) * np.maximum(correlation, 0)))


class Dependence(NamedTuple):
    """The likeness of the members' errors.

    Attributes:
        correlation: Of errors, shape (members, members), 1 in the diagonal; NaN where a member makes none, or only
            errors.
        mean: The mean correlation of two members, over the pairs where it is defined.
        votes: The effective number of votes.
    """

    correlation: np.ndarray
    mean: Interval
    votes: Interval


def dependence(wrong: np.ndarray, conversation: np.ndarray, **how: Unpack[Resampling]) -> Dependence:
    """Correlations of the members' errors, with percentile intervals from a bootstrap over conversations.

    Args:
        wrong: Whether each member differs from the physicians on usable, bool, shape (n, members).
        conversation: Of each answer, shape (n,).
    """
    members = wrong.shape[1]
    flags = np.column_stack([np.ones(len(wrong)), wrong])
    products = {"products": dense_tally(flags[:, :, None] * flags[:, None, :])}
    off = ~np.eye(members, dtype=bool)

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        pairs = _correlations(sums["products"])[off]
        defined = np.isfinite(pairs)
        mean = divided(np.where(defined, pairs, 0).sum(axis=0), defined.sum(axis=0))
        return {"mean": mean, "votes": effective_votes(mean, members)}

    intervals = bootstrap(products, conversation, statistics, **by_percentile(how))
    correlation = _correlations((flags.T @ flags)[:, :, None])[:, :, 0]
    return Dependence(correlation, intervals["mean"], intervals["votes"])


def _correlations(products: np.ndarray) -> np.ndarray:
    """Phi coefficients from sums of products, shape (1 + members, 1 + members, ...) -> (members, members, ...)."""
    n, sums = products[0, 0], products[0, 1:]
    covariance = n * products[1:, 1:] - sums[:, None] * sums[None, :]
    spread = np.sqrt(np.maximum(0, n * sums - sums**2))
    return divided(covariance, spread[:, None] * spread[None, :])
