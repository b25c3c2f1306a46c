import numpy as np
import pytest

from medjudge.judge.protocol import assignments, scored
from medjudge.scale import USABLE_FROM, median_level


def test_the_score_is_usable_exactly_when_usable_is_as_likely_as_not() -> None:
    generator = np.random.default_rng(0)
    for row in generator.dirichlet(np.full(5, 0.5), 2000):
        assert (median_level(row) >= USABLE_FROM) == (row[3:].sum() >= 0.5)
    assert median_level(np.array([0, 0, 0.5, 0.5, 0])) == 4
    assert median_level(np.array([0.5, 0, 0, 0, 0.5])) == 5
    assert median_level(np.array([0, 0, 0, 0, 1.0])) == 5
    assert median_level(np.array([1.0, 0, 0, 0, 0])) == 1


def test_expected_is_the_mean_of_the_probabilities(assignment) -> None:
    judgment = scored(assignment(), "j", np.array([0.1, 0.2, 0.3, 0.2, 0.2], dtype=np.float32))
    assert judgment.expected == pytest.approx(3.2, abs=1e-5)
    assert sum(judgment.probabilities) == pytest.approx(1, abs=1e-5)
    assert judgment.score == 3


def test_every_answer_is_assigned_once_a_round_with_its_earlier_turns(question, answer) -> None:
    questions = [question(id="a1", group="a"), question(id="a2", group="a", round=2, prompt="And children?")]
    answers = [answer(question_id=name) for name in ("a1", "a2", "elsewhere")]
    work = assignments(questions, answers, rounds=2)
    assert [(each.question.id, each.round) for each in work] == [("a1", 1), ("a1", 2), ("a2", 1), ("a2", 2)]
    assert work[-1].earlier == ("How much paracetamol a day?",)
