import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from medjudge.statistics.measures import confusion, icc, kendall_tau_b, pearson, spearman

GENERATOR = np.random.default_rng(2)


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
            assert spearman(counts) == pytest.approx(spearmanr(judge, physician)[0])
            assert kendall_tau_b(counts) == pytest.approx(kendalltau(judge, physician)[0])
            assert pearson(counts, values) == pytest.approx(pearsonr(judge, physician)[0])


def test_counts_stand_for_repeated_rows() -> None:
    judge, physician = np.array([1.5, 2.5, 2.5, 4.0]), np.array([1, 3, 2, 5])
    counts, values = table(judge, physician)
    times = np.array([3, 1, 2, 4])
    repeated, _ = table(np.repeat(judge, times), np.repeat(physician, times))
    stack = np.stack([counts, repeated], axis=-1)
    assert spearman(stack) == pytest.approx([float(spearman(counts)), float(spearman(repeated))])
    assert pearson(stack, values)[1] == pytest.approx(float(pearson(repeated, values)))
    assert kendall_tau_b(stack)[0] == pytest.approx(float(kendall_tau_b(counts)))
    assert kendall_tau_b(repeated) == pytest.approx(
        kendalltau(np.repeat(judge, times), np.repeat(physician, times)).statistic
    )


def test_icc_equals_pingouin() -> None:
    judge, physician = np.array([1, 2, 3, 4, 5, 5, 3, 2, 4, 4]), np.array([2, 2, 3, 5, 5, 4, 1, 2, 3, 5])
    # pingouin 0.6.1, intraclass_corr, ICC(A,1): two-way, absolute agreement, single rater
    assert icc(confusion(judge, physician)) == pytest.approx(0.767908, abs=5e-7)


def test_constant_scores_and_single_answers_are_undefined() -> None:
    constant = confusion(np.array([3, 3, 3]), np.array([1, 2, 5]))
    single = confusion(np.array([3]), np.array([2]))
    for counts in (constant, single, np.zeros((5, 5))):
        assert np.isnan(spearman(counts))
        assert np.isnan(kendall_tau_b(counts))
        assert np.isnan(pearson(counts, np.arange(5.0)))
    assert np.isnan(icc(single))
    assert np.isnan(icc(confusion(np.array([4, 4]), np.array([4, 4]))))
