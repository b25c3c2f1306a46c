"""Tests of whether judge and physicians disagree beyond noise: one per group of answers, corrected for many.

A question is tested for the size of its disagreement, not for its mean: where a checklist lacks a point, the judge is
lenient on the answers that lack it and right on the others. The size is compared with the judge's own error and the
physicians' noise from answer to answer, both estimated on the bulk of this run's questions (Efron, JASA 99, 2004: the
null hypothesis is estimated, too), and with each physician's own view of a question, which all answers scored by this
physician share. Three samples of a few models are typical, so noise is pooled over questions and varies between them
like a scaled inverse chi-square: the size then follows an F distribution (Smyth, Statistical Applications in Genetics
and Molecular Biology 3, 2004).

A category is tested for its mean: a rubric that is read too leniently shifts all of its questions.

With many questions, Benjamini and Hochberg (JRSS B 57, 1995) bounds the share of false findings. Empirical-Bayes
shrinkage of the disagreements would need their distribution over questions, a few flawed ones among many sound ones,
which cannot be estimated from few answers per question.
"""

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.stats import f as f_distribution
from scipy.stats import false_discovery_control
from scipy.stats import t as student

PRIOR_DEGREES = 4.0
"""Weight, in degrees of freedom, of the pooled variance in each group's own."""
_NOISE_DEGREES = 20.0
"""Degrees of freedom of the noise distribution: the more, the less noise varies between questions."""
ROUNDING = 1 / 12
"""The variance from rounding to whole levels: the lower bound for every group."""
_BULK, _ROUNDS, _FEWEST = 0.9, 20, 5
_PRIOR_RATER_VARIANCE, _PRIOR_PAIRS = 0.3**2, 10
"""Prior: a physician's view of a question varies by 0.3 levels, with the weight of ten comparisons."""


class Noise(NamedTuple):
    """Judge minus physicians where nothing is wrong: its mean by question, and its variance from answer to answer."""

    centre: np.ndarray
    variance: float


class Tested(NamedTuple):
    """One value per group; all arrays have shape (groups,).

    Attributes:
        shift: The mean of judge minus physicians, less the centre, in levels.
        size: The root mean square of the same; for a category the absolute shift.
        noise: What the size is by noise alone; for a category the standard error of its shift.
        p_value: Of a size at least this large by noise alone.
        adjusted_p: The least share of false findings at which the group is one.
    """

    shift: np.ndarray
    size: np.ndarray
    noise: np.ndarray
    p_value: np.ndarray
    adjusted_p: np.ndarray


def rater_variance(levels: np.ndarray, question: np.ndarray) -> float:
    """The variance of a physician's view of a whole question, in squared levels, by moments.

    Two raters of the same answers to a question differ in the mean by their views of it and by the rest of their noise
    from answer to answer, which is subtracted where a question has several such answers.

    Args:
        levels: 1-5, shape (n, raters), NaN where a rater did not score.
        question: Shape (n,).

    Returns:
        Above 0; the fewer answers have two raters, the closer it is to 0.3 squared.
    """
    by_pair = [
        differences[np.isfinite(differences)]
        for name in np.unique(question)
        for first, second in combinations(levels[question == name].T, 2)
        if np.isfinite(differences := first - second).any()
    ]
    degrees = sum(len(differences) - 1 for differences in by_pair)
    squares = sum(((differences - differences.mean()) ** 2).sum() for differences in by_pair)
    noise = squares / degrees if degrees else 0.0
    variances = [max(0.0, differences.mean() ** 2 - noise / len(differences)) / 2 for differences in by_pair]
    return float((sum(variances) + _PRIOR_PAIRS * _PRIOR_RATER_VARIANCE) / (len(by_pair) + _PRIOR_PAIRS))


def cluster_means(values: np.ndarray, clusters: np.ndarray) -> np.ndarray:
    """The mean of each cluster, shape (clusters,)."""
    names, member = np.unique(clusters, return_inverse=True)
    return np.bincount(member, values, len(names)) / np.bincount(member, minlength=len(names))


def bulk_noise(means: Sequence[np.ndarray], category: np.ndarray, view: np.ndarray) -> Noise:
    """Estimate noise on the bulk of the questions, in turns: those beyond its nine-tenths quantile are left out.

    Where a judge is lenient throughout a category, no single question is flawed: the centre is the category's median,
    or that of all questions if the category has too few.

    Args:
        means: For each question the means of its clusters (a cluster is a model) of judge minus physicians, each of
            shape (clusters of the question,), at least one.
        category: Shape (questions,).
        view: From `rater_variance`, divided by the raters of each question, shape (questions,).

    Returns:
        With a variance of at least `ROUNDING`. From fewer than five questions, at least 1 and a centre of 0.
    """
    bulk = np.ones(len(means), dtype=bool)
    centre, variance = np.zeros(len(means)), 1.0
    for _ in range(_ROUNDS):
        centre = _centre(means, category, bulk)
        deviations = [mean - usual for mean, usual in zip(means, centre, strict=True)]
        variance = _bulk_variance(deviations, view, bulk, _BULK / 2 if not bulk.all() else 0.5)
        inside = 1 - _p_values(deviations, view, variance) <= _BULK
        if (inside == bulk).all() or not inside.any():
            break
        bulk = inside
    return Noise(centre, variance) if len(means) >= _FEWEST else Noise(np.zeros(len(means)), max(1.0, variance))


def _centre(means: Sequence[np.ndarray], category: np.ndarray, bulk: np.ndarray) -> np.ndarray:
    question = np.array([mean.mean() for mean in means])
    result = np.full(len(means), np.median(question[bulk]))
    for name in np.unique(category):
        if (rows := bulk & (category == name)).sum() >= _FEWEST:
            result[category == name] = np.median(question[rows])
    return result


def _bulk_variance(deviations: Sequence[np.ndarray], view: np.ndarray, bulk: np.ndarray, median: float) -> float:
    """The variance at which the median question of the bulk is where noise alone would put it."""

    def excess(log_variance: float) -> float:
        return float(np.median(1 - _p_values(deviations, view, float(np.exp(log_variance)))[bulk])) - median

    low, high = np.log(ROUNDING), np.log(16.0)
    if excess(low) <= 0:
        return ROUNDING
    return 16.0 if excess(high) > 0 else float(np.exp(brentq(excess, low, high)))


def _p_values(deviations: Sequence[np.ndarray], view: np.ndarray, variance: float) -> np.ndarray:
    counts = np.array([len(group) for group in deviations])
    forms = np.array([_form(group, variance, v) for group, v in zip(deviations, view, strict=True)])
    p_values: np.ndarray = f_distribution.sf(forms / counts, counts, _NOISE_DEGREES)
    return p_values


def sizes(deviations: Sequence[np.ndarray], view: np.ndarray, variance: float) -> Tested:
    """Test for each group whether its disagreement is larger than noise alone makes it.

    Args:
        deviations: For each group its cluster means (a cluster is a model) of judge minus physicians, less the centre,
            each of shape (clusters of the group,), at least one.
        view: From `rater_variance`, divided by the raters of each group, shape (groups,).
        variance: From `bulk_noise`.
    """
    p_value = _p_values(deviations, view, variance)
    size = np.array([np.sqrt((group**2).mean()) for group in deviations])
    shift = np.array([group.mean() for group in deviations])
    return Tested(shift, size, np.sqrt(variance + view), p_value, false_discovery_control(p_value))


def _form(deviations: np.ndarray, variance: float, view: float) -> float:
    """The squared length of deviations with a common part, in standard deviations: d' inverse(variance I + view) d."""
    share = view / (variance + len(deviations) * view)
    return float(((deviations**2).sum() - share * deviations.sum() ** 2) / variance)


def shifts(means: Sequence[np.ndarray], view: np.ndarray) -> Tested:
    """Test for each category whether the mean of judge minus physicians differs from 0, two-sided.

    The variance of a category's few conversations is moderated by that of all categories (Smyth, 2004).

    Args:
        means: For each category the means of its conversations, each of shape (conversations,), at least two.
        view: From `rater_variance`, divided by the raters of each category, shape (categories,).
    """
    counts = np.array([len(group) for group in means])
    shift = np.array([group.mean() for group in means])
    squares = np.array([((group - group.mean()) ** 2).sum() for group in means])
    degrees = PRIOR_DEGREES + counts - 1
    pooled = squares.sum() / (counts - 1).sum()
    error = np.sqrt(np.maximum((PRIOR_DEGREES * pooled + squares) / degrees, ROUNDING) / counts + view)
    p_value = 2 * student.sf(np.abs(shift) / error, degrees)
    return Tested(shift, np.abs(shift), error, p_value, false_discovery_control(p_value))
