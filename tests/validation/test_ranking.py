import numpy as np
import pytest
from scipy.stats import spearmanr

from medjudge.report.words import Words
from medjudge.validation.ranking import first_of_two, pairwise_accuracy, ranking, system_spearman

GENERATOR = np.random.default_rng(8)


def test_the_correlation_of_rates_equals_scipys_with_ties() -> None:
    rates = GENERATOR.integers(0, 5, (30, 2, 6)) / 4
    for judge, physician in rates:
        assert system_spearman(judge, physician) == pytest.approx(spearmanr(judge, physician)[0], nan_ok=True)
    together = system_spearman(rates[:, 0].T, rates[:, 1].T)
    assert together == pytest.approx([float(system_spearman(*pair)) for pair in rates], nan_ok=True)


def test_pairwise_accuracy_counts_ties_of_the_judge_half_and_leaves_out_those_of_physicians() -> None:
    physician = np.array([0.2, 0.4, 0.6, 0.6])  # five pairs apart
    judge = np.array([0.1, 0.5, 0.5, 0.3])  # right: 1-2, 1-3, 1-4, 2-3 tied (half), 2-4 wrong
    assert pairwise_accuracy(judge, physician) == pytest.approx(3.5 / 5)
    assert np.isnan(pairwise_accuracy(judge, np.ones(4)))


def test_rates_by_model_and_their_order(pairs) -> None:
    judge = [5] * 30 + [5] * 20 + [1] * 10 + [1] * 25 + [5] * 5
    physician = [5] * 28 + [2] * 2 + [5] * 15 + [1] * 15 + [1] * 30
    model = ["a"] * 30 + ["b"] * 30 + ["c"] * 30
    conversation = [f"g{k}" for k in range(30)] * 3
    result = ranking(pairs(judge, physician, model=model, conversation=conversation), resamples=1000)
    assert result.models["b"].model_dump() == {
        "n": 30,
        "physicians": 0.5,
        "judge": pytest.approx(2 / 3, abs=1e-6),
        "teacher": None,
    }
    assert result.spearman["value"] == 1
    assert result.pairwise_accuracy["value"] == 1
    assert ranking(pairs([4, 5], [4, 4])) is None  # one model


@pytest.mark.parametrize(
    ("judge", "said"),
    [
        ([5, 1, 1, 1], "Of two models, a is first by the judge and by physicians"),
        ([1, 1, 5, 1], "Of two models, b is first by the judge, a by physicians"),
        ([5, 1, 1, 5], "Of two models, neither (equal rates) is first by the judge, a by physicians"),
    ],
)
def test_two_models_are_compared_in_words(pairs, judge, said) -> None:
    result = ranking(pairs(judge, [4, 4, 4, 2], model=["a", "a", "b", "b"]), resamples=10)
    assert first_of_two(result, "physicians") == said
    chinese = Words("zh").known(said)
    assert "两个模型中的首位" in chinese
    assert chinese.count("医生") == 1
    assert ("并列" in chinese) == ("neither" in said)
    three = ranking(pairs(judge, [4, 4, 4, 2], model=["a", "a", "b", "c"]), resamples=10)
    assert first_of_two(three, "physicians") is None
