"""Is the judge's confidence honest: calibration of P(usable), and what is left of its errors when it may abstain."""

from typing import NamedTuple

import numpy as np
from scipy.stats import binomtest, rankdata

FEWEST_ANSWERS = 20
"""To fit a temperature on: five answers that happen to be right would make a judge sure of everything."""


class CalibrationBin(NamedTuple):
    """Answers of like predicted probability.

    The bin goes from `lowest` to `highest`; `predicted` is the mean of its probabilities, `observed` its share of
    usable answers, `low` and `high` the 95 % interval of that share (Wilson, 1927), which takes answers as independent.
    """

    n: int
    lowest: float
    highest: float
    predicted: float
    observed: float
    low: float
    high: float


class RiskCoverage(NamedTuple):
    """One point for each distinct confidence, highest first: arrays of equal length.

    `coverage` is the share of answers with at least this confidence, `risk` the share of errors among them.
    """

    coverage: np.ndarray
    risk: np.ndarray


def calibration_curve(probability: np.ndarray, usable: np.ndarray, bins: int = 10) -> list[CalibrationBin]:
    """Predicted against observed shares in bins of equal mass ("adaptive" binning: Nguyen and O'Connor, 2015).

    Equal probabilities share a bin, so there can be fewer bins than asked for, and none is empty.

    Args:
        probability: The judge's P(usable), 0..1, shape (n,).
        usable: What the physicians say of the same answers, bool, shape (n,).
        bins: The most bins.

    Returns:
        From the lowest probabilities to the highest; empty where there is no answer.

    Raises:
        ValueError: The shapes differ, or a probability lies outside 0..1.
    """
    probability, usable = _checked(probability, usable)
    if len(probability) == 0:
        return []
    # By mid-ranks: a value that most answers share does not swallow the bins beside it, as with quantiles for edges.
    edges = np.arange(1, bins) * (len(probability) - 1) / bins
    place = np.searchsorted(edges, rankdata(probability) - 1)
    return [_bin(probability[place == one], usable[place == one]) for one in np.unique(place)]


def _bin(probability: np.ndarray, usable: np.ndarray) -> CalibrationBin:
    interval = binomtest(int(usable.sum()), len(usable)).proportion_ci(method="wilson")
    return CalibrationBin(
        len(usable),
        float(probability.min()),
        float(probability.max()),
        float(probability.mean()),
        float(usable.mean()),
        float(interval.low),
        float(interval.high),
    )


def expected_calibration_error(probability: np.ndarray, usable: np.ndarray, bins: int = 10) -> float:
    """The mean distance of predicted from observed shares, bins weighted by answers (Guo et al., 2017, section 2).

    Over the equal-mass bins of `calibration_curve`, and of P(usable) where Guo et al. take the top label's confidence.
    Noise alone makes it larger than 0; the fewer answers a bin has, the more.

    Args:
        probability: The judge's P(usable), 0..1, shape (n,).
        usable: What the physicians say, bool, shape (n,).
        bins: The most bins.

    Returns:
        0 (calibrated) to 1; NaN where there is no answer.
    """
    curve = calibration_curve(probability, usable, bins)
    if not curve:
        return float("nan")
    return sum(one.n * abs(one.predicted - one.observed) for one in curve) / sum(one.n for one in curve)


def brier(probability: np.ndarray, usable: np.ndarray) -> float:
    """The Brier score (Brier, 1950), the mean squared distance of P(usable) from what the physicians say.

    Args:
        probability: The judge's P(usable), 0..1, shape (n,).
        usable: What the physicians say, bool, shape (n,).

    Returns:
        0 (perfect) to 1, and 0.25 for a judge that always says one half; NaN where there is no answer.
    """
    probability, usable = _checked(probability, usable)
    return float(np.mean((probability - usable) ** 2)) if len(usable) else float("nan")


def risk_coverage(confidence: np.ndarray, correct: np.ndarray) -> RiskCoverage:
    """The risk-coverage curve of selective classification (Geifman and El-Yaniv, 2017).

    Answers of equal confidence enter together, so the curve does not depend on the order of rows.

    Args:
        confidence: Higher is surer, shape (n,); for usable / not usable max(P(usable), 1 - P(usable)).
        correct: Whether the judge's label equals the physicians', bool, shape (n,).

    Raises:
        ValueError: The shapes differ, or a confidence is not finite.
    """
    confidence, correct = np.asarray(confidence, float), np.asarray(correct, bool)
    _same_length(confidence, correct, "confidence", "correct")
    if not np.isfinite(confidence).all():
        raise ValueError("confidence: not all values are finite")
    _, place = np.unique(-confidence, return_inverse=True)
    accepted, errors = np.cumsum(np.bincount(place)), np.cumsum(np.bincount(place, weights=~correct))
    return RiskCoverage(accepted / max(len(correct), 1), errors / accepted)


def area_under_risk_coverage(confidence: np.ndarray, correct: np.ndarray) -> float:
    """The mean risk over all coverages, lower is better (Geifman, Uziel and El-Yaniv, 2019, arXiv 1805.08206).

    Each answer counts with the risk at which it enters `risk_coverage`. A confidence that says nothing gives the plain
    error rate.

    Args:
        confidence: Higher is surer, shape (n,).
        correct: Whether the judge's label equals the physicians', bool, shape (n,).

    Returns:
        0 to 1; NaN where there is no answer.
    """
    curve = risk_coverage(confidence, correct)
    if len(curve.coverage) == 0:
        return float("nan")
    return float(np.sum(np.diff(curve.coverage, prepend=0) * curve.risk))


def _checked(probability: np.ndarray, usable: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    probability, usable = np.asarray(probability, float), np.asarray(usable, bool)
    _same_length(probability, usable, "probability", "usable")
    # A judgment's five probabilities may add up to a little over 1.
    if not ((probability >= 0) & (probability <= 1.002)).all():
        raise ValueError(f"probability: from {probability.min()} to {probability.max()}, and it goes from 0 to 1")
    return np.minimum(probability, 1), usable


def _same_length(one: np.ndarray, other: np.ndarray, name: str, other_name: str) -> None:
    if one.shape != other.shape or one.ndim != 1:
        raise ValueError(f"{name} {one.shape} and {other_name} {other.shape} must be of one length")
