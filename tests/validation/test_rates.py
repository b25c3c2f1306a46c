"""Usability rates from some physicians' scores, and the calibration of P(usable)."""

import numpy as np
import pytest
from calls import judged
from sklearn.metrics import brier_score_loss

from medjudge.validation.confidence import confidence
from medjudge.validation.rates import usability_rates

GENERATOR = np.random.default_rng(6)


@pytest.fixture
def everything(question, physician_score):
    """400 answers of two models, all judged by a lenient judge, 120 of them scored by physicians."""
    questions, judgments, scores, truth = [], [], [], []
    for n in range(200):
        questions.append(question(id=f"q{n}", group=f"g{n}", category="MK" if n % 2 else "MR"))
        for model, share in (("strong", 0.7), ("weak", 0.3)):
            usable = GENERATOR.random() < share
            called = usable or GENERATOR.random() < 0.4
            truth.append(usable)
            judgments.append(judged(f"q{n}", 5 if called else 1, model=model))
            if n < 60:
                scores.append(physician_score(question_id=f"q{n}", model=model, score=5 if usable else 2))
    return questions, judgments, scores, float(np.mean(truth))


def test_a_lenient_judge_is_put_right_by_a_few_scores(everything) -> None:
    questions, judgments, scores, truth = everything
    rates = usability_rates(questions, judgments, scores)
    assert (rates.answers, rates.scored) == (400, 120)
    overall = rates.overall
    assert overall.judge_only > truth + 0.1
    assert overall.prediction_powered["low"] < truth < overall.prediction_powered["high"]

    widths = [each["high"] - each["low"] for each in (overall.prediction_powered, overall.physicians_only)]
    assert widths[0] < widths[1]
    assert set(rates.by_model) == {"strong", "weak"}
    assert list(rates.by_category) == ["MK", "MR"]
    assert rates.by_model["strong"].answers == 200
    scored = {score.answer_key for score in scores}
    of_scored = [judgment for judgment in judgments if judgment.answer_key in scored]
    assert usability_rates(questions, of_scored, scores) is None  # nothing to predict


def test_an_answer_that_the_judge_left_unscored_counts_as_not_usable_to_it(everything) -> None:
    questions, judgments, scores, truth = everything
    silent = [
        judged(one.question_id, one.score if int(one.question_id[1:]) % 4 else None, model=one.model)
        for one in judgments
    ]
    rates = usability_rates(questions, silent, scores)
    assert (rates.answers, rates.scored) == (400, 120)
    overall = rates.overall.prediction_powered
    assert overall["low"] < truth < overall["high"]


def test_an_honest_judge_is_calibrated(pairs) -> None:
    # Physicians who draw their level from the judge's own probabilities.
    probabilities = GENERATOR.dirichlet(np.full(5, 0.5), 800)
    level = np.array([GENERATOR.choice(5, p=row) for row in probabilities]) + 1
    chance = probabilities[:, 3:].sum(axis=1)
    study = pairs(np.where(chance >= 0.5, 5, 1), level, usable_probability=chance)
    result = confidence(study, resamples=500)
    usable = study.physician >= 4
    assert result.brier["value"] == pytest.approx(brier_score_loss(usable, study.usable_probability), abs=1e-6)
    assert result.brier["low"] < result.brier["value"] < result.brier["high"]
    assert result.ece < 0.06
    assert sum(part["n"] for part in result.curve) == 800


def test_a_judge_without_probabilities_has_no_confidence(pairs) -> None:
    assert confidence(pairs([5, 1], [4, 2])) is None
