import numpy as np
import pytest
import statsmodels.api as sm
from scipy.stats import ttest_1samp
from statsmodels.stats.multitest import multipletests

from medjudge.statistics.alt_test import alt_test

USABLE, UNUSABLE = 5.0, 1.0


def raters_of_accuracy(accuracy: list[float], n: int, generator: np.random.Generator) -> np.ndarray:
    """Levels 1 or 5, shape (n, raters); each equals a hidden truth with its own probability."""
    truth = generator.random(n) < 0.5
    right = generator.random((n, len(accuracy))) < accuracy
    return np.where(truth[:, None] == right, USABLE, UNUSABLE)


def test_hand_worked_example() -> None:
    # Four kinds of answers, ten of each. Physicians A, B and C; agreement with the two others, judge : physician.
    #   judge A B C   against A    against B    against C
    #   5     5 5 1   .5 : .5      .5 : .5      1 : 0
    #   5     1 5 5   1 : 0        .5 : .5      .5 : .5
    #   2     3 5 5   0 : 0        .5 : .5      .5 : .5
    #   1     4 4 4   0 : 1        0 : 1        0 : 1
    judge = np.repeat([5, 5, 2, 1], 10)
    physicians = np.repeat([[5, 5, 1], [1, 5, 5], [3, 5, 5], [4, 4, 4]], 10, axis=0).astype(float)
    result = alt_test(judge, physicians, np.arange(40), epsilon=0.2)
    assert [(rater.rater, rater.n) for rater in result.raters] == [("0", 40), ("1", 40), ("2", 40)]
    assert [rater.rho_judge for rater in result.raters] == [0.75, 0.75, 0.75]
    assert [rater.rho_rater for rater in result.raters] == [0.75, 1.0, 0.75]
    assert result.rho == 0.75
    # A and C: ten answers of -1, ten of 1, twenty of 0; B: ten of 1, thirty of 0.
    as_a = ttest_1samp(np.repeat([-1, 0, 0, 1], 10), 0.2, alternative="less").pvalue
    as_b = ttest_1samp(np.repeat([0, 0, 0, 1], 10), 0.2, alternative="less").pvalue
    p_values = [rater.p_value for rater in result.raters]
    assert p_values == pytest.approx([as_a, as_b, as_a])
    won, adjusted, *_ = multipletests(p_values, 0.05, "fdr_by")
    assert [rater.adjusted_p for rater in result.raters] == pytest.approx(adjusted)
    assert [rater.won for rater in result.raters] == won.tolist() == [False, False, False]
    assert (result.omega, result.passed, result.why) == (0, False, None)
    assert alt_test(judge, physicians, np.arange(40), epsilon=0.6).omega == 1


def test_the_level_alignment_is_the_root_mean_squared_difference() -> None:
    # Others at 3 and 5. Judge 4: 1. The physician's 5: sqrt((4 + 0) / 2) = 1.41, although both are called usable.
    physicians = np.tile([5.0, 3.0, 5.0], (30, 1))
    ahead = alt_test(np.full(30, 4), physicians, np.arange(30), alignment="level").raters[0]
    assert (ahead.rho_judge, ahead.rho_rater, ahead.p_value) == (1, 0, 0)
    # Squares count: off by 0 and 2 (1.41) is worse than off by 1.2 twice, though its mean difference is smaller.
    uneven = np.tile([3.0, 1.8, 4.2], (30, 1))
    assert alt_test(np.full(30, 4.2), uneven, np.arange(30), alignment="level").raters[0].rho_judge == 0


def test_the_standard_error_is_robust_to_conversations() -> None:
    generator = np.random.default_rng(2)
    levels = raters_of_accuracy([0.7, 0.8, 0.8, 0.8], 60, generator)
    once = alt_test(levels[:, 0], levels[:, 1:], np.arange(60))
    # Four equal answers a conversation tell no more than one.
    repeated = np.repeat(levels, 4, axis=0)
    fourfold = alt_test(repeated[:, 0], repeated[:, 1:], np.repeat(np.arange(60), 4))
    assert [rater.p_value for rater in fourfold.raters] == pytest.approx([rater.p_value for rater in once.raters])
    # Uneven conversations, against statsmodels.
    clusters = generator.integers(0, 17, 60)
    others = levels[:, 2:]
    agree = [(levels[:, [column]] == others).mean(axis=1) for column in (0, 1)]
    difference = (agree[1] >= agree[0]).astype(int) - (agree[0] >= agree[1]).astype(int)
    fit = sm.OLS(difference - 0.2, np.ones(60)).fit(cov_type="cluster", cov_kwds={"groups": clusters}, use_t=True)
    expected = fit.pvalues[0] / 2 if fit.tvalues[0] < 0 else 1 - fit.pvalues[0] / 2
    result = alt_test(levels[:, 0], levels[:, 1:], np.array([f"conversation {cluster}" for cluster in clusters]))
    assert result.raters[0].p_value == pytest.approx(expected)


def test_where_nothing_varies_the_values_decide_and_two_physicians_suffice_with_a_warning() -> None:
    same = np.tile([USABLE, USABLE, USABLE], (40, 1))
    agreeing = alt_test(np.full(40, 5), same, np.arange(40))
    assert ([rater.p_value for rater in agreeing.raters], agreeing.passed) == ([0, 0, 0], True)
    opposed = alt_test(np.full(40, 1), same, np.arange(40))
    assert ([rater.p_value for rater in opposed.raters], opposed.omega, opposed.rho) == ([1, 1, 1], 0, 0)
    two = alt_test(np.full(40, 5), same[:, :2], np.arange(40))
    assert (two.passed, two.omega, "at least three" in str(two.why)) == (True, 1, True)


def test_half_of_the_physicians_are_enough() -> None:
    # Two physicians see the first half, where the judge is right, two the second, where it is wrong.
    physicians = np.full((80, 4), np.nan)
    physicians[:40, :2] = physicians[40:, 2:] = USABLE
    result = alt_test(np.repeat([USABLE, UNUSABLE], 40), physicians, np.arange(80))
    assert [rater.won for rater in result.raters] == [True, True, False, False]
    assert (result.omega, result.rho, result.passed, result.why) == (0.5, 0.5, True, None)


def test_missing_scores_leave_pairs_out() -> None:
    levels = raters_of_accuracy([0.8, 0.8, 0.8, 0.8], 100, np.random.default_rng(4))
    physicians = levels[:, 1:].copy()
    physicians[20:, 0] = np.nan
    physicians[90:, 1] = np.nan
    result = alt_test(levels[:, 0], physicians, np.arange(100))
    # The first scored 20 answers; the last ten answers have one score alone.
    assert [rater.n for rater in result.raters] == [20, 90, 90]
    assert (result.raters[0].p_value, result.raters[0].won) == (None, None)
    decided = [rater.rho_judge for rater in result.raters[1:]]
    assert result.rho == pytest.approx(np.mean(decided))
    assert "1 of 3 physicians cannot be decided" in str(result.why)
    assert "they have 20" in str(result.why)


@pytest.mark.parametrize(
    ("answers", "raters", "conversations", "why"),
    [
        (40, 1, 40, "at least two physicians"),
        (29, 3, 29, "they have 29, 29, 29"),
        (40, 3, 1, "more than one conversation"),
        (0, 3, 1, "cannot be decided"),
    ],
)
def test_too_little_to_conclude(answers: int, raters: int, conversations: int, why: str) -> None:
    levels = np.full((answers, raters), USABLE)
    result = alt_test(np.full(answers, USABLE), levels, np.arange(answers) % conversations)
    assert ([rater.p_value for rater in result.raters], result.passed) == ([None] * raters, None)
    assert why in str(result.why)
