import json
import math

import numpy as np
import pytest
from mapie.classification import SplitConformalClassifier
from sklearn.linear_model import LogisticRegression

from medjudge.errors import InputError
from medjudge.statistics.conformal import (
    Conformal,
    conversations_needed,
    cross_conformal_coverage,
    fit_conformal,
    level_sets,
    most_uncertain,
    usable_sets,
)


def judged(n: int, generator: np.random.Generator, honest: bool = True) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (n, 5) and levels drawn from them, or, from a judge that is not honest, from flatter ones."""
    truth = generator.dirichlet([0.6] * 5, n)
    levels = 1 + (generator.random(n)[:, None] > np.cumsum(truth, axis=1)[:, :4]).sum(axis=1)
    sharp = truth if honest else truth**3 / (truth**3).sum(axis=1, keepdims=True)
    return sharp, levels


def test_sets_equal_those_of_mapie() -> None:
    generator = np.random.default_rng(6)
    features = generator.normal(size=(300, 3))
    levels = np.clip(np.round(3 + features[:, 0] + generator.normal(size=300)), 1, 5).astype(int)
    usable = (levels >= 4).astype(int)
    for rate in (0.05, 0.1, 0.37):
        for labels in (levels, usable):
            model = LogisticRegression().fit(features[:100], labels[:100])
            mapie = SplitConformalClassifier(model, 1 - rate, conformity_score="lac", prefit=True)
            mapie.conformalize(features[100:200], labels[100:200])
            _, expected = mapie.predict_set(features)
            probabilities = model.predict_proba(features)
            if labels is usable:
                # Usable split over levels 4 and 5, unusable over 1 to 3, as a judge's five probabilities would.
                probabilities = probabilities[:, [0, 0, 0, 1, 1]] * [0.5, 0.3, 0.2, 0.6, 0.4]
            conformal = fit_conformal(probabilities[100:200], levels[100:200], np.arange(100), rate)
            assert conformal is not None
            sets = (usable_sets if labels is usable else level_sets)(conformal, probabilities)
            assert (sets == expected[:, :, 0]).all()


def test_thresholds_by_hand_and_through_json() -> None:
    # Nine conversations, error rate 0.2: the ceil(10 * 0.8) = 8th smallest of 1 - P(true label).
    usable = np.array([0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.65, 0.6, 0.3])
    probabilities = np.column_stack([1 - usable, np.zeros((9, 2)), usable, np.zeros(9)])
    conformal = fit_conformal(probabilities, np.full(9, 4), np.arange(9), error_rate=0.2)
    assert conformal is not None
    assert conformal == pytest.approx((0.2, 0.4, 0.4, 9))
    stored = Conformal(**json.loads(json.dumps(conformal._asdict())))
    assert stored == conformal
    # Both labels need a probability of 0.6: certain, not usable, none; 0.6 itself is in.
    new = np.array([[0.05, 0, 0, 0.15, 0.8], [0.8, 0, 0, 0.2, 0], [0.5, 0, 0, 0.5, 0], [0.2, 0.2, 0, 0.6, 0]])
    assert usable_sets(stored, new).tolist() == [[False, True], [True, False], [False, False], [False, True]]
    assert level_sets(stored, new).sum(axis=1).tolist() == [1, 1, 0, 1]


@pytest.mark.parametrize("rate", [0.01, 0.05, 0.1, 0.2, 1 / 3, 0.5, 0.9])
def test_too_few_conversations_are_refused(rate: float) -> None:
    needed = conversations_needed(rate)
    assert math.ceil((needed + 1) * (1 - rate)) <= needed
    assert needed == 1 or math.ceil(needed * (1 - rate)) > needed - 1
    probabilities, levels = judged(3 * needed, np.random.default_rng(0))
    fitted = fit_conformal(probabilities, levels, np.repeat(np.arange(needed), 3), rate)
    assert fitted is not None
    assert fitted.calibrated_on == needed
    # More answers of fewer conversations do not help.
    few = np.minimum(np.repeat(np.arange(needed), 3), needed - 2)
    assert needed == 1 or fit_conformal(probabilities, levels, few, rate) is None
    assert fit_conformal(probabilities[:0], levels[:0], few[:0], rate) is None


def test_one_random_answer_of_each_conversation() -> None:
    # Each conversation has one answer on which the judge was right and nine on which it was wrong, in any place.
    right = np.tile([0, 0, 0, 0, 1.0], (300, 1))
    levels = np.tile([5] + [1] * 9, 30)
    clusters = np.repeat([f"c{number}" for number in range(30)], 10)
    thresholds = [fit_conformal(right, levels, clusters, 0.5, seed).usable_threshold for seed in range(20)]
    assert np.mean(thresholds) > 0.9
    fitted = fit_conformal(*judged(300, np.random.default_rng(1)), clusters, 0.1, seed=1)
    assert fitted == fit_conformal(*judged(300, np.random.default_rng(1)), clusters, 0.1, seed=1)
    assert fitted != fit_conformal(*judged(300, np.random.default_rng(1)), clusters, 0.1, seed=2)


def test_rounded_probabilities_are_taken() -> None:
    probabilities, levels = judged(50, np.random.default_rng(5))
    exact = fit_conformal(probabilities, levels, np.arange(50))
    assert fit_conformal(probabilities * 1.0009, levels, np.arange(50)) == pytest.approx(exact)


@pytest.mark.parametrize("honest", [True, False])
def test_coverage_of_new_conversations(honest: bool) -> None:
    generator = np.random.default_rng(8)
    of_usable, of_level = [], []
    for repetition in range(200):
        probabilities, levels = judged(200, generator, honest)
        conformal = fit_conformal(probabilities[:99], levels[:99], np.arange(99), 0.1, repetition)
        assert conformal is not None
        new, truth = probabilities[99:], levels[99:]
        rows = np.arange(len(new))
        of_usable.append(usable_sets(conformal, new)[rows, (truth >= 4).astype(int)].mean())
        of_level.append(level_sets(conformal, new)[rows, truth - 1].mean())
    assert 0.88 < np.mean(of_usable) < 0.93
    assert 0.88 < np.mean(of_level) < 0.93


def test_cross_coverage_is_held_out_and_by_conversation() -> None:
    generator = np.random.default_rng(9)
    measured = []
    for seed in range(30):
        probabilities, levels = judged(100, generator, honest=False)
        # Three equal answers a conversation: folds that split conversations would see their own answers.
        result = cross_conformal_coverage(
            np.repeat(probabilities, 3, axis=0), np.repeat(levels, 3), np.repeat(np.arange(100), 3), 0.1, seed=seed
        )
        single = cross_conformal_coverage(probabilities, levels, np.arange(100), 0.1, seed=seed)
        assert result == single
        assert result is not None
        measured.append(result)
    assert np.mean([check.usable.coverage for check in measured]) == pytest.approx(0.91, abs=0.02)
    assert np.mean([check.level.coverage for check in measured]) == pytest.approx(0.91, abs=0.02)
    assert all(1 <= check.level.mean_size <= 5 and check.usable.mean_size <= 2 for check in measured)


def test_cross_coverage_of_a_perfect_judge_and_of_too_few_conversations() -> None:
    levels = np.tile([1, 2, 3, 4, 5], 20)
    perfect = cross_conformal_coverage(np.eye(5)[levels - 1], levels, np.arange(100))
    assert perfect is not None
    assert {*perfect.usable.model_dump().values(), *perfect.level.model_dump().values()} == {1}
    # Eleven conversations in five folds leave eight to calibrate, and 0.1 needs nine.
    assert cross_conformal_coverage(np.eye(5)[levels[:11] - 1], levels[:11], np.arange(11)) is None
    assert cross_conformal_coverage(np.eye(5)[levels[:12] - 1], levels[:12], np.arange(12)) is not None


def test_the_most_uncertain_come_first() -> None:
    probability = np.array([0.9, 0.5, 0.3, 0.05, 0.7, 0.45])
    assert most_uncertain(probability, 1.0).tolist() == [1, 5, 2, 4, 0, 3]
    # Sets that do not hold exactly one label come before: row 3 holds both, row 0 none.
    sets = np.array([[0, 0], [0, 1], [1, 0], [1, 1], [0, 1], [1, 0]], dtype=bool)
    assert most_uncertain(probability, 1.0, sets).tolist() == [0, 3, 1, 5, 2, 4]
    assert most_uncertain(probability, 0.2, sets).tolist() == [0, 3]
    assert most_uncertain(probability, 0.0).tolist() == []
    assert len(most_uncertain(np.full(100, 0.5), 0.07)) == 7
    assert len(most_uncertain(np.full(100, 0.5), 0.0701)) == 8
    assert most_uncertain(np.zeros(0), 0.5).tolist() == []


def test_wrong_input_is_refused() -> None:
    probabilities, levels = judged(20, np.random.default_rng(3))
    for rate in (0, 1, 10):
        with pytest.raises(InputError, match="error rate"):
            fit_conformal(probabilities, levels, np.arange(20), rate)
    with pytest.raises(InputError, match="share to defer"):
        most_uncertain(probabilities[:, 0], 1.5)
    with pytest.raises(ValueError, match="add up to 1"):
        fit_conformal(probabilities * 0.9, levels, np.arange(20))
    with pytest.raises(ValueError, match="levels: from 0"):
        fit_conformal(probabilities, levels - levels.min(), np.arange(20))
    with pytest.raises(ValueError, match="differ"):
        fit_conformal(probabilities, levels, np.arange(19))
    with pytest.raises(ValueError, match=r"must be \(n,\)"):
        most_uncertain(probabilities[:, 0], 0.5, np.ones((3, 2), bool))
