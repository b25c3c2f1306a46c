"""Measures of agreement against those of other libraries, and where they are undefined."""

import krippendorff
import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr
from sklearn.metrics import cohen_kappa_score, f1_score
from statsmodels.stats.inter_rater import cohens_kappa

from medjudge.statistics.measures import (
    bias,
    cohen_kappa,
    coincidences,
    confusion,
    f1,
    gwet_ac1,
    icc,
    kendall_tau_b,
    krippendorff_alpha,
    mae,
    pearson,
    quadratic_kappa,
    spearman,
    two_by_two,
    usable_agreement,
)

GENERATOR = np.random.default_rng(5)
MEASURES = (usable_agreement, cohen_kappa, quadratic_kappa, gwet_ac1, mae, bias)


def two_raters(n: int = 400) -> tuple[np.ndarray, np.ndarray]:
    physician = GENERATOR.integers(1, 6, n)
    return np.clip(physician + GENERATOR.integers(-1, 3, n), 1, 5), physician


def test_ac1_where_nearly_all_is_usable() -> None:
    # The example of Gwet (2002), 125 subjects: 94 % agreement, kappa below zero, AC1 0.9408.
    counts = np.zeros((5, 5))
    counts[4, 4], counts[3, 1], counts[0, 3] = 118, 5, 2
    assert cohen_kappa(counts) == pytest.approx(-0.0234, abs=5e-5)
    assert gwet_ac1(counts) == pytest.approx(0.9408, abs=5e-5)


def test_ac1_and_icc_equal_irrcac_and_pingouin() -> None:
    judge, physician = np.array([1, 2, 3, 4, 5, 5, 3, 2, 4, 4]), np.array([2, 2, 3, 5, 5, 4, 1, 2, 3, 5])
    assert gwet_ac1(confusion(judge, physician)) == pytest.approx(0.80198, abs=5e-6)  # irrCAC 0.4.4, CAC.gwet()
    # pingouin 0.6.1, intraclass_corr, ICC(A,1): two-way, absolute agreement, single rater
    assert icc(confusion(judge, physician)) == pytest.approx(0.767908, abs=5e-7)


def test_all_measures_equal_those_of_other_libraries() -> None:
    for _ in range(20):
        judge, physician = two_raters()
        counts = confusion(judge, physician)
        assert usable_agreement(counts) == pytest.approx(np.mean((judge >= 4) == (physician >= 4)))
        assert cohen_kappa(counts) == pytest.approx(cohen_kappa_score(judge >= 4, physician >= 4))
        assert quadratic_kappa(counts) == pytest.approx(cohen_kappa_score(judge, physician, weights="quadratic"))
        assert quadratic_kappa(counts) == pytest.approx(cohens_kappa(counts, wt="fc").kappa)
        assert f1(two_by_two(counts), 1) == pytest.approx(f1_score(physician >= 4, judge >= 4))
        assert f1(two_by_two(counts), 0) == pytest.approx(f1_score(physician < 4, judge < 4))
        assert mae(counts) == pytest.approx(np.abs(judge - physician).mean())
        assert bias(counts) == pytest.approx((judge - physician).mean())


def test_many_matrices_at_once_equal_one_by_one() -> None:
    stack = np.stack([confusion(*two_raters(30)) for _ in range(7)], axis=-1)
    for measure in MEASURES:
        assert measure(stack) == pytest.approx([float(measure(stack[..., k])) for k in range(7)])


def test_edge_cases() -> None:
    same = confusion(np.array([4, 4, 4]), np.array([4, 4, 4]))
    assert (usable_agreement(same), gwet_ac1(same), f1(two_by_two(same), 1)) == (1, 1, 1)
    assert np.isnan([cohen_kappa(same), quadratic_kappa(same), f1(two_by_two(same), 0)]).all()
    single_pair = confusion(np.array([2]), np.array([5]))
    assert (usable_agreement(single_pair), mae(single_pair), bias(single_pair)) == (0, 3, -3)
    for measure in MEASURES:
        assert np.isnan(measure(np.zeros((5, 5))))
    assert quadratic_kappa(confusion(np.array([1, 5]), np.array([5, 1]))) == -1


def table(judge: np.ndarray, physician: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    values, place = np.unique(judge, return_inverse=True)
    counts = np.zeros((len(values), 5))
    np.add.at(counts, (place, physician - 1), 1)
    return counts, values


def test_correlations_equal_scipys_with_and_without_ties() -> None:
    for n in (3, 12, 300):
        physician = GENERATOR.permutation(np.arange(n) % 5 + 1)
        for judge in (physician + GENERATOR.normal(0, 1, n), GENERATOR.permutation(np.arange(n) % 3 + 1.0)):
            counts, values = table(judge, physician)
            stack = np.stack([np.zeros_like(counts), counts], axis=-1)  # of resamples
            for tables in (counts[..., None], stack):
                assert spearman(tables)[-1] == pytest.approx(spearmanr(judge, physician)[0])
                assert kendall_tau_b(tables)[-1] == pytest.approx(kendalltau(judge, physician)[0])
                assert pearson(tables, values)[-1] == pytest.approx(pearsonr(judge, physician)[0])


def test_constant_scores_and_single_answers_are_undefined() -> None:
    constant = confusion(np.array([3, 3, 3]), np.array([1, 2, 5]))
    single = confusion(np.array([3]), np.array([2]))
    for counts in (constant, single, np.zeros((5, 5))):
        assert np.isnan(spearman(counts))
        assert np.isnan(kendall_tau_b(counts))
        assert np.isnan(pearson(counts, np.arange(5.0)))
    assert np.isnan(icc(single))
    assert np.isnan(icc(confusion(np.array([4, 4]), np.array([4, 4]))))


def alpha(scores: np.ndarray) -> float:
    return float(krippendorff_alpha(coincidences(scores).sum(axis=0)))


def test_alpha_equals_the_krippendorff_package_with_missing_scores() -> None:
    for raters in (2, 3, 5):
        truth = GENERATOR.integers(1, 6, 60)
        scores = np.clip(truth[:, None] + GENERATOR.integers(-1, 2, (60, raters)), 1, 5).astype(float)
        scores[GENERATOR.random(scores.shape) < 0.3] = np.nan
        expected = krippendorff.alpha(scores.T, level_of_measurement="ordinal")
        assert alpha(scores) == pytest.approx(expected)


def test_alpha_of_one_level_or_one_rater_is_undefined() -> None:
    assert np.isnan([alpha(np.full((3, 2), 4.0)), alpha(np.array([[4.0], [5.0]]))]).all()
    assert alpha(np.array([[1.0, 1.0], [5.0, 5.0]])) == 1
