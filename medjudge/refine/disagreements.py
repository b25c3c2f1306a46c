"""On which questions judge and physicians differ beyond noise: a test a group of answers, corrected for many.

What is tested is a shift, the mean of judge minus physicians over a question's answers, against three kinds of noise:
the judge's own error and the physicians' from answer to answer (what varies between models within a question), and each
physician's own view of a question, which all answers share that this physician scored. Three samples of few models are
the rule, so that a question's variance is moderated by that of all others (Smyth, Statistical Applications in Genetics
and Molecular Biology 3, 2004). Many questions: Benjamini and Hochberg (JRSS B 57, 1995) bounds the share of false
findings. It was preferred to an empirical-Bayes shrinkage of the shifts, which needs their distribution over questions:
a few flawed ones among many sound ones, and nothing like normal.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.stats import false_discovery_control
from scipy.stats import t as student

PRIOR_DEGREES = 4.0
"""Degrees of freedom that the variance of all groups counts in each group's own."""
ROUNDING = 1 / 12
"""The variance of a score given in whole levels: no group's is taken to be lower."""
_PRIOR_RATER_VARIANCE, _PRIOR_PAIRS = 0.3**2, 10
"""Before any answer with two raters: a physician's view of a question varies by 0.3 levels, worth ten comparisons."""


class Shifts(NamedTuple):
    """One value a group, shape (groups,).

    `shift` is the mean of judge minus physicians in levels, less the centre. `adjusted_p` is the least share of false
    findings at which the group is one.
    """

    shift: np.ndarray
    standard_error: np.ndarray
    p_value: np.ndarray
    adjusted_p: np.ndarray


def rater_variance(levels: np.ndarray, question: np.ndarray) -> float:
    """The variance of a physician's view of a whole question, in squared levels, by moments.

    Two raters of the same answers to a question differ in the mean by their views of it and by what is left of their
    noise from answer to answer, which is taken off where a question has several such answers.

    Args:
        levels: 1-5, shape (n, raters), NaN where a rater did not score.
        question: Shape (n,).

    Returns:
        Above 0: drawn towards 0.3 squared, all the more the fewer answers have two raters.
    """
    apart = [
        differences[np.isfinite(differences)]
        for one in np.unique(question)
        for first, second in combinations(levels[question == one].T, 2)
        if np.isfinite(differences := first - second).any()
    ]
    degrees = sum(len(one) - 1 for one in apart)
    noise = sum(((one - one.mean()) ** 2).sum() for one in apart) / degrees if degrees else 0.0
    found = sum(max(0.0, one.mean() ** 2 - noise / len(one)) / 2 for one in apart)
    return float((found + _PRIOR_PAIRS * _PRIOR_RATER_VARIANCE) / (len(apart) + _PRIOR_PAIRS))


def pooled_variance(values: Sequence[np.ndarray]) -> tuple[float, int]:
    """The variance within groups of cluster means, and its degrees of freedom; NaN and 0 where no group has two."""
    degrees = sum(len(one) - 1 for one in values if len(one))
    squares = sum(((one - one.mean()) ** 2).sum() for one in values if len(one))
    return (float(squares / degrees), degrees) if degrees else (float("nan"), 0)


def cluster_means(values: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """The mean of each cluster, shape (clusters,)."""
    names, member = np.unique(clusters, return_inverse=True)
    return np.bincount(member, values, len(names)) / np.bincount(member, minlength=len(names))


def shifts(
    means: Sequence[np.ndarray], raters: np.ndarray, of_rater: float, variance: float, centre: np.ndarray
) -> Shifts:
    """Tests for each group whether judge minus physicians lies off the centre, two-sided.

    Args:
        means: For each group its cluster means of judge minus physicians (a cluster is a model within a question, or a
            conversation within a category), each of shape (clusters of the group,), at least one.
        raters: How many physicians scored in each group, shape (groups,).
        of_rater: From `rater_variance`.
        variance: Of cluster means within a group, over all groups, from `pooled_variance`.
        centre: What judge minus physicians is where nothing is wrong with the group, shape (groups,).
    """
    counts = np.array([len(one) for one in means])
    shift = np.array([one.mean() for one in means]) - centre
    squares = np.array([((one - one.mean()) ** 2).sum() for one in means])
    degrees = PRIOR_DEGREES + counts - 1
    moderated = np.maximum((PRIOR_DEGREES * variance + squares) / degrees, ROUNDING)
    error = np.sqrt(moderated / counts + of_rater / raters)
    p_value = 2 * student.sf(np.abs(shift) / error, degrees)
    return Shifts(shift, error, p_value, false_discovery_control(p_value) if len(p_value) else p_value)


def centres(mean: np.ndarray, category: np.ndarray, fewest: int = 5) -> np.ndarray:
    """The judge's usual lenience: the median over the questions of a category, of all where it has too few.

    A judge that is lenient throughout a category is no flaw of one of its questions.

    Args:
        mean: Judge minus physicians of each question, shape (questions,).
        category: Shape (questions,).
        fewest: Questions that a category needs.
    """
    result = np.full(len(mean), np.median(mean) if len(mean) >= fewest else 0.0)
    for one in np.unique(category):
        rows = category == one
        if rows.sum() >= fewest:
            result[rows] = np.median(mean[rows])
    return result
