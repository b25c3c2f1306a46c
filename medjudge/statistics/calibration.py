"""Calibration of P(usable), and the risk of a judge that may abstain."""

from typing import NamedTuple

import numpy as np
from scipy.stats import rankdata
from typing_extensions import TypedDict

from medjudge.statistics.estimates import Rounded, wilson

FEWEST_ANSWERS = 20
"""The fewest answers to fit a temperature on: five correct ones would make a judge certain of everything."""

CalibrationBin = TypedDict(
    "CalibrationBin",
    {
        "from": Rounded,
        "to": Rounded,
        "predicted": Rounded,
        "observed": Rounded,
        "low": Rounded,
        "high": Rounded,
        "n": int,
    },
)
"""Answers with similar probabilities, from lowest to highest: `predicted` is their mean, `observed` the share of usable
answers, with the ends of its 95 % interval (Wilson, 1927), which assumes independent answers."""


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
        probability: The judge's P(usable), 0..1, shape (n,). Five rounded probabilities may add up to a little over 1.
        usable: The physicians' labels of the same answers, bool, shape (n,).
        bins: The most bins.

    Returns:
        From the lowest probabilities to the highest; empty if there is no answer.
    """
    probability = np.minimum(probability, 1)
    # By mid-ranks: with quantiles as edges, a value that most answers share would absorb the bins beside it.
    edges = np.arange(1, bins) * (len(probability) - 1) / bins
    bin_of = np.searchsorted(edges, rankdata(probability) - 1)
    return [_bin(probability[bin_of == index], usable[bin_of == index]) for index in np.unique(bin_of)]


def _bin(probability: np.ndarray, usable: np.ndarray) -> CalibrationBin:
    observed = float(usable.mean())
    low, high = wilson(observed, len(usable))
    lowest, highest, predicted = map(float, (probability.min(), probability.max(), probability.mean()))
    shares = {"predicted": predicted, "observed": observed, "low": low, "high": high}
    return {"from": lowest, "to": highest, **shares, "n": len(usable)}  # type: ignore[typeddict-item]


def expected_calibration_error(probability: np.ndarray, usable: np.ndarray, bins: int = 10) -> float:
    """The mean distance of predicted from observed shares, bins weighted by answers (Guo et al., 2017, section 2).

    Uses the equal-mass bins of `calibration_curve`, and P(usable) instead of Guo et al.'s confidence of the top label.
    Noise alone makes it larger than 0, and more so the fewer answers a bin has.

    Args:
        probability: As for `calibration_curve`, at least one.
        usable: The physicians' labels, bool, shape (n,).
        bins: The most bins.

    Returns:
        0 (calibrated) to 1.
    """
    curve = calibration_curve(probability, usable, bins)
    return sum(part["n"] * abs(part["predicted"] - part["observed"]) for part in curve) / len(usable)


def risk_coverage(confidence: np.ndarray, correct: np.ndarray) -> RiskCoverage:
    """The risk-coverage curve of selective classification (Geifman and El-Yaniv, 2017).

    Answers of equal confidence enter together, so the curve does not depend on the order of rows.

    Args:
        confidence: Higher is more certain, shape (n,); for usable / not usable max(P(usable), 1 - P(usable)).
        correct: Whether the judge's label equals the physicians', bool, shape (n,).
    """
    _, rank = np.unique(-confidence, return_inverse=True)
    accepted, errors = np.cumsum(np.bincount(rank)), np.cumsum(np.bincount(rank, weights=~correct))
    return RiskCoverage(accepted / len(correct), errors / accepted)


def area_under(curve: RiskCoverage) -> float:
    """The mean risk over all coverages, 0 to 1, lower is better (Geifman, Uziel and El-Yaniv, 2019, arXiv 1805.08206).

    Each answer counts with the risk at which it enters the curve. An uninformative confidence gives the error rate.
    """
    return float(np.sum(np.diff(curve.coverage, prepend=0) * curve.risk))
