"""A value with its interval, as the JSON files hold it."""

import math
from collections.abc import Collection, Mapping
from typing import Annotated

import numpy as np
from pydantic import BaseModel, ConfigDict, PlainSerializer
from scipy.special import stdtrit
from typing_extensions import TypedDict, Unpack  # pydantic reads the TypedDict of `typing` from Python 3.12 on only

from medjudge.statistics.bootstrap import Interval, Resampling, Statistics, Tally, bootstrap, dense_tally
from medjudge.statistics.measures import divided


class Record(BaseModel):
    """A result that is written as JSON. Fields that a later version adds are ignored, so that it can be read."""

    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


Rounded = Annotated[float, PlainSerializer(lambda value: round(value, 6))]
"""A number that is written with six decimals."""


class Estimate(TypedDict):
    """A value with its 95 % interval; None if undefined. Counts have no interval."""

    value: float | int | None
    low: float | int | None
    high: float | int | None


FEWEST_FOR_INTERVAL = 8
"""Conversations below which no interval is given: it would be far too narrow, or say nothing."""
_ROUNDING = 1e-9


def estimate(interval: Interval, conversations: int | None = None, share: bool = False) -> Estimate:
    """Converts an interval to its JSON form, without its ends where there are too few conversations for them.

    If all resamples repeat the value, they say nothing about its uncertainty. There is then no interval, except for a
    share, which gets Wilson's (1927) on the number of conversations.

    Args:
        conversations: How many are behind the value, where that is known.
        share: Whether the value is a share of answers.
    """
    value, low, high = interval
    if not math.isfinite(value):
        return {"value": None, "low": None, "high": None}
    if conversations is not None and conversations < FEWEST_FOR_INTERVAL:
        interval = Interval(value, math.nan, math.nan)
    elif abs(high - low) < _ROUNDING:
        interval = wilson(value, conversations) if share and conversations else Interval(value, math.nan, math.nan)
    return interval_estimate(*interval)


def interval_estimate(value: float, low: float, high: float) -> Estimate:
    """Value and ends with six decimals; None where one is not finite."""
    return {"value": rounded(value), "low": rounded(low), "high": rounded(high)}


def estimates(
    tallies: Mapping[str, Tally],
    cluster: np.ndarray,
    statistics: Statistics,
    shares: Collection[str] = (),
    **how: Unpack[Resampling],
) -> dict[str, Estimate]:
    """Statistics with their intervals over conversations, for JSON; the arguments are those of `bootstrap`.

    Args:
        shares: The statistics that are shares of answers.
    """
    n = len(np.unique(cluster))
    intervals = bootstrap(tallies, cluster, statistics, **how)
    return {name: estimate(interval, n, name in shares) for name, interval in intervals.items()}


def mean_interval(values: np.ndarray, cluster: np.ndarray, **how: Unpack[Resampling]) -> Interval:
    """The mean with its interval over conversations; NaN where there is no value."""
    if len(values) == 0:
        return Interval(math.nan, math.nan, math.nan)
    sums = {"values": dense_tally(np.column_stack([values, np.ones(len(values))]).astype(float))}
    return bootstrap(sums, cluster, lambda drawn: {"mean": divided(*drawn["values"])}, **how)["mean"]


def mean_estimate(values: np.ndarray, cluster: np.ndarray, share: bool = False, **how: Unpack[Resampling]) -> Estimate:
    """`mean_interval` for JSON; `share` says that the values are 0 and 1."""
    return estimate(mean_interval(values, cluster, **how), len(np.unique(cluster)), share)


def estimate_text(value: Estimate) -> str:
    """Formats an estimate for people: `0.72 (0.66 to 0.78)`; a dash if it is undefined."""
    middle, low, high = value["value"], value["low"], value["high"]
    if middle is None:
        return "-"
    return f"{middle:.2f}" if low is None or high is None else f"{middle:.2f} ({low:.2f} to {high:.2f})"


def wilson(share: float, n: float, degrees_of_freedom: float = math.inf) -> Interval:
    """Wilson's 95 % interval (1927) of a share.

    Args:
        share: The share, 0..1.
        n: The number of independent observations, which may be an effective number and need not be whole.
        degrees_of_freedom: Those of the variance that `n` was estimated from: the t quantile is used; infinity gives
            the normal quantile.
    """
    quantile = float(stdtrit(degrees_of_freedom, 0.975))
    centre = (n * share + quantile**2 / 2) / (n + quantile**2)
    half = quantile / (n + quantile**2) * math.sqrt(n * share * (1 - share) + quantile**2 / 4)
    # At a share of 0 or 1 the bound equals the share, up to rounding.
    return Interval(share, max(min(centre - half, share), 0.0), min(max(centre + half, share), 1.0))


def clustered_wilson(happened: np.ndarray, cluster: np.ndarray, cautious: bool = False) -> Interval:
    """Wilson's interval of a share, its sample size divided by the design effect of clusters (Kish, 1965).

    It stays inside 0-1 and is right for few answers and for shares near 0 or 1, where a bootstrap collapses to a point.

    Args:
        happened: 0 or 1 for each answer, shape (n,), at least one.
        cluster: The conversation of each answer, shape (n,).
        cautious: Measures the design effect with two conversations added, one in which everything happened and one in
            which nothing did. Without them "0 of 40" would pass for proof that answers are independent; with them, 0 of
            40 answers from 8 conversations are worth 8 answers.
    """
    _, member = np.unique(cluster.astype(str), return_inverse=True)
    size, total = np.bincount(member).astype(float), np.bincount(member, weights=happened)
    if cautious:
        typical = float((size**2).sum() / len(happened))
        size, total = np.append(size, [typical, typical]), np.append(total, [typical, 0.0])
    middle = total.sum() / size.sum()
    binomial = size.sum() * middle * (1 - middle)
    effect = max(1.0, float(((total - middle * size) ** 2).sum() / binomial)) if binomial > 0 else 1.0
    return wilson(float(np.mean(happened)), len(happened) / effect)


def paired_interval(drawn: Interval, clusters: int) -> Interval:
    """The interval of a difference of two shares on the same answers, from the one that was drawn.

    Where no conversation differs, which does not prove that none would, it allows what 0 of n conversations allows.
    """
    if drawn.low != drawn.high:
        return drawn
    reach = wilson(0, clusters).high
    return Interval(drawn.value, max(-1.0, drawn.value - reach), min(1.0, drawn.value + reach))


def rounded(value: float) -> float | None:
    """Rounds to six decimals; None if not finite."""
    return round(value, 6) if math.isfinite(value) else None
