import pytest

from medjudge.records import AnswerKey
from medjudge.refine.disagreements import split_answers


def test_whole_models_are_held_out_of_each_question() -> None:
    keys = [AnswerKey(f"q{number}", model, sample) for number in range(12) for model in "abcde" for sample in range(3)]
    held_out = split_answers(keys, 0.5, 0)
    for number in range(12):
        held = [key for key in held_out if key.question_id == f"q{number}"]
        assert (len({key.model for key in held}), len(held)) == (2, 6)
    assert split_answers(reversed(keys), 0.5, 0) == held_out
    assert split_answers(keys, 0.5, 1) != held_out
    # A question's draw does not depend on the others.
    fewer = split_answers([key for key in keys if key.question_id in ("q0", "q1")], 0.5, 0)
    assert fewer == {key for key in held_out if key.question_id in ("q0", "q1")}


@pytest.mark.parametrize(("models", "samples", "held"), [("a", 3, 2), ("ab", 1, 1), ("ab", 3, 3), ("a", 1, 0)])
def test_few_answers(models: str, samples: int, held: int) -> None:
    keys = [AnswerKey("q1", model, sample) for model in models for sample in range(samples)]
    assert len(split_answers(keys, 0.5, 0)) == held
