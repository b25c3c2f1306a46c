import numpy as np
import pytest
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats.inter_rater import cohens_kappa

from medjudge.agreement.measures import (
    bias,
    cohen_kappa,
    confusion,
    mae,
    quadratic_kappa,
    spearman,
    usable_agreement,
)

GENERATOR = np.random.default_rng(5)


def two_raters(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    physician = GENERATOR.integers(1, 6, n)
    return np.clip(physician + GENERATOR.integers(-1, 3, n), 1, 5), physician


def test_cohen_kappa_on_a_published_example() -> None:
    # Two readers, 50 proposals: 20 both yes, 15 both no, 5 and 10 apart; kappa 0.40.
    counts = np.zeros((5, 5))
    counts[4, 4], counts[0, 0], counts[4, 0], counts[0, 4] = 20, 15, 5, 10
    assert usable_agreement(counts) == pytest.approx(0.70)
    assert cohen_kappa(counts) == pytest.approx(0.40)


def test_all_measures_equal_those_of_other_libraries() -> None:
    for _ in range(20):
        judge, physician = two_raters()
        counts = confusion(judge, physician)
        assert usable_agreement(counts) == pytest.approx(np.mean((judge >= 4) == (physician >= 4)))
        assert cohen_kappa(counts) == pytest.approx(cohen_kappa_score(judge >= 4, physician >= 4))
        assert quadratic_kappa(counts) == pytest.approx(cohen_kappa_score(judge, physician, weights="quadratic"))
        assert quadratic_kappa(counts) == pytest.approx(cohens_kappa(counts, wt="fc").kappa)
        assert mae(counts) == pytest.approx(np.abs(judge - physician).mean())
        assert bias(counts) == pytest.approx((judge - physician).mean())
        assert spearman(judge, physician, np.ones(len(judge))) == pytest.approx(spearmanr(judge, physician)[0])


def test_weighted_spearman_equals_spearman_on_repeated_rows() -> None:
    judge, physician = two_raters(60)
    scores = judge + GENERATOR.normal(0, 0.3, 60)
    weights = GENERATOR.integers(0, 4, 60)
    expected = spearmanr(np.repeat(scores, weights), np.repeat(physician, weights))[0]
    assert spearman(scores, physician, weights.astype(float)) == pytest.approx(expected)


def test_many_matrices_at_once_equal_one_by_one() -> None:
    stack = np.stack([confusion(*two_raters(30)) for _ in range(7)])
    for measure in (usable_agreement, cohen_kappa, quadratic_kappa, mae, bias):
        assert measure(stack) == pytest.approx([float(measure(one)) for one in stack])


def test_edge_cases() -> None:
    same = confusion(np.array([4, 4, 4]), np.array([4, 4, 4]))
    assert usable_agreement(same) == 1
    assert np.isnan(cohen_kappa(same))
    assert np.isnan(quadratic_kappa(same))
    one = confusion(np.array([2]), np.array([5]))
    assert usable_agreement(one) == 0
    assert mae(one) == 3
    assert bias(one) == -3
    assert np.isnan(usable_agreement(np.zeros((5, 5))))
    assert np.isnan(spearman(np.array([1, 1]), np.array([1, 2]), np.ones(2)))
    opposite = confusion(np.array([1, 5]), np.array([5, 1]))
    assert quadratic_kappa(opposite) == -1


def test_wrong_input_is_refused() -> None:
    with pytest.raises(ValueError, match="one length"):
        confusion(np.array([1, 2]), np.array([1]))
    with pytest.raises(ValueError, match="physician: levels from 0"):
        confusion(np.array([1, 2]), np.array([0, 1]))
