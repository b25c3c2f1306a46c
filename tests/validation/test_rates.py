import numpy as np
import pytest

from medjudge.records import Judgment
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
            level = 5 if called else 1
            judgments.append(Judgment(question_id=f"q{n}", model=model, judge="j", score=level))
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

    def width(estimate) -> float:
        return estimate["high"] - estimate["low"]

    assert width(overall.prediction_powered) < width(overall.physicians_only)
    assert set(rates.by_model) == {"strong", "weak"}
    assert list(rates.by_category) == ["MK", "MR"]
    assert rates.by_model["strong"].answers == 200
    scored = {score.answer_key for score in scores}
    of_scored = [judgment for judgment in judgments if judgment.answer_key in scored]
    assert usability_rates(questions, of_scored, scores) is None  # nothing to predict


def test_an_answer_that_the_judge_left_unscored_counts_as_not_usable_to_it(everything) -> None:
    questions, judgments, scores, truth = everything
    silence = {"score": None, "error": "unreadable"}
    silent = [
        judgment.model_copy(update={} if int(judgment.question_id[1:]) % 4 else silence) for judgment in judgments
    ]
    rates = usability_rates(questions, silent, scores)
    assert (rates.answers, rates.scored) == (400, 120)
    overall = rates.overall.prediction_powered
    assert overall["low"] < truth < overall["high"]
