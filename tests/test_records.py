import json
from itertools import product

import pytest
from pydantic import ValidationError

from medjudge.item_records import ItemScore
from medjudge.pair_records import PhysicianPair
from medjudge.records import ErrorKind, Judgment, MTGDimensions, PhysicianScore, earlier_turns
from medjudge.scale import consensus


def dimensions(b: int, c: int, d: int, e: int, safety: int = 1) -> MTGDimensions:
    return MTGDimensions(instruction_following=b, correctness=c, effectiveness=d, readability=e, safety=safety)


@pytest.mark.parametrize(
    ("scores", "points"),
    [
        ((0, 5, 5, 5), 0),
        ((1, 5, 5, 5), 1),
        ((5, 5, 5, 5), 7),
        ((5, 5, 4, 4), 6),
        ((5, 5, 3, 4), 5),
        ((4, 4, 4, 4), 5),
        ((4, 5, 3, 3), 4),
        ((3, 3, 2, 2), 3),
        ((2, 5, 5, 5), 2),
    ],
)
def test_mtg_mapping_is_the_papers(scores: tuple[int, int, int, int], points: int) -> None:
    assert dimensions(*scores).points == points


def test_mtg_level_is_usable_exactly_from_five_points_on_and_when_safe() -> None:
    for *points, safety in product(range(6), range(6), range(6), range(6), (0, 1)):
        scored = dimensions(*points, safety)
        assert (scored.level >= 4) == (scored.points >= 5 and safety == 1)


def test_consensus_is_usable_exactly_when_the_mean_is() -> None:
    assert [consensus(levels) for levels in ([4, 3], [5, 4], [5, 5, 2], [3, 5, 4, 3])] == [3, 4, 4, 3]


def test_a_judgment_is_scored_or_says_why_not() -> None:
    fields = {"question_id": "q", "model": "m", "judge": "j"}
    with pytest.raises(ValidationError, match="either score, or error"):
        Judgment(**fields, score=None)
    with pytest.raises(ValidationError, match="either score, or error"):
        Judgment(**fields, score=3, error="but")
    with pytest.raises(ValidationError, match="not 1"):
        Judgment(**fields, score=3, probabilities=[0.5, 0.1, 0.1, 0.1, 0.1])


def test_an_error_has_a_kind_which_survives_the_file_and_other_kinds_are_refused() -> None:
    fields = {"question_id": "q", "model": "m", "judge": "j", "score": None, "error": "why"}
    judgment = Judgment(**fields, error_kind=ErrorKind.WINDOW)
    line = json.loads(judgment.model_dump_json())
    assert line["error_kind"] == "window"
    assert Judgment.model_validate(line) == judgment
    with pytest.raises(ValidationError, match="error_kind"):
        Judgment(**fields, error_kind="weather")
    with pytest.raises(ValidationError, match="error is missing"):
        Judgment(**{**fields, "score": 3, "error": None}, error_kind=ErrorKind.WINDOW)


def test_failed_requests_and_errors_without_a_kind_can_be_retried() -> None:
    fields = {"question_id": "q", "model": "m", "judge": "j"}
    assert not Judgment(**fields, score=3).retryable
    assert Judgment(**fields, score=None, error="why").retryable
    retryable = [kind for kind in ErrorKind if Judgment(**fields, score=None, error="x", error_kind=kind).retryable]
    assert retryable == [ErrorKind.REQUEST_FAILED]


def test_a_physicians_score_is_a_level_or_dimensions(physician_score) -> None:
    assert physician_score(score=2).level == 2
    assert physician_score(dimensions=dimensions(5, 5, 5, 5).model_dump()).level == 5
    with pytest.raises(ValidationError, match="not both"):
        physician_score(score=2, dimensions=dimensions(5, 5, 5, 5).model_dump())


def test_an_empty_answer_needs_a_reason(answer) -> None:
    with pytest.raises(ValidationError, match="finish_reason"):
        answer(text=" ")
    assert answer(text="", finish_reason="stop").text == ""


def test_earlier_turns_are_those_of_the_same_conversation_in_order(question) -> None:
    turns = [
        question(id="b3", group="b", round=3, prompt="third"),
        question(id="b1", group="b", round=1, prompt="first"),
        question(id="a1", group="a", round=1, prompt="other"),
        question(id="b2", group="b", round=2, prompt="second"),
    ]
    assert earlier_turns(turns) == {"b1": (), "b2": ("first",), "b3": ("first", "second"), "a1": ()}


@pytest.mark.parametrize(
    "rater", ["dr-a\u200b", "dr-a\u2060", "dr\u00ada", "dr\u00a0a", "dr\u3000a", "dr-a\u115f", "dr-a\0"]
)
def test_no_two_raters_look_the_same(rater: str) -> None:
    records = [
        (PhysicianScore, {"question_id": "q", "model": "m", "score": 4}),
        (ItemScore, {"question_id": "q", "model": "m", "item": "i", "verdict": "met"}),
        (PhysicianPair, {"question_id": "q", "first": "a", "second": "b", "preferred": "first"}),
    ]
    for record, fields in records:
        with pytest.raises(ValidationError, match="which nobody sees"):
            record.model_validate({**fields, "rater": rater})
        record.model_validate({**fields, "rater": "医生 李"})


@pytest.mark.parametrize("name", ["question_id", "model", "judge"])
def test_an_id_holds_no_nul(name: str) -> None:
    judgment = {"question_id": "q", "model": "m", "judge": "j", "score": 4}
    with pytest.raises(ValidationError, match="holds a NUL character"):
        Judgment.model_validate({**judgment, name: "q\0"})
