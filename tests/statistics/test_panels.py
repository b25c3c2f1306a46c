from itertools import product
from typing import get_args

import numpy as np
import pytest
from statsmodels.stats.meta_analysis import combine_effects

from medjudge.scale import median_level
from medjudge.statistics.panels import Rule, combined, dependence, effective_votes, log_odds_weights, shrunk


def test_the_mean_weighs_probabilities_and_leaves_out_who_did_not_score() -> None:
    a, b = np.array([0.1, 0.2, 0.3, 0.4, 0.0]), np.array([0.0, 0.0, 0.0, 0.5, 0.5])
    missing = np.full(5, np.nan)
    rows = np.array([[a, b], [a, missing], [missing, missing]])
    pooled = combined(rows, np.array([3.0, 1.0]))
    assert pooled[0] == pytest.approx(0.75 * a + 0.25 * b)
    assert pooled[1] == pytest.approx(a)
    assert np.isnan(pooled[2]).all()


@pytest.mark.parametrize("rule", get_args(Rule))
def test_every_rule_returns_a_distribution_between_its_members(rule: str) -> None:
    generator = np.random.default_rng(0)
    rows = generator.dirichlet(np.full(5, 0.5), size=(200, 4))
    rows[generator.random((200, 4)) < 0.2] = np.nan
    rows = rows[np.isfinite(rows).all(axis=2).any(axis=1)]
    pooled = combined(rows, np.array([0.4, 0.3, 0.2, 0.1]), rule)
    assert pooled.min() >= -1e-12
    assert pooled.sum(axis=1) == pytest.approx(1)
    if rule != "vote":
        above = 1 - np.cumsum(rows, axis=2)
        of_panel = 1 - np.cumsum(pooled, axis=1)
        assert (of_panel >= np.nanmin(above, axis=1) - 1e-9).all()
        assert (of_panel <= np.nanmax(above, axis=1) + 1e-9).all()


def test_median_and_vote_of_three_equal_members_are_the_middle_level() -> None:
    generator = np.random.default_rng(1)
    rows = generator.dirichlet(np.full(5, 0.3), size=(300, 3))
    levels = np.array([[median_level(row) for row in member] for member in rows])
    middle = np.sort(levels, axis=1)[:, 1]
    for rule in ("median", "vote"):
        assert [median_level(row) for row in combined(rows, np.ones(3), rule)] == middle.tolist()


def right(competence: np.ndarray, weights: np.ndarray) -> float:
    """The probability that independent votes with these weights find the truth, all outcomes counted."""
    total = 0.0
    for outcome in product((0, 1), repeat=len(competence)):
        votes = np.array(outcome)
        chance = np.prod(np.where(votes == 1, competence, 1 - competence))
        total += chance * ((weights * votes).sum() > (weights * (1 - votes)).sum())
    return total


def test_log_odds_weights_are_right_as_often_as_by_hand_and_no_weights_do_better() -> None:
    competence = np.array([0.9, 0.9, 0.6, 0.6, 0.6])
    weights = log_odds_weights(competence)
    strong, weak = np.log(0.9 / 0.1), np.log(0.6 / 0.4)
    assert weights == pytest.approx(np.array([strong, strong, weak, weak, weak]) / (2 * strong + 3 * weak))
    # By hand: both strong ones are right in 0.81, one in 0.18, none in 0.01 of cases; of the weak ones at least one is
    # right in 1 - 0.4^3, at least two in 0.6^3 + 3 * 0.6^2 * 0.4, all in 0.6^3. A strong one outweighs all weak ones.
    one, two, three = 1 - 0.4**3, 0.6**3 + 3 * 0.6**2 * 0.4, 0.6**3
    assert right(competence, np.ones(5)) == pytest.approx(0.81 * one + 0.18 * two + 0.01 * three)
    assert right(competence, weights) == pytest.approx(0.81 + 0.18 * two)
    # Nitzan and Paroush (1982): log odds are the best weights of all.
    generator = np.random.default_rng(0)
    assert max(right(competence, other) for other in generator.dirichlet(np.ones(5), 200)) <= right(competence, weights)


def test_a_member_no_better_than_a_coin_has_no_weight_unless_all_are() -> None:
    assert log_odds_weights(np.array([0.9, 0.5, 0.3])) == pytest.approx([1, 0, 0])
    assert log_odds_weights(np.array([0.4, 0.5])) == pytest.approx([0.5, 0.5])


def test_shrinkage_has_the_variance_between_members_of_statsmodels() -> None:
    agreement = np.array([0.9, 0.82, 0.7, 0.64])
    variance = np.array([0.001, 0.002, 0.0015, 0.004])
    between = combine_effects(agreement, variance, method_re="chi2").tau2
    weights = 1 / (between + variance)
    middle = (weights * agreement).sum() / weights.sum()
    assert shrunk(agreement, variance) == pytest.approx(middle + between / (between + variance) * (agreement - middle))


def test_differences_that_noise_explains_shrink_to_nothing() -> None:
    assert np.ptp(shrunk(np.array([0.80, 0.82, 0.79]), np.full(3, 0.01))) == pytest.approx(0, abs=1e-12)


def test_effective_votes_are_the_variance_of_one_error_over_that_of_their_mean() -> None:
    # Kish's design effect is that ratio: nine members whose errors correlate by 0.45 are worth less than two votes.
    correlation = np.full((9, 9), 0.45) + 0.55 * np.eye(9)
    assert effective_votes(0.45, 9) == pytest.approx(1 / (correlation.sum() / 81))
    assert effective_votes(0.45, 9) == pytest.approx(1.957, abs=1e-3)
    assert effective_votes(0.0, 9) == 9
    assert effective_votes(1.0, 9) == 1
    assert effective_votes(-0.2, 3) == 3


def test_dependence_is_the_correlation_of_numpy_and_its_interval_covers() -> None:
    generator = np.random.default_rng(0)

    def errors(n: int) -> np.ndarray:
        """Each member copies a common error with probability 0.7, else it errs by itself: correlation 0.49."""
        common = generator.random((n, 1)) < 0.3
        own = generator.random((n, 4)) < 0.3
        return np.where(generator.random((n, 4)) < 0.7, common, own)

    wrong = errors(400)
    found = dependence(wrong, np.arange(400), resamples=200)
    assert found.correlation == pytest.approx(np.corrcoef(wrong.T))
    assert found.votes.value == pytest.approx(effective_votes(found.mean.value, 4))
    covered = 0
    for _ in range(60):
        sample = dependence(errors(150), np.arange(150), resamples=200)
        covered += sample.votes.low <= effective_votes(0.49, 4) <= sample.votes.high
    assert covered >= 50


def test_a_member_without_an_error_leaves_its_pairs_out() -> None:
    generator = np.random.default_rng(0)
    wrong = generator.random((100, 3)) < 0.4
    wrong[:, 2] = False
    found = dependence(wrong, np.arange(100), resamples=200)
    assert np.isnan(found.correlation[2, 0])
    assert found.mean.value == pytest.approx(np.corrcoef(wrong[:, :2].T)[0, 1])
