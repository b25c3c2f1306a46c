import math

import numpy as np
import pytest
from statsmodels.api import OLS

from eval.statistics.interval_coverage import Design, SimulatedStudy, simulated_study
from medjudge.statistics.prediction_powered import physicians_only_rate, prediction_powered_rate

CLUSTERED = Design(100, most_answers=5, correlation=0.3, shared_errors=0.5)
PARTLY_SCORED = CLUSTERED._replace(share_scored=0.5)


def study(design: Design, seed: int = 0) -> SimulatedStudy:
    return simulated_study(design, np.random.default_rng(seed))


@pytest.mark.slow
def test_without_clusters_it_is_ppi_py() -> None:
    from ppi_py import ppi_mean_ci, ppi_mean_pointestimate  # here, since it loads a compiler for a second

    for seed in range(3):
        judge, physicians, conversation = study(Design(20_000, conversations=200_000), seed)
        rate = prediction_powered_rate(judge, physicians, conversation)
        scored = ~np.isnan(physicians)
        y, f, unscored = physicians[scored], judge[scored], judge[~scored]

        same_lambda = ppi_mean_pointestimate(y, f, unscored, lam=rate.power_tuning)
        assert rate.value == pytest.approx(same_lambda.item(), abs=1e-12)
        lam, n = rate.power_tuning, len(y)
        variance = np.var(y - lam * f, ddof=1) / n + np.var(lam * unscored, ddof=1) / len(unscored)
        assert rate.standard_error**2 == pytest.approx(variance + lam**2 / 2 / n**2, rel=1e-9)

        low, high = (limit.item() for limit in ppi_mean_ci(y, f, unscored, alpha=0.05))
        assert rate.low == pytest.approx(low, abs=0.02 * (high - low))
        assert rate.high == pytest.approx(high, abs=0.02 * (high - low))
        assert rate.high - rate.low == pytest.approx(high - low, rel=0.01)


def test_standard_errors_are_statsmodels_clustered_ones() -> None:
    judge, physicians, conversation = study(PARTLY_SCORED)
    scored = ~np.isnan(physicians)
    alone = physicians_only_rate(physicians, conversation)
    ols = OLS(physicians[scored], np.ones(scored.sum()))
    fit = ols.fit(cov_type="cluster", cov_kwds={"groups": conversation[scored]})
    assert alone.value == pytest.approx(fit.params[0])
    assert alone.standard_error == pytest.approx(fit.bse[0])

    # Both means as one regression: a conversation scored in part is a cluster that reaches into both.
    rate = prediction_powered_rate(judge, physicians, conversation)
    response = np.where(scored, physicians - rate.power_tuning * judge, rate.power_tuning * judge)
    both = OLS(response, np.column_stack([scored, ~scored]).astype(float))
    test = both.fit(cov_type="cluster", cov_kwds={"groups": conversation}).t_test([1, 1])
    in_hand = rate.power_tuning / math.sqrt(2) / rate.conversations_scored
    assert rate.value == pytest.approx(test.effect.item())
    assert rate.standard_error == pytest.approx(math.hypot(test.sd.item(), in_hand), rel=0.01)


def test_all_usable_is_never_certain() -> None:
    judge = np.ones(40)
    physicians = np.full(40, np.nan)
    physicians[:12] = 1
    rate = prediction_powered_rate(judge, physicians, np.arange(40))
    t = 2.200985  # 97.5 % quantile with 11 degrees of freedom, from a table
    assert (rate.value, rate.high) == (1, 1)
    assert rate.low == pytest.approx(12 / (12 + t**2), abs=1e-6)
    assert "alike" in str(rate.note)
    assert rate == physicians_only_rate(physicians, np.arange(40))
    # Six conversations of two answers: fewer scores in effect, more doubt.
    assert prediction_powered_rate(judge, physicians, np.arange(40) // 2).low < rate.low - 0.1


def test_a_judge_without_an_error_yet_is_not_taken_as_proven() -> None:
    physicians = np.array([1.0] * 15 + [0.0] * 5 + [np.nan] * 1980)
    judge = np.array([1.0] * 15 + [0.0] * 5 + [1.0] * 1485 + [0.0] * 495)
    rate = prediction_powered_rate(judge, physicians, np.arange(2000))
    taken_as_proven = 2 * 1.96 * math.sqrt(0.75 * 0.25 / 1980)
    alone = physicians_only_rate(physicians, np.arange(2000))
    assert rate.value == 0.75
    assert 3 * taken_as_proven < rate.high - rate.low < 0.5 * (alone.high - alone.low)


def test_a_judge_that_adds_nothing_or_has_nothing_left_changes_nothing() -> None:
    judge, physicians, conversation = study(CLUSTERED)
    alone = physicians_only_rate(physicians, conversation)
    for useless in (np.full(len(judge), 0.7), 1 - judge):
        assert prediction_powered_rate(useless, physicians, conversation)[:4] == pytest.approx(alone[:4])

    scored = ~np.isnan(physicians)
    everything = prediction_powered_rate(judge[scored], physicians[scored], conversation[scored])
    assert everything[:10] == physicians_only_rate(physicians[scored], conversation[scored])[:10]
    assert everything.power_tuning == 0


def test_too_few_conversations_give_no_interval() -> None:
    judge, nothing = np.array([1.0, 0.0, 1.0, 1.0]), np.full(4, np.nan)
    clusters = np.array(["a", "a", "b", "c"])
    unscored = prediction_powered_rate(judge, nothing, clusters)
    assert (unscored.value, unscored.scored, unscored.power_tuning) == (0.75, 0, 1)
    assert math.isnan(physicians_only_rate(nothing, clusters).value)
    corrected = prediction_powered_rate(judge, np.array([1.0, 0.0, np.nan, np.nan]), clusters)
    assert (corrected.value, corrected.scored, corrected.conversations_scored) == (0.5, 2, 1)
    for rate in (unscored, corrected):
        assert math.isnan(rate.low)
        assert math.isnan(rate.high)
        assert rate.note
    two = prediction_powered_rate(judge, np.array([1.0, 0.0, 1.0, np.nan]), clusters)
    assert 0 <= two.low < two.value < two.high <= 1


def test_a_handful_of_unscored_answers_does_not_speak_for_all() -> None:
    generator = np.random.default_rng(0)
    conversation = np.repeat(np.arange(440), 20)
    physicians = (generator.random(len(conversation)) < 0.4).astype(float)
    judge = np.where(generator.random(len(conversation)) < 0.8, physicians, 1 - physicians)
    unscored = np.r_[0:6, 20:25]  # eleven answers of two conversations, all of them unusable to the judge
    physicians[unscored], judge[unscored] = np.nan, 0.0
    rate = prediction_powered_rate(judge, physicians, conversation)
    assert rate.value == pytest.approx(np.nanmean(physicians), abs=0.002)
    assert rate.low < np.nanmean(physicians) < rate.high
