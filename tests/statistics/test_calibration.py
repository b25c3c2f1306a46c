import numpy as np
import pytest
from sklearn.calibration import calibration_curve as sklearn_curve
from statsmodels.stats.proportion import proportion_confint

from medjudge.statistics.calibration import calibration_curve, expected_calibration_error


def predictions(n: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    probability = generator.random(n)
    return probability, generator.random(n) < probability


@pytest.mark.parametrize(("n", "bins"), [(137, 10), (1000, 7), (12, 10), (5, 1)])
def test_curve_equals_sklearn_and_statsmodels(n: int, bins: int) -> None:
    probability, usable = predictions(n)
    curve = calibration_curve(probability, usable, bins)
    observed, predicted = sklearn_curve(usable, probability, n_bins=bins, strategy="quantile")
    assert [part["observed"] for part in curve] == pytest.approx(observed)
    assert [part["predicted"] for part in curve] == pytest.approx(predicted)
    for part in curve:
        expected = proportion_confint(round(part["n"] * part["observed"]), part["n"], method="wilson")
        assert (part["low"], part["high"]) == pytest.approx(expected)
    counts = [part["n"] for part in curve]
    assert (sum(counts), max(counts) - min(counts) <= 1) == (n, True)


def test_equal_probabilities_share_a_bin_and_no_bin_is_empty() -> None:
    probability = np.repeat([0.1, 0.5, 0.9], [2, 5, 93])
    curve = calibration_curve(probability, np.ones(100, bool))
    assert [(part["n"], part["from"], part["to"]) for part in curve] == [(7, 0.1, 0.5), (93, 0.9, 0.9)]
    (whole,) = calibration_curve(np.full(30, 0.7), np.arange(30) < 12)
    assert (whole["n"], whole["predicted"], whole["observed"]) == pytest.approx((30, 0.7, 0.4))


def test_expected_calibration_error_by_hand() -> None:
    # Two bins of four: predicted 0.2, observed 0.25; predicted 0.8, observed 0.5. (4 * 0.05 + 4 * 0.3) / 8 = 0.175
    probability = np.array([0.1, 0.15, 0.25, 0.3, 0.7, 0.75, 0.85, 0.9])
    usable = np.array([0, 0, 0, 1, 1, 0, 1, 0], dtype=bool)
    assert expected_calibration_error(probability, usable, bins=2) == pytest.approx(0.175)
    # Bins weigh by their answers: (1 * 0.1 + 3 * 0.2) / 4.
    assert expected_calibration_error(np.array([0.1, 0.8, 0.8, 0.8]), np.array([0, 1, 1, 1]), 4) == pytest.approx(0.175)
    honest, drawn = predictions(20_000)
    assert expected_calibration_error(honest, drawn) < 0.015
    # Twice as sure in log-odds: for uniform p the mean of |p^2 / (p^2 + (1 - p)^2) - p| is ln(2)/2 - 1/4 = 0.0966.
    sure = honest**2 / (honest**2 + (1 - honest) ** 2)
    assert expected_calibration_error(sure, drawn) == pytest.approx(np.log(2) / 2 - 0.25, abs=0.01)
