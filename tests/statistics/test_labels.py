import numpy as np
import pytest
from scipy.stats import mannwhitneyu
from sklearn.metrics import cohen_kappa_score, f1_score
from statsmodels.stats.proportion import proportion_confint

from medjudge.statistics.labels import (
    both_orders,
    likeliest,
    met_agreement,
    pair_probabilities,
    swaps,
    verdict_agreement,
)


def test_a_judge_that_always_takes_the_first_shows_it() -> None:
    # In both orders the answer shown first wins: the model named first forward, the other backward.
    forward, backward = np.ones(20, dtype=int), -np.ones(20, dtype=int)
    assert both_orders(forward, backward).tolist() == [0] * 20  # a tie where the orders disagree
    measured = swaps(forward, backward, np.arange(20), resamples=200)
    assert measured["consistency"]["value"] == 0
    assert measured["shown_first"]["value"] == 1
    # All resamples repeat the value: the interval is Wilson's, for 20 questions.
    assert measured["shown_first"]["low"] == pytest.approx(proportion_confint(20, 20, method="wilson")[0], abs=1e-4)


def test_agreement_and_kappa_equal_those_of_scikit_learn() -> None:
    generator = np.random.default_rng(1)
    physician = generator.choice([-1, 0, 1], 200)
    judge = np.where(generator.random(200) < 0.6, physician, generator.choice([-1, 0, 1], 200))
    measured = verdict_agreement(judge, physician, np.arange(200) // 2, resamples=300)
    assert measured["agreement"]["value"] == pytest.approx(np.mean(judge == physician))
    assert measured["kappa"]["value"] == pytest.approx(cohen_kappa_score(judge, physician), abs=1e-6)
    assert measured["kappa"]["low"] < measured["kappa"]["value"] < measured["kappa"]["high"]
    both = (judge != 0) & (physician != 0)
    assert measured["decided"]["value"] == pytest.approx(np.mean(judge[both] == physician[both]), abs=1e-6)
    met = met_agreement(judge > 0, physician > 0, np.arange(200) // 4, resamples=300)
    assert met["kappa"]["value"] == pytest.approx(cohen_kappa_score(judge > 0, physician > 0), abs=1e-6)
    assert met["macro_f1"]["value"] == pytest.approx(f1_score(physician > 0, judge > 0, average="macro"), abs=1e-6)


def test_pairs_of_distributions_equal_a_simulation() -> None:
    first, second = np.array([0.1, 0.1, 0.2, 0.4, 0.2]), np.array([0.3, 0.2, 0.2, 0.2, 0.1])
    generator = np.random.default_rng(0)
    levels = [generator.choice(5, 200_000, p=shares) for shares in (first, second)]
    drawn = [np.mean(levels[0] > levels[1]), np.mean(levels[0] == levels[1]), np.mean(levels[0] < levels[1])]
    assert pair_probabilities(first, second) == pytest.approx(drawn, abs=0.005)
    assert pair_probabilities(np.stack([first, second]), second).shape == (2, 3)
    # P(first > second) + P(tie) / 2 is Mann and Whitney's U over the number of pairs.
    tens = [np.repeat(np.arange(5), (10 * shares).round().astype(int)) for shares in (first, second)]
    better, tie, _ = pair_probabilities(first, second)
    assert better + tie / 2 == pytest.approx(mannwhitneyu(*tens).statistic / 100)


def test_the_likeliest_verdict_is_a_tie_where_neither_stands_out() -> None:
    shares = np.array([[0.6, 0.2, 0.2], [0.2, 0.2, 0.6], [0.2, 0.6, 0.2], [0.45, 0.1, 0.45], [0.4, 0.4, 0.2]])
    assert likeliest(shares).tolist() == [1, -1, 0, 0, 0]


def test_where_one_verdict_is_given_throughout_there_is_no_kappa() -> None:
    same = np.ones(5, dtype=bool)
    measured = met_agreement(same, same, np.arange(5), resamples=50)
    assert (measured["kappa"]["value"], measured["macro_f1"]["value"]) == (None, 1)
    one = met_agreement(same, np.array([True, True, True, True, False]), np.arange(5), resamples=50)
    assert one["macro_f1"]["value"] == pytest.approx(f1_score([1, 1, 1, 1, 0], [1] * 5, average="macro"), abs=1e-6)
