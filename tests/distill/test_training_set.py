import pytest

from medjudge.distill.training_set import build_training_set
from medjudge.errors import InputError
from medjudge.records import Judgment


def judged(question_id: str, score: int | None, **fields: object) -> Judgment:
    error = None if score is not None else "unreadable"
    return Judgment.model_validate(
        {"question_id": question_id, "model": "m", "judge": "gpt", "score": score, "error": error, **fields}
    )


@pytest.fixture
def pieces(question, answer):
    questions = [question(id=f"q{n}", group=f"g{n // 2}", round=n % 2 + 1, prompt=f"prompt {n}") for n in range(12)]
    return questions, [answer(question_id=one.id, text=f"answer {one.id}") for one in questions]


def lines_by_id(made):
    return {line.question.id: line for line in [*made.train, *made.validation]}


def test_a_physician_outranks_the_teacher(pieces, physician_score) -> None:
    questions, answers = pieces
    judgments = [judged(one.id, 5, rationale="because") for one in questions]
    made = build_training_set(questions, answers, judgments, [physician_score(question_id="q3", score=2)], 0.2, 0)
    lines = lines_by_id(made)
    assert (lines["q3"].level, lines["q3"].source, lines["q3"].scored_by) == (2, "physician", ["dr"])
    assert lines["q3"].rationale is None  # it argues for a 5
    assert (lines["q4"].level, lines["q4"].source, lines["q4"].rationale) == (5, "teacher", "because")
    assert made.summary["teacher_against_physicians"] == {
        "answers": 1,
        "other_level": 1,
        "usable_by_teacher_only": 1,
        "usable_by_physicians_only": 0,
    }


def test_rounds_and_raters_become_soft_labels(pieces, physician_score) -> None:
    questions, answers = pieces
    judgments = [judged("q0", 4), judged("q0", 5, round=2), judged("q1", 3, probabilities=[0, 0.25, 0.5, 0.25, 0])]
    scores = [
        physician_score(question_id="q2", rater=name, score=level) for name, level in (("a", 3), ("b", 4), ("c", 4))
    ]
    lines = lines_by_id(build_training_set(questions, answers, judgments, scores, 0.3, 0))
    assert lines["q0"].probabilities == [0, 0, 0, 0.5, 0.5]
    assert lines["q0"].level == 4
    assert lines["q1"].probabilities == [0, 0.25, 0.5, 0.25, 0]
    assert lines["q2"].probabilities == pytest.approx([0, 0, 1 / 3, 2 / 3, 0], abs=1e-5)
    assert lines["q2"].level == 3  # a mean of 3.67 is not usable


def test_conversations_stay_whole_and_carry_their_earlier_turns(pieces, physician_score) -> None:
    questions, answers = pieces
    scores = [physician_score(question_id=one.id) for one in questions]
    made = build_training_set(questions, answers, [], scores, 0.34, 1)
    train, validation = [{line.question.group for line in side} for side in (made.train, made.validation)]
    assert train
    assert validation
    assert not train & validation
    assert lines_by_id(made)["q5"].earlier == ["prompt 4"]


def test_unscored_judgments_teach_nothing_and_are_counted(pieces) -> None:
    questions, answers = pieces
    made = build_training_set(questions, answers, [judged("q0", 4), judged("q1", None), judged("q2", 4)], [], 0.3, 0)
    assert set(lines_by_id(made)) == {"q0", "q2"}
    assert made.summary["unscored_judgments"] == 1


def test_scores_of_unknown_answers_and_nothing_at_all_are_refused(pieces, physician_score) -> None:
    questions, answers = pieces
    with pytest.raises(InputError, match="belongs to no answer: question q0, model other"):
        build_training_set(questions, answers, [], [physician_score(question_id="q0", model="other")], 0.3, 0)
    with pytest.raises(InputError, match="nothing to distil"):
        build_training_set(questions, answers, [], [], 0.3, 0)
