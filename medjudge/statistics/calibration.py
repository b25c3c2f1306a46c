"""Calibration of P(usable), and the risk-coverage curve of a judge that may abstain."""

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata

from medjudge.statistics.estimates import wilson

FEWEST_ANSWERS = 20
"""The fewest answers to fit a temperature on: five correct ones would make a judge certain of everything."""


class CalibrationBin(NamedTuple):
    """Answers with similar predicted probability.

    The bin ranges from `lowest` to `highest`. `predicted` is the mean of its probabilities, `observed` its share of
    usable answers, `low` and `high` the 95 % interval of that share (Wilson, 1927), which assumes independent answers.
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

    Equal probabilities share a bin, so there can be fewer than `bins` bins, and none is empty.

    Args:
        probability: The judge's P(usable), 0..1, shape (n,).
        usable: The physicians' labels of the same answers, bool, shape (n,).
        bins: The most bins.

    Returns:
        From the lowest probabilities to the highest; empty if there is no answer.

    Raises:
        ValueError: The shapes differ, or a probability lies outside 0..1.
    """
    probability, usable = _checked(probability, usable)
    if len(probability) == 0:
        return []
    # By mid-ranks: with quantiles as edges, a value that most answers share would absorb the bins beside it.
    edges = np.arange(1, bins) * (len(probability) - 1) / bins
    bin_of = np.searchsorted(edges, rankdata(probability) - 1)
    return [_bin(probability[bin_of == index], usable[bin_of == index]) for index in np.unique(bin_of)]


def _bin(probability: np.ndarray, usable: np.ndarray) -> CalibrationBin:
    n, observed = len(usable), float(usable.mean())
    lowest, highest, predicted = map(float, (probability.min(), probability.max(), probability.mean()))
    low, high = wilson(observed, n)
    return CalibrationBin(n, lowest, highest, predicted, observed, low, high)


def expected_calibration_error(probability: np.ndarray, usable: np.ndarray, bins: int = 10) -> float:
    """The mean distance of predicted from observed shares, bins weighted by answers (Guo et al., 2017, section 2).

    Uses the equal-mass bins of `calibration_curve`, and P(usable) instead of Guo et al.'s confidence of the top label.
    Noise alone makes it larger than 0, and more so the fewer answers a bin has.

    Args:
        probability: The judge's P(usable), 0..1, shape (n,).
        usable: The physicians' labels, bool, shape (n,).
        bins: The most bins.

    Returns:
        0 (calibrated) to 1; NaN if there is no answer.
    """
    curve = calibration_curve(probability, usable, bins)
    if not curve:
        return float("nan")
    distances = sum(entry.n * abs(entry.predicted - entry.observed) for entry in curve)
    return distances / sum(entry.n for entry in curve)


def risk_coverage(confidence: np.ndarray, correct: np.ndarray) -> RiskCoverage:
    """The risk-coverage curve of selective classification (Geifman and El-Yaniv, 2017).

    Answers of equal confidence enter together, so the curve does not depend on the order of rows.

    Args:
        confidence: Higher is more certain, shape (n,); for usable / not usable max(P(usable), 1 - P(usable)).
        correct: Whether the judge's label equals the physicians', bool, shape (n,).

    Raises:
        ValueError: The shapes differ, or a confidence is not finite.
    """
    confidence, correct = np.asarray(confidence, float), np.asarray(correct, bool)
    _same_length(confidence, correct, "confidence", "correct")
    if not np.isfinite(confidence).all():
        raise ValueError("confidence: not all values are finite")
    _, rank = np.unique(-confidence, return_inverse=True)
    accepted, errors = np.cumsum(np.bincount(rank)), np.cumsum(np.bincount(rank, weights=~correct))
    return RiskCoverage(accepted / max(len(correct), 1), errors / accepted)


def area_under_risk_coverage(confidence: np.ndarray, correct: np.ndarray) -> float:
    """The mean risk over all coverages, lower is better (Geifman, Uziel and El-Yaniv, 2019, arXiv 1805.08206).

    Each answer counts with the risk at which it enters `risk_coverage`. An uninformative confidence gives the plain
    error rate.

    Args:
        confidence: Higher is more certain, shape (n,).
        correct: Whether the judge's label equals the physicians', bool, shape (n,).

    Returns:
        0 to 1; NaN if there is no answer.
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


def _same_length(array: np.ndarray, other: np.ndarray, name: str, other_name: str) -> None:
    if array.shape != other.shape or array.ndim != 1:
        raise ValueError(f"{name} {array.shape} and {other_name} {other.shape} must be of one length")
