import numpy as np
import pytest
from scipy.stats import bootstrap as scipys_bootstrap

from medjudge.statistics.bootstrap import bca, bootstrap, percentile, tally
from medjudge.statistics.measures import divided

VALUES = np.random.default_rng(0).exponential(2, 60)


def mean(sums):
    return {"mean": divided(sums["total"], sums["n"])}


def tallies(values: np.ndarray):
    cell = np.zeros(len(values), dtype=int)
    return {"total": tally(cell, (), values), "n": tally(cell, ())}


@pytest.mark.parametrize("method", ["percentile", "bca"])
def test_the_interval_of_a_skewed_mean_is_scipys(method) -> None:
    alone = np.arange(len(VALUES))
    ours = bootstrap(tallies(VALUES), alone, mean, 20_000, seed=1, method=method)["mean"]
    name = {"percentile": "percentile", "bca": "BCa"}[method]
    other = scipys_bootstrap((VALUES,), np.mean, method=name, n_resamples=20_000, rng=2).confidence_interval
    assert ours.value == pytest.approx(VALUES.mean())
    assert ours.low == pytest.approx(other.low, abs=0.02)
    assert ours.high == pytest.approx(other.high, abs=0.02)


def test_whole_conversations_are_drawn() -> None:
    alone = bootstrap(tallies(np.repeat(VALUES, 4)), np.arange(240), mean, 4000)["mean"]
    together = bootstrap(tallies(np.repeat(VALUES, 4)), np.repeat(np.arange(60), 4), mean, 4000)["mean"]
    single = bootstrap(tallies(VALUES), np.arange(60), mean, 4000)["mean"]
    assert together.high - together.low == pytest.approx(single.high - single.low)
    assert together.high - together.low > 1.8 * (alone.high - alone.low)


def test_the_seed_fixes_the_draws_and_chunks_do_not_show(monkeypatch) -> None:
    alone = np.arange(60)
    first = bootstrap(tallies(VALUES), alone, mean, 300, seed=5)
    assert first == bootstrap(tallies(VALUES), alone, mean, 300, seed=5)
    assert first != bootstrap(tallies(VALUES), alone, mean, 300, seed=6)
    monkeypatch.setattr("medjudge.statistics.bootstrap._MAX_NUMBERS", 60 * 7)
    assert first["mean"] == pytest.approx(bootstrap(tallies(VALUES), alone, mean, 300, seed=5)["mean"])


def test_undefined_resamples_are_left_out_unless_they_are_most() -> None:
    assert percentile(np.array([np.nan, 1.0, 1.0, 1.0])) == (1.0, 1.0)
    assert np.isnan(percentile(np.array([np.nan, np.nan, np.nan, 1.0]))).all()
    assert np.isnan(bca(np.full(4, np.nan), 1.0, np.array([1.0, 2.0]))).all()


def test_without_spread_bca_falls_back_to_the_percentiles() -> None:
    drawn = np.linspace(0, 1, 101)
    assert bca(drawn, 0.5, np.full(9, 0.5)) == percentile(drawn)
    assert bca(drawn, -1.0, np.array([0.1, 0.2])) == percentile(drawn)
    one_conversation = bootstrap(tallies(VALUES), np.zeros(60), mean, 100)["mean"]
    assert one_conversation == pytest.approx((VALUES.mean(),) * 3)
