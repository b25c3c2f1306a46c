import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score

from medjudge.statistics.two_judges import compare


def three_raters(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """A judge that is off more often, one that is off less often, and the physicians."""
    generator = np.random.default_rng(seed)
    physician = generator.integers(1, 6, n)
    unseen = np.clip(physician + generator.integers(-2, 3, n), 1, 5)
    seen = np.clip(physician + generator.integers(-1, 2, n), 1, 5)
    return unseen, seen, physician


def test_values_equal_those_of_scikit_learn_and_the_difference_is_first_minus_second() -> None:
    first, second, physician = three_raters(200)
    compared = compare(first, second, physician, np.arange(200), resamples=50)
    for judge, part in ((first, compared.first), (second, compared.second)):
        expected = {
            "usable_agreement": np.mean((judge >= 4) == (physician >= 4)),
            "cohen_kappa": cohen_kappa_score(judge >= 4, physician >= 4),
            "quadratic_kappa": cohen_kappa_score(judge, physician, weights="quadratic"),
            "bias": np.mean(judge - physician),
        }
        assert {name: each["value"] for name, each in part.items()} == pytest.approx(expected, abs=1e-6)
    for name in expected:
        apart = compared.first[name]["value"] - compared.second[name]["value"]
        assert compared.difference[name]["value"] == pytest.approx(apart, abs=2e-6)


def test_the_interval_of_the_difference_is_that_of_paired_shares() -> None:
    # With one answer a conversation, the Wald interval of a paired difference: mean +- 1.96 sd / sqrt(n).
    first, second, physician = three_raters(600)
    agree = [(judge >= 4) == (physician >= 4) for judge in (first, second)]
    apart = agree[0].astype(float) - agree[1]
    half = 1.96 * apart.std() / np.sqrt(600)
    difference = compare(first, second, physician, np.arange(600)).difference["usable_agreement"]
    assert difference["low"] == pytest.approx(apart.mean() - half, abs=0.005)
    assert difference["high"] == pytest.approx(apart.mean() + half, abs=0.005)


def test_the_same_judge_twice_differs_in_nothing_but_what_few_answers_cannot_show() -> None:
    first, _, physician = three_raters(40)
    compared = compare(first, first, physician, np.arange(40), resamples=300)
    assert compared.first == compared.second
    assert compared.difference["bias"] == {"value": 0.0, "low": None, "high": None}
    usable = compared.difference["usable_agreement"]
    assert usable["low"] == -usable["high"] == pytest.approx(-0.0876, abs=1e-4)  # Wilson, 0 of 40
