import numpy as np
import pytest
from scipy.stats import permutation_test

from medjudge.statistics.drift import Scored, change


def scored(value, conversation, stratum="MK") -> Scored:
    value = np.asarray(value, float)
    return Scored(value, np.full(len(value), stratum), np.asarray(conversation))


def test_unpaired_studies_have_the_p_value_of_scipy() -> None:
    generator = np.random.default_rng(0)
    old, new = generator.normal(0, 1, 9), generator.normal(-0.8, 1, 7)
    exact = permutation_test((new, old), lambda x, y: x.mean() - y.mean(), alternative="less", n_resamples=100_000)
    found = change(scored(old, np.arange(9)), scored(new, np.arange(9, 16)), 20_000)
    assert found.difference == pytest.approx(new.mean() - old.mean())
    assert found.lower == pytest.approx(exact.pvalue, abs=0.01)
    assert found.paired == 0


def test_paired_conversations_swap_their_sides_as_in_scipy() -> None:
    generator = np.random.default_rng(1)
    hard = generator.normal(0, 5, 8)
    old, new = hard + generator.normal(0, 0.3, 8), hard - 0.4 + generator.normal(0, 0.3, 8)
    exact = permutation_test(
        (new, old), lambda x, y: x.mean() - y.mean(), permutation_type="samples", alternative="less"
    )
    found = change(scored(old, np.arange(8)), scored(new, np.arange(8)), 20_000)
    assert found.paired == 8
    assert found.lower == pytest.approx(exact.pvalue, abs=0.01)
    apart = change(scored(old, np.arange(8)), scored(new, np.arange(8, 16)), 2_000)
    assert apart.lower > 0.3  # without the pairs the difficulty of the questions hides it


def test_another_mix_of_categories_is_no_change() -> None:
    def study(easy: int, hard: int, first: int) -> Scored:
        value = np.r_[np.ones(easy), np.zeros(hard)]
        return Scored(value, np.r_[["MK"] * easy, ["MTG"] * hard], np.arange(first, first + easy + hard))

    found = change(study(40, 10, 0), study(10, 40, 100), 200)
    assert found.difference == 0
    assert found.either == 1
    assert found.strata == ("MK", "MTG")


def test_without_a_common_stratum_nothing_is_said() -> None:
    found = change(scored([1, 0], [0, 1], "MK"), scored([1, 0], [2, 3], "MR"), 50)
    assert np.isnan(found.lower)
