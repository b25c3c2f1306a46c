from itertools import combinations

import krippendorff
import numpy as np
import pytest

from medjudge.validation.physicians import agreement_of_physicians, among_physicians

GENERATOR = np.random.default_rng(9)


def three_raters(n: int) -> np.ndarray:
    truth = GENERATOR.integers(1, 6, n)
    raters = np.clip(truth[:, None] + GENERATOR.integers(-1, 2, (n, 3)), 1, 5).astype(float)
    raters[GENERATOR.random((n, 3)) < 0.2] = np.nan
    raters[0] = [3, np.nan, np.nan]
    return raters


def test_agreement_is_over_all_pairs_of_raters_with_missing_scores(pairs, question, physician_score) -> None:
    raters = three_raters(200)
    consensus = np.full(200, 3)
    result = among_physicians(pairs(consensus, consensus, raters=raters), ["a", "b", "c"], resamples=200)
    both = raters[np.isfinite(raters).sum(axis=1) > 1]
    assert result.answers == len(both)
    same = [(one >= 4) == (other >= 4) for row in both for one, other in combinations(row[np.isfinite(row)], 2)]
    assert result.usable_agreement["value"] == pytest.approx(np.mean(same), abs=1e-6)
    alpha = krippendorff.alpha(both.T, level_of_measurement="ordinal")
    assert result.krippendorff_alpha["value"] == pytest.approx(alpha, abs=1e-6)
    assert among_physicians(pairs([5, 1], [4, 2]), ["a"]) is None  # one rater is no ceiling
    # They agree the same with no judge beside them.
    questions = [question(id=f"g{row}") for row in range(200)]
    scores = [
        physician_score(question_id=f"g{row}", rater="abc"[rater], score=int(raters[row, rater]))
        for row, rater in np.argwhere(np.isfinite(raters))
    ]
    alone = agreement_of_physicians(questions, scores, resamples=200)
    assert alone.model_dump() == result.model_dump(exclude={"alt_test"})
    assert agreement_of_physicians(questions, [physician_score(question_id="g1", rater="constructed")]) is None
