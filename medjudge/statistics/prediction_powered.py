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


class VarianceParts(NamedTuple):
    """The components of the variance, as means over conversations; they predict it for other numbers of scores.

    A conversation's scored physicians' scores (y), scored judgments (f) and unscored judgments (u) are each summed as
    deviations from the mean of their kind; two letters name the mean product of two such sums. The correction
    G / (G - 1), G conversations, is in them.
    """

    yy: float
    yf: float
    ff: float
    yu: float
    fu: float
    uu_scored: float  # over the scored conversations, as all of the above
    uu_unscored: float  # over the conversations with no score
    scored_answers: float  # answers with a score, per scored conversation
    left_answers: float  # answers without one, per scored conversation
    unscored_answers: float  # answers, per conversation with no score
    one_score: float  # variance of a single physician's score


class Rate(NamedTuple):
    """A usability rate, all shares from 0 to 1.

    `power_tuning` is lambda, the weight of the judgments: 0 ignores them. `effective_scores` says how many
    independent physicians' scores the estimate is worth. `low` and `high`, `standard_error` and `effective_scores`
    are NaN, and `parts` is None, if fewer than two conversations were scored. `note` says what was done if the usual
    method could not be used.
    """

    value: float
    low: float
    high: float
    power_tuning: float
    answers: int
    scored: int
    conversations: int
    conversations_scored: int
    standard_error: float
    effective_scores: float
    parts: VarianceParts | None
    note: str | None


def prediction_powered_rate(
    usable_by_judge: np.ndarray, usable_by_physicians: np.ndarray, clusters: np.ndarray
) -> Rate:
    """The share of answers that physicians find usable, from some of their scores and judgments of all answers.

    The rate is that of answers like these, in conversations like these; for the benchmark's own N answers, a finite
    population, the interval is on the safe side. It is estimated by

        mean of y over scored + lambda * (mean of f over unscored - mean of f over scored)

    with y the physicians' labels and f the judge's: PPI++ for a mean with the usual disjoint sets. A mean over all
    answers instead of the unscored ones is the same estimator with lambda * N / (number unscored), so the choice
    only sets what lambda = 1 means. All three means are ratios whose numerators add up over conversations, so each
    conversation has one influence, however many of its answers are scored, and the variance is the sum of the squared
    influences, with G / (G - 1) for the scored and the unscored part. Lambda minimises it between 0 and the share of
    unscored answers (times the slope of y on f where that is above 1): few unscored answers have little to say.

    The interval is Wilson's (1927) on the effective number of scores, which is the variance of one score over that of
    the estimate, with the t quantile of the scored conversations less one; Korn and Graubard (1998) put an effective
    number into the exact interval for surveys in the same way. The usual symmetric interval covers too seldom at a
    rate of 0.85 from 50 conversations. The variance also has lambda^2 / (2 G^2), half a scored conversation misjudged,
    for errors of the judge that few scores need not show. This is no part of the papers: without it a judge right on
    all of 20 conversations would count as proven, and intervals there would cover three times in four. Both vanish in
    large studies, where the result is that of PPI++. In `eval/statistics/interval_coverage.py` 95 % intervals cover in
    93 to 98 % of studies with 50 or more scored conversations, but in 91 % of those with 50 of nearly repeated answers.

    Assumed: the scored conversations are a random sample and, where a conversation is scored in part, so are its scored
    answers. Scores of the easy, short or suspicious ones give a wrong rate.

    Args:
        usable_by_judge: The judge's P(usable), or 0 and 1, for each answer, shape (N,).
        usable_by_physicians: The physicians' label, 0 to 1, NaN if none scored, shape (N,).
        clusters: The conversation of each answer, any sortable values, shape (N,).

    Returns:
        The rate. Without an interval: the physicians' mean if one conversation is scored, the judge's mean if none is.

    Raises:
        ValueError: The shapes differ, there is no answer, or a value lies outside 0 to 1.
    """
    judge, physicians, cluster = _checked(usable_by_judge, usable_by_physicians, clusters)
    scored = ~np.isnan(physicians)
    conversations, conversations_scored = int(cluster.max()) + 1, len(np.unique(cluster[scored]))
    without_interval = Rate(
        value=float(judge.mean()),
        low=math.nan,
        high=math.nan,
        power_tuning=1.0,
        answers=len(judge),
        scored=int(scored.sum()),
        conversations=conversations,
        conversations_scored=conversations_scored,
        standard_error=math.nan,
        effective_scores=math.nan,
        parts=None,
        note="no physician scored an answer: the judge's mean, of unknown error",
    )
    if not scored.any():
        return without_interval
    mean = float(physicians[scored].mean())
    if conversations_scored < 2:
        note = "one conversation scored: the physicians' mean, and no interval"
        return without_interval._replace(value=mean, power_tuning=0.0, note=note)

    parts = _variance_parts(judge, physicians, cluster)
    power_tuning, variance = _tuned(parts, conversations_scored, conversations)
    if power_tuning > 0:
        mean += power_tuning * float(judge[~scored].mean() - judge[scored].mean())
    value = min(max(mean, 0.0), 1.0)
    effective = _effective_scores(parts, variance, conversations_scored)
    low, high = wilson(value, effective, degrees_of_freedom=conversations_scored - 1)
    return without_interval._replace(
        value=value,
        low=low,
        high=high,
        power_tuning=power_tuning,
        standard_error=math.sqrt(variance),
        effective_scores=effective,
        parts=parts,
        note=_ALIKE if variance <= _NO_VARIANCE else None,
    )


def physicians_only_rate(usable_by_physicians: np.ndarray, clusters: np.ndarray) -> Rate:
    """The same rate from the physicians' scores alone, lambda = 0; shows what the judge adds.

    The interval is Wilson's on the effective number of scores, p (1 - p) over the cluster-robust variance, with a t
    quantile. It stays inside 0 to 1 and keeps its coverage near both ends. Where the variance is estimated as zero,
    as for 12 usable of 12, each scored conversation counts as one score, since the correlation of its
    answers is unknown; so 12 of 12 gives 0.71 to 1 and never 1 to 1.

    Args:
        usable_by_physicians: The physicians' label, 0 to 1, NaN if none scored, shape (N,).
        clusters: The conversation of each answer, shape (N,).

    Returns:
        The rate; NaN if no physician scored.

    Raises:
        ValueError: As for `prediction_powered_rate`.
    """
    constant = np.zeros(np.shape(usable_by_physicians))  # a constant judge adds nothing
    rate = prediction_powered_rate(constant, usable_by_physicians, clusters)
    if rate.scored == 0:
        return rate._replace(value=math.nan, power_tuning=0.0, note="no physician scored an answer")
    return rate


def judge_only_rate(usable_by_judge: np.ndarray) -> float:
    """The judge's own rate, shape (N,) -> 0 to 1. It has no valid interval for the physicians' rate."""
    return float(np.mean(usable_by_judge))


def scores_for_width(rate: Rate, width: float) -> int | None:
    """The number of further answers that physicians must score for an interval of a given width.

    Assumes that further conversations of the same benchmark are scored like the present ones, with the best lambda for
    each number. The variances and covariances are those of `rate.parts`, so the result is as uncertain as they are:
    plan again as scores come in.

    Args:
        rate: The rate from the present scores.
        width: The required `high - low`, above 0, for instance 0.03.

    Returns:
        The number of answers; 0 if the interval is narrow enough already, None if it would still be too wide with
        every conversation scored.

    Raises:
        ValueError: There is no interval yet, or the width is not above 0.
    """
    if rate.parts is None:
        raise ValueError(f"{rate.conversations_scored} conversations are scored; to plan, have at least two scored")
    if not width > 0:
        raise ValueError(f"width is {width}; give the required width as a share above 0, such as 0.03")
    if rate.high - rate.low <= width:
        return 0
    for scored in range(rate.conversations_scored + 1, rate.conversations + 1):
        _, variance = _tuned(rate.parts, scored, rate.conversations)
        effective = _effective_scores(rate.parts, variance, scored)
        low, high = wilson(rate.value, effective, degrees_of_freedom=scored - 1)
        if high - low <= width:
            return math.ceil(rate.parts.scored_answers * (scored - rate.conversations_scored) - 1e-9)
    return None


def _checked(
    judge: np.ndarray, physicians: np.ndarray, clusters: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    judge, physicians = np.asarray(judge, dtype=float), np.asarray(physicians, dtype=float)
    shapes = (judge.shape, physicians.shape, np.shape(clusters))
    if judge.ndim != 1 or len(set(shapes)) > 1 or len(judge) == 0:
        raise ValueError(f"judge, physicians and clusters must be of one length above 0, and have {shapes}")
    if not ((judge >= 0) & (judge <= 1)).all():
        raise ValueError("usable_by_judge: not all from 0 to 1; leave out answers without a judgment, or count them 0")
    if ((physicians < 0) | (physicians > 1)).any():
        raise ValueError("usable_by_physicians: not all from 0 to 1; give usable or not, and NaN where nobody scored")
    return judge, physicians, np.unique(clusters, return_inverse=True)[1]


def _variance_parts(judge: np.ndarray, physicians: np.ndarray, cluster: np.ndarray) -> VarianceParts:
    scored = ~np.isnan(physicians)
    answers_scored = np.bincount(cluster[scored], minlength=cluster.max() + 1)
    answers_left = np.bincount(cluster[~scored], minlength=len(answers_scored))
    y = _deviations(physicians, scored, cluster)
    f = _deviations(judge, scored, cluster)
    u = _deviations(judge, ~scored, cluster)
    with_scores = answers_scored > 0
    if np.count_nonzero(answers_left) < 2:
        answers_left[:] = 0  # one conversation has no variance, so its judgments cannot be used
    return VarianceParts(
        yy=_mean((y * y)[with_scores]),
        yf=_mean((y * f)[with_scores]),
        ff=_mean((f * f)[with_scores]),
        yu=_mean((y * u)[with_scores]),
        fu=_mean((f * u)[with_scores]),
        uu_scored=_mean((u * u)[with_scores]),
        uu_unscored=_mean((u * u)[~with_scores]),
        scored_answers=_mean(answers_scored[with_scores]),
        left_answers=_mean(answers_left[with_scores]),
        unscored_answers=_mean(answers_left[~with_scores]),
        one_score=float(physicians[scored].mean() * (1 - physicians[scored].mean())),
    )


def _deviations(values: np.ndarray, rows: np.ndarray, cluster: np.ndarray) -> np.ndarray:
    """The sum of deviations from the mean of these rows, per conversation, shape (conversations,)."""
    conversations = len(np.unique(cluster[rows]))
    if conversations < 2:
        return np.zeros(cluster.max() + 1)
    total = np.bincount(cluster[rows], values[rows] - values[rows].mean(), minlength=cluster.max() + 1)
    return total * math.sqrt(conversations / (conversations - 1))


def _mean(values: np.ndarray) -> float:
    return float(values.mean()) if len(values) else 0.0


def _tuned(parts: VarianceParts, scored: int, conversations: int) -> tuple[float, float]:
    """The best lambda and its variance for a number of scored conversations: a parabola in lambda."""
    others = conversations - scored
    n = parts.scored_answers * scored
    m = parts.left_answers * scored + parts.unscored_answers * others
    constant = scored * parts.yy / n**2
    if m == 0 or constant <= _NO_VARIANCE:
        return 0.0, constant
    half_slope = scored * (parts.yu / (n * m) - parts.yf / n**2)
    square = scored * (parts.ff / n**2 - 2 * parts.fu / (n * m) + parts.uu_scored / m**2)
    square += others * parts.uu_unscored / m**2 + _ASSUMED_ERRORS / scored**2
    # With independent answers the best lambda is this share times the slope of y on f. The variance of a handful of
    # answers in two or three conversations cannot be told; without this bound they would speak for all.
    slope = parts.yf / parts.ff if parts.ff > _NO_VARIANCE else 0.0
    most = min(1.0, max(1.0, slope) * m / (n + m))
    power_tuning = min(max(0.0, -half_slope / square), most)
    return power_tuning, constant + 2 * power_tuning * half_slope + power_tuning**2 * square


def _effective_scores(parts: VarianceParts, variance: float, scored: int) -> float:
    return parts.one_score / variance if variance > _NO_VARIANCE else float(scored)
