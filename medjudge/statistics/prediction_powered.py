"""Prediction-powered inference: physicians' usability rate from some of their scores and all judgments.

A few hundred physicians' scores and judgments of all answers give a usability rate with a valid interval
(Angelopoulos et al., Science 2023), tuned so that a poor judge does no harm (PPI++: Angelopoulos, Duchi and Zrnic,
arXiv 2311.01453). The answers of a conversation are not independent, so all variances are between conversations.
"""

import math
from typing import NamedTuple

import numpy as np

from medjudge.statistics.estimates import wilson

_NO_VARIANCE = 1e-12
_ASSUMED_ERRORS = 0.5
"""Misjudged conversations that the variance assumes in addition to the observed ones."""
_ALIKE = "the scored conversations are all alike: the interval uses only them, each counted as one score"


class Rate(NamedTuple):
    """A usability rate, all shares from 0 to 1.

    `power_tuning` is lambda, the weight of the judgments: 0 ignores them. `low`, `high` and `standard_error` are NaN if
    fewer than two conversations were scored. `note` says what was done if the usual method could not be used.
    """

    value: float
    low: float
    high: float
    power_tuning: float
    answers: int
    scored: int
    conversations_scored: int
    standard_error: float
    note: str | None


def prediction_powered_rate(
    usable_by_judge: np.ndarray, usable_by_physicians: np.ndarray, clusters: np.ndarray
) -> Rate:
    """The share of answers that physicians find usable, from some of their scores and judgments of all answers.

    The rate is that of answers like these, in conversations like these; for the benchmark's own N answers, a finite
    population, the interval is on the safe side. It is estimated by

        mean of y over scored + lambda * (mean of f over unscored - mean of f over scored)

    with y the physicians' labels and f the judge's: PPI++ for a mean with the usual disjoint sets. All three means are
    ratios whose numerators add up over conversations, so each conversation has one influence, and the variance is the
    sum of the squared influences, with G / (G - 1) for the scored and the unscored part. Lambda minimises it between 0
    and the share of unscored answers (times the slope of y on f where that is above 1): few have little to say.

    The interval is Wilson's (1927) on the effective number of scores, which is the variance of one score over that of
    the estimate, with the t quantile of the scored conversations less one, as Korn and Graubard (1998) do for surveys:
    the usual symmetric interval covers too seldom at a rate of 0.85 from 50 conversations. The variance also has
    lambda^2 / (2 G^2), half a scored conversation misjudged, for errors of the judge that few scores need not show:
    without it a judge right on all of 20 conversations would count as proven. This is no part of the papers; both
    vanish in large studies, where the result is that of PPI++. docs/results.md has the measured coverage.

    Assumed: the scored conversations are a random sample and, where a conversation is scored in part, so are its scored
    answers. Scores of the easy, short or suspicious ones give a wrong rate.

    Args:
        usable_by_judge: The judge's P(usable), or 0 and 1, for each answer, shape (N,).
        usable_by_physicians: The physicians' label, 0 to 1, NaN if none scored, shape (N,).
        clusters: The conversation of each answer, any sortable values, shape (N,).

    Returns:
        The rate. Without an interval: the physicians' mean if one conversation is scored, the judge's mean if none is.
    """
    judge, physicians = usable_by_judge, usable_by_physicians
    _, cluster = np.unique(clusters, return_inverse=True)
    scored = ~np.isnan(physicians)
    conversations_scored = len(np.unique(cluster[scored]))
    without_interval = Rate(
        value=float(judge.mean()),
        low=math.nan,
        high=math.nan,
        power_tuning=1.0,
        answers=len(judge),
        scored=int(scored.sum()),
        conversations_scored=conversations_scored,
        standard_error=math.nan,
        note="no physician scored an answer: the judge's mean, of unknown error",
    )
    if not scored.any():
        return without_interval
    usable = float(physicians[scored].mean())
    if conversations_scored < 2:
        note = "one conversation scored: the physicians' mean, and no interval"
        return without_interval._replace(value=usable, power_tuning=0.0, note=note)

    power_tuning, variance = _tuned(judge, physicians, cluster)
    moved = power_tuning * float(judge[~scored].mean() - judge[scored].mean()) if power_tuning > 0 else 0.0
    value = min(max(usable + moved, 0.0), 1.0)
    alike = variance <= _NO_VARIANCE
    effective = float(conversations_scored) if alike else usable * (1 - usable) / variance
    _, low, high = wilson(value, effective, degrees_of_freedom=conversations_scored - 1)
    return without_interval._replace(
        value=value,
        low=low,
        high=high,
        power_tuning=power_tuning,
        standard_error=math.sqrt(variance),
        note=_ALIKE if alike else None,
    )


def physicians_only_rate(usable_by_physicians: np.ndarray, clusters: np.ndarray) -> Rate:
    """The same rate from the physicians' scores alone, lambda = 0; shows what the judge adds.

    Where the variance is estimated as zero, as for 12 usable of 12, each scored conversation counts as one score, since
    the correlation of its answers is unknown; so 12 of 12 gives 0.71 to 1 and never 1 to 1.

    Args:
        usable_by_physicians: The physicians' label, 0 to 1, NaN if none scored, shape (N,).
        clusters: The conversation of each answer, shape (N,).

    Returns:
        The rate; NaN if no physician scored.
    """
    constant = np.zeros(np.shape(usable_by_physicians))  # a constant judge adds nothing
    rate = prediction_powered_rate(constant, usable_by_physicians, clusters)
    if rate.scored == 0:
        return rate._replace(value=math.nan, power_tuning=0.0, note="no physician scored an answer")
    return rate


def _tuned(judge: np.ndarray, physicians: np.ndarray, cluster: np.ndarray) -> tuple[float, float]:
    """The best lambda and its variance, which is a parabola in lambda."""
    scored = ~np.isnan(physicians)
    n, m = int(scored.sum()), int((~scored).sum())
    if len(np.unique(cluster[~scored])) < 2:
        m = 0  # one conversation has no variance, so its judgments cannot be used
    alone = _deviations(physicians, scored, cluster) / n  # each conversation's influence at a lambda of 0
    constant = float((alone**2).sum())
    if m == 0 or constant <= _NO_VARIANCE:
        return 0.0, constant
    scored_judgments = _deviations(judge, scored, cluster) / n
    change = _deviations(judge, ~scored, cluster) / m - scored_judgments
    conversations = len(np.unique(cluster[scored]))
    half_slope = float((alone * change).sum())
    square = float((change**2).sum()) + _ASSUMED_ERRORS / conversations**2
    # With independent answers the best lambda is this share times the slope of y on f. The variance of a handful of
    # answers in two or three conversations cannot be told; without this bound they would speak for all.
    spread = float((scored_judgments**2).sum())
    enough = spread * n**2 / conversations > _NO_VARIANCE
    slope = float((alone * scored_judgments).sum()) / spread if enough else 0.0
    most = min(1.0, max(1.0, slope) * m / (n + m))
    power_tuning = min(max(0.0, -half_slope / square), most)
    return power_tuning, constant + 2 * power_tuning * half_slope + power_tuning**2 * square


def _deviations(values: np.ndarray, rows: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """The sum of deviations from the mean of these rows, per conversation, with G / (G - 1) for the variance."""
    conversations = len(np.unique(cluster[rows]))
    if conversations < 2:
        return np.zeros(cluster.max() + 1)
    total = np.bincount(cluster[rows], values[rows] - values[rows].mean(), minlength=cluster.max() + 1)
    return total * math.sqrt(conversations / (conversations - 1))
