"""Training pairs from comparisons."""

from collections.abc import Callable

import pytest

from medjudge.distill.pairs import ComparedAnswers, training_pairs
from medjudge.errors import InputError
from medjudge.pair_records import PairJudgment, PhysicianPair, Preferred
from medjudge.records import Answer, Question


def by_rater(rater: str, question_id: str, preferred: Preferred, swapped: bool = False) -> PhysicianPair:
    first, second = ("b", "a") if swapped else ("a", "b")
    return PhysicianPair(question_id=question_id, first=first, second=second, rater=rater, preferred=preferred)


def by_judge(judge: str, question_id: str, first: str, preferred: Preferred | None) -> PairJudgment:
    second = "b" if first == "a" else "a"
    error = "the request failed" if preferred is None else None
    return PairJudgment(
        question_id=question_id, first=first, second=second, judge=judge, preferred=preferred, error=error
    )


def both(judge: str, question_id: str, forward: Preferred, backward: Preferred) -> list[PairJudgment]:
    return [by_judge(judge, question_id, "a", forward), by_judge(judge, question_id, "b", backward)]


@pytest.fixture
def material(question: Callable[..., Question], answer: Callable[..., Answer]) -> tuple[list[Question], list[Answer]]:
    ids = [f"q{number}" for number in range(1, 9)]
    answers = [answer(question_id=name, model=model, text=f"{name} {model}") for name in ids for model in "ab"]
    answers[-1] = answers[-1].model_copy(update={"text": " "})
    return [question(id=name) for name in ids], answers


def test_physicians_outrank_constructed_pairs_and_teachers_and_ties_are_counted(material) -> None:
    compared = ComparedAnswers(
        [
            by_rater("dr-a", "q1", "second"),
            by_rater("dr-b", "q1", "first", swapped=True),
            by_rater("constructed", "q1", "first"),
            by_rater("dr-a", "q2", "first"),
            by_rater("dr-b", "q2", "second"),
            by_rater("constructed", "q3", "first"),
            by_rater("dr-a", "q8", "first"),
        ],
        [
            *both("gpt", "q1", "first", "second"),
            *both("gpt", "q3", "second", "first"),
            *both("gpt", "q4", "first", "first"),
            *both("gpt", "q5", "second", "first"),
            by_judge("gpt", "q6", "a", "first"),
            by_judge("gpt", "q6", "b", None),
            by_judge("gpt", "q7", "a", "first"),
            *both("other", "q7", "first", "second"),
        ],
    )
    made = training_pairs(compared, *material, held={"q5"})
    found = {pair.question.id: (pair.chosen.model, pair.source, pair.compared_by) for pair in made.train}
    assert found == {
        "q1": ("b", "physician", ["dr-a", "dr-b"]),
        "q3": ("a", "constructed", ["constructed"]),
        "q7": ("a", "teacher", ["other"]),
    }
    assert [(pair.question.id, pair.chosen.model) for pair in made.validation] == [("q5", "b")]
    assert all(pair.rejected.model != pair.chosen.model for pair in made.train)
    assert made.summary == {
        "train": 3,
        "validation": 1,
        "sources": {"physician": 1, "constructed": 1, "teacher": 2},
        "ties": 2,  # two physicians who differ; a teacher whose orders differ
        "one_order": 1,
        "empty_answer": 1,
    }


def test_pairs_without_a_winner_or_an_answer_are_refused(material) -> None:
    questions, answers = material
    with pytest.raises(InputError, match="--pairs: no pair to train on: 1 are ties, 0 were judged in one order only"):
        training_pairs(ComparedAnswers([by_rater("dr-a", "q1", "tie")], []), questions, answers, set())
    with pytest.raises(InputError, match="a pair belongs to no answer: question q1, model b, sample 0"):
        training_pairs(ComparedAnswers([by_rater("dr-a", "q1", "first")], []), questions, answers[:1], set())
