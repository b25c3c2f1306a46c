import numpy as np
from scipy.stats import bootstrap

from medjudge.agreement.bootstrap import percentile_interval, resampled_weights


def test_each_resample_draws_as_many_clusters_as_there_are() -> None:
    weights = resampled_weights(12, 500, seed=3)
    assert weights.shape == (500, 12)
    assert (weights.sum(axis=1) == 12).all()
    assert (weights == resampled_weights(12, 500, seed=3)).all()
    assert abs(weights.mean() - 1) < 1e-9


def test_the_interval_of_a_mean_is_scipys() -> None:
    values = np.random.default_rng(0).normal(2, 1, 80)
    weights = resampled_weights(80, 20_000, seed=1)
    low, high = percentile_interval(weights @ values / 80)
    other = bootstrap((values,), np.mean, method="percentile", n_resamples=20_000, rng=2).confidence_interval
    assert abs(low - other.low) < 0.01
    assert abs(high - other.high) < 0.01


def test_undefined_resamples_are_left_out_unless_they_are_most() -> None:
    low, high = percentile_interval(np.array([np.nan, 1.0, 1.0, 1.0]))
    assert (low, high) == (1.0, 1.0)
    assert np.isnan(percentile_interval(np.array([np.nan, np.nan, np.nan, 1.0]))).all()
