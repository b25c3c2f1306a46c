import krippendorff
import numpy as np
import pytest

from medjudge.agreement.physicians import among_physicians

GENERATOR = np.random.default_rng(9)


def three_raters(n: int) -> np.ndarray:
    truth = GENERATOR.integers(1, 6, n)
    raters = np.clip(truth[:, None] + GENERATOR.integers(-1, 2, (n, 3)), 1, 5).astype(float)
    raters[GENERATOR.random((n, 3)) < 0.2] = np.nan
    raters[0] = [3, np.nan, np.nan]
    return raters


def test_agreement_is_over_all_pairs_of_raters_with_missing_scores(pairs) -> None:
    raters = three_raters(200)
    consensus = np.full(200, 3)
    result = among_physicians(pairs(consensus, consensus, raters=raters), ["a", "b", "c"], resamples=200)
    both = raters[np.isfinite(raters).sum(axis=1) > 1]
    assert result["answers"] == len(both)
    same = [
        (row[first] >= 4) == (row[second] >= 4)
        for row in raters
        for first, second in ((0, 1), (0, 2), (1, 2))
        if np.isfinite(row[[first, second]]).all()
    ]
    assert result["usable_agreement"]["value"] == pytest.approx(np.mean(same), abs=1e-6)
    alpha = krippendorff.alpha(both.T, level_of_measurement="ordinal")
    assert result["krippendorff_alpha"]["value"] == pytest.approx(alpha, abs=1e-6)


def test_a_judge_like_the_consensus_wins_and_a_random_one_does_not(pairs) -> None:
    raters = three_raters(300)
    raters[:, 0] = np.where(np.isnan(raters[:, 0]), 3, raters[:, 0])
    middle = np.round(np.nanmedian(raters, axis=1)).astype(int)
    tests = among_physicians(pairs(middle, middle, raters=raters), ["a", "b", "c"], resamples=100)["alt_test"]
    assert tests["usable"]["passed"] is True
    assert [one["rater"] for one in tests["usable"]["raters"]] == ["a", "b", "c"]
    random = GENERATOR.integers(1, 6, 300)
    tests = among_physicians(pairs(random, middle, raters=raters), ["a", "b", "c"], resamples=100)["alt_test"]
    assert tests["level"]["passed"] is False


def test_one_rater_is_no_ceiling(pairs) -> None:
    assert among_physicians(pairs([5, 1], [4, 2]), ["a"]) is None
