"""Estimates: a value with its interval, as the JSON files hold it."""

import math

from scipy.special import stdtrit
from scipy.stats import norm
from typing_extensions import TypedDict  # pydantic reads the one of `typing` from Python 3.12 on only

from medjudge.statistics.bootstrap import Interval


class Estimate(TypedDict):
    """A value with the ends of its 95 % interval; None where undefined. Counts have a value only."""

    value: float | int | None
    low: float | int | None
    high: float | int | None


_ROUNDING = 1e-9


def estimate(interval: Interval, share_of: int | None = None) -> Estimate:
    """An interval as it stands in JSON.

    Resamples that all repeat the value know nothing of its uncertainty: then there is no interval, but for a share,
    which gets Wilson's (1927) on the number of conversations.

    Args:
        share_of: The number of conversations, where the value is a share of answers.
    """
    value, low, high = interval
    if not math.isfinite(value):
        return {"value": None, "low": None, "high": None}
    if abs(high - low) < _ROUNDING:
        low, high = wilson(value, share_of) if share_of else (math.nan, math.nan)
    return {"value": rounded(value), "low": rounded(low), "high": rounded(high)}


def estimate_text(value: Estimate) -> str:
    """An estimate for people: `0.72 (0.66 to 0.78)`; a dash where it is undefined."""
    middle, low, high = value["value"], value["low"], value["high"]
    if middle is None:
        return "-"
    return f"{middle:.2f}" if low is None or high is None else f"{middle:.2f} ({low:.2f} to {high:.2f})"


def wilson(
    share: float, n: float, confidence: float = 0.95, degrees_of_freedom: float | None = None
) -> tuple[float, float]:
    """Wilson's interval (1927) of a share.

    Args:
        share: 0..1.
        n: The number of independent observations; an effective number need not be whole.
        degrees_of_freedom: Takes the quantile of a t distribution instead of the normal one, where the variance behind
            an effective number was itself estimated.

    Returns:
        Low and high end, 0..1; the share lies between them.
    """
    tail = (1 + confidence) / 2
    z = float(norm.ppf(tail) if degrees_of_freedom is None else stdtrit(degrees_of_freedom, tail))
    centre = (share + z**2 / (2 * n)) / (1 + z**2 / n)
    half = z / (1 + z**2 / n) * math.sqrt(share * (1 - share) / n + z**2 / (4 * n**2))
    # At a share of 0 or 1 one end is that share, but for rounding.
    return max(min(centre - half, share), 0.0), min(max(centre + half, share), 1.0)


def rounded(value: float) -> float | None:
    """Six decimals, enough for any use; null where undefined."""
    return round(value, 6) if math.isfinite(value) else None
