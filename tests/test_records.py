import json
from itertools import product

import pytest
from pydantic import ValidationError

from medjudge.item_records import ItemScore
from medjudge.pair_records import PhysicianPair
from medjudge.records import ErrorKind, Judgment, MTGDimensions, PhysicianScore, earlier_turns
from medjudge.scale import consensus

JUDGED = {"question_id": "q", "model": "m", "judge": "j"}


def dimensions(b: int, c: int, d: int, e: int, safety: int = 1) -> MTGDimensions:
    return MTGDimensions(instruction_following=b, correctness=c, effectiveness=d, readability=e, safety=safety)


def test_mtg_mapping_is_the_papers_and_the_level_usable_from_five_points_on_and_when_safe() -> None:
    points = {"0555": 0, "1555": 1, "5555": 7, "5544": 6, "5534": 5, "4444": 5, "4533": 4, "3322": 3, "2555": 2}
    assert {scores: dimensions(*map(int, scores)).points for scores in points} == points
    for *points, safety in product(range(6), range(6), range(6), range(6), (0, 1)):
        scored = dimensions(*points, safety)
        assert (scored.level >= 4) == (scored.points >= 5 and safety == 1)


def test_consensus_is_usable_exactly_when_the_mean_is() -> None:
    assert [consensus(levels) for levels in ([4, 3], [5, 4], [5, 5, 2], [3, 5, 4, 3])] == [3, 4, 4, 3]


def test_a_judgment_is_scored_or_says_why_not_and_its_ids_hold_no_nul() -> None:
    for fields, problem in (
        ({"score": None}, "either score, or error"),
        ({"score": 3, "error": "but"}, "either score, or error"),
        ({"score": 3, "probabilities": [0.5, 0.1, 0.1, 0.1, 0.1]}, "not 1"),
        ({"score": None, "error": "why", "error_kind": "weather"}, "error_kind"),
        ({"score": 3, "error_kind": ErrorKind.WINDOW}, "error is missing"),
        *(({"score": 4, name: "q\0"}, f"{name}\n.*holds a NUL character") for name in JUDGED),
    ):
        with pytest.raises(ValidationError, match=problem):
            Judgment.model_validate({**JUDGED, **fields})


def test_the_kind_of_an_error_survives_the_file_and_says_if_it_can_be_retried() -> None:
    unscored = [Judgment(**JUDGED, score=None, error="why", error_kind=kind) for kind in (None, *ErrorKind)]
    lines = [json.loads(judgment.model_dump_json()) for judgment in unscored]
    assert "window" in [line["error_kind"] for line in lines]
    assert [Judgment.model_validate(line) for line in lines] == unscored
    assert [judgment.error_kind for judgment in unscored if judgment.retryable] == [None, ErrorKind.REQUEST_FAILED]
    assert not Judgment(**JUDGED, score=3).retryable


def test_a_physicians_score_is_a_level_or_dimensions_and_an_empty_answer_has_a_reason(physician_score, answer) -> None:
    with pytest.raises(ValidationError, match="finish_reason"):
        answer(text=" ")
    assert answer(text="", finish_reason="stop").text == ""
    assert physician_score(score=2).level == 2
    assert physician_score(dimensions=dimensions(5, 5, 5, 5).model_dump()).level == 5
    with pytest.raises(ValidationError, match="not both"):
        physician_score(score=2, dimensions=dimensions(5, 5, 5, 5).model_dump())


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
