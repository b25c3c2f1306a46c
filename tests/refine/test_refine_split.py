import pytest

from medjudge.records import AnswerKey
from medjudge.refine.disagreements import split_answers


def test_whole_models_are_held_out_of_each_question_and_whole_conversations(question) -> None:
    questions = [question(id=f"q{number}", group=f"g{number // 2}", round=1 + number % 2) for number in range(12)]
    keys = [AnswerKey(question.id, model, sample) for question in questions for model in "abcde" for sample in range(3)]
    split = split_answers(questions, keys, 0.5, 0)
    for asked in questions:
        held = {key.model for key in split.answers if key.question_id == asked.id}
        assert len(held) == 2
        assert sum(key.question_id == asked.id for key in split.answers) == 6
    assert len(split.conversations) == 3
    assert split_answers(questions, reversed(keys), 0.5, 0) == split
    assert split_answers(questions, keys, 0.5, 1) != split
    # A question's draw does not depend on the others.
    fewer = split_answers(questions[:4], [key for key in keys if key.question_id in ("q0", "q1")], 0.5, 0)
    assert fewer.answers == {key for key in split.answers if key.question_id in ("q0", "q1")}


@pytest.mark.parametrize(("models", "samples", "held"), [("a", 3, 2), ("ab", 1, 1), ("ab", 3, 3)])
def test_few_answers(question, models: str, samples: int, held: int) -> None:
    keys = [AnswerKey("q1", model, sample) for model in models for sample in range(samples)]
    assert len(split_answers([question()], keys, 0.5, 0).answers) == held


def test_a_single_answer_goes_with_its_conversation(question) -> None:
    questions = [question(id=f"q{number}") for number in range(6)]
    split = split_answers(questions, [AnswerKey(question.id, "m", 0) for question in questions], 0.5, 0)
    assert {key.question_id for key in split.answers} == split.conversations
    assert len(split.answers) == 3
