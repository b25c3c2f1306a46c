import krippendorff
import numpy as np
import pytest

from medjudge.statistics.measures import coincidences, krippendorff_alpha

GENERATOR = np.random.default_rng(4)
_ = np.nan


def alpha(scores: np.ndarray) -> float:
    return float(krippendorff_alpha(coincidences(scores).sum(axis=0)))


def test_equals_the_krippendorff_package_with_missing_scores() -> None:
    for raters in (2, 3, 5):
        truth = GENERATOR.integers(1, 6, 60)
        scores = np.clip(truth[:, None] + GENERATOR.integers(-1, 2, (60, raters)), 1, 5).astype(float)
        scores[GENERATOR.random(scores.shape) < 0.3] = np.nan
        expected = krippendorff.alpha(scores.T, level_of_measurement="ordinal")
        assert alpha(scores) == pytest.approx(expected)


def test_edge_cases() -> None:
    assert np.isnan(alpha(np.full((3, 2), 4.0)))  # one level only
    assert np.isnan(alpha(np.array([[4.0], [5.0]])))  # one rater
    assert alpha(np.array([[1.0, 1.0], [5.0, 5.0]])) == 1
    assert coincidences(np.array([[np.nan, 3.0]])).sum() == 0
    assert coincidences(np.array([[2.0, 3.0, 3.0]])).sum() == 3  # as many as the answer has scores
