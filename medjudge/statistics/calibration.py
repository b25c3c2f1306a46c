"""Calibration of P(usable)."""

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
    _, low, high = wilson(observed, len(usable))
    lowest, highest, predicted = map(float, (probability.min(), probability.max(), probability.mean()))
    shares = {"predicted": predicted, "observed": observed, "low": low, "high": high}
    return {"from": lowest, "to": highest, **shares, "n": len(usable)}  # type: ignore[typeddict-item]


def expected_calibration_error(probability: np.ndarray, usable: np.ndarray, bins: int = 10) -> float:
    """The mean distance of predicted from observed shares, bins weighted by answers (Guo et al., 2017, section 2).

    Uses P(usable) instead of Guo et al.'s confidence of the top label. Noise alone makes it larger than 0, and more so
    the fewer answers a bin has. The arguments are those of `calibration_curve`, with at least one answer.

    Returns:
        0 (calibrated) to 1.
    """
    curve = calibration_curve(probability, usable, bins)
    return sum(part["n"] * abs(part["predicted"] - part["observed"]) for part in curve) / len(usable)
