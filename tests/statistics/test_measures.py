import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score
from statsmodels.stats.inter_rater import cohens_kappa

from medjudge.statistics.measures import (
    bias,
    cohen_kappa,
    confusion,
    f1_unusable,
    f1_usable,
    gwet_ac1,
    mae,
    quadratic_kappa,
    usable_agreement,
)

GENERATOR = np.random.default_rng(5)
MEASURES = (usable_agreement, cohen_kappa, quadratic_kappa, gwet_ac1, f1_usable, f1_unusable, mae, bias)


def two_raters(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    physician = GENERATOR.integers(1, 6, n)
    return np.clip(physician + GENERATOR.integers(-1, 3, n), 1, 5), physician


def usable_table(both: int, judge_only: int, physician_only: int, neither: int) -> np.ndarray:
    counts = np.zeros((5, 5))
    counts[4, 4], counts[3, 1], counts[0, 3], counts[1, 1] = both, judge_only, physician_only, neither
    return counts


def test_ac1_where_nearly_all_is_usable() -> None:
    # The example of Gwet (2002), 125 subjects: 94 % agreement, kappa below zero, AC1 0.9408.
    counts = usable_table(118, 5, 2, 0)
    assert cohen_kappa(counts) == pytest.approx(-0.0234, abs=5e-5)
    assert gwet_ac1(counts) == pytest.approx(0.9408, abs=5e-5)


def test_ac1_equals_irrcac() -> None:
    judge, physician = np.array([1, 2, 3, 4, 5, 5, 3, 2, 4, 4]), np.array([2, 2, 3, 5, 5, 4, 1, 2, 3, 5])
    assert gwet_ac1(confusion(judge, physician)) == pytest.approx(0.80198, abs=5e-6)  # irrCAC 0.4.4, CAC.gwet()


def test_all_measures_equal_those_of_other_libraries() -> None:
    for _ in range(20):
        judge, physician = two_raters()
        counts = confusion(judge, physician)
        assert usable_agreement(counts) == pytest.approx(np.mean((judge >= 4) == (physician >= 4)))
        assert cohen_kappa(counts) == pytest.approx(cohen_kappa_score(judge >= 4, physician >= 4))
        assert quadratic_kappa(counts) == pytest.approx(cohen_kappa_score(judge, physician, weights="quadratic"))
        assert quadratic_kappa(counts) == pytest.approx(cohens_kappa(counts, wt="fc").kappa)
        assert f1_usable(counts) == pytest.approx(f1_score(physician >= 4, judge >= 4))
        assert f1_unusable(counts) == pytest.approx(f1_score(physician < 4, judge < 4))
        assert mae(counts) == pytest.approx(np.abs(judge - physician).mean())
        assert bias(counts) == pytest.approx((judge - physician).mean())


def test_many_matrices_at_once_equal_one_by_one() -> None:
    stack = np.stack([confusion(*two_raters(30)) for _ in range(7)], axis=-1)
    for measure in MEASURES:
        assert measure(stack) == pytest.approx([float(measure(stack[..., k])) for k in range(7)])


def test_edge_cases() -> None:
    same = confusion(np.array([4, 4, 4]), np.array([4, 4, 4]))
    assert usable_agreement(same) == 1
    assert np.isnan(cohen_kappa(same))
    assert np.isnan(quadratic_kappa(same))
    assert gwet_ac1(same) == 1
    assert f1_usable(same) == 1
    assert np.isnan(f1_unusable(same))
    single_pair = confusion(np.array([2]), np.array([5]))
    assert usable_agreement(single_pair) == 0
    assert mae(single_pair) == 3
    assert bias(single_pair) == -3
    for measure in MEASURES:
        assert np.isnan(measure(np.zeros((5, 5))))
    opposite = confusion(np.array([1, 5]), np.array([5, 1]))
    assert quadratic_kappa(opposite) == -1
