import krippendorff
import numpy as np
import pytest

from medjudge.validation.physicians import agreement_of_physicians, agreement_of_raters, among_physicians

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
    assert result.answers == len(both)
    same = [
        (row[first] >= 4) == (row[second] >= 4)
        for row in raters
        for first, second in ((0, 1), (0, 2), (1, 2))
        if np.isfinite(row[[first, second]]).all()
    ]
    assert result.usable_agreement["value"] == pytest.approx(np.mean(same), abs=1e-6)
    alpha = krippendorff.alpha(both.T, level_of_measurement="ordinal")
    assert result.krippendorff_alpha["value"] == pytest.approx(alpha, abs=1e-6)
    assert among_physicians(pairs([5, 1], [4, 2]), ["a"]) is None  # one rater is no ceiling


def test_physicians_agree_the_same_with_no_judge_beside_them(question, physician_score) -> None:
    raters = three_raters(40)
    questions = [question(id=f"q{row}") for row in range(40)]
    scores = [
        physician_score(question_id=f"q{row}", rater=name, score=int(level))
        for row, levels in enumerate(raters)
        for name, level in zip("abc", levels, strict=True)
        if np.isfinite(level)
    ]
    conversation = np.array([question.group for question in questions])
    expected = agreement_of_raters(raters, conversation, resamples=100)
    assert agreement_of_physicians(questions, scores, resamples=100) == expected
    assert agreement_of_physicians(questions, [physician_score(question_id="q1", rater="constructed")]) is None
