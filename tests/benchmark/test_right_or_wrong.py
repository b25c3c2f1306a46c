"""HalluQA and EVOUNA, from small files of their layout."""

from pathlib import Path
from typing import Any

import pytest
from files_of_rows import written
from published_rows import evouna, halluqa

from medjudge.benchmark.json_sets import read_evouna, read_halluqa
from medjudge.errors import InputError
from medjudge.records import ErrorKind


def test_gpt_4_s_verdicts_become_judgments_of_levels_5_and_1(tmp_path: Path) -> None:
    one = {"Best_Answer": "水。", "question": "喝什么？", "question_id": 2, "response": "酒", "is_hallucination": True}
    file = written(
        tmp_path / "some-13b_output_qa_prompt.json.gz", halluqa(), one, halluqa(3, "Invalid_Judge", response="")
    )
    other = written(tmp_path / "other_output.json", halluqa(1, True))
    read = read_halluqa([file, other])
    assert [(each.question_id, each.model, each.score, each.expected) for each in read.judgments] == [
        ("halluqa-1", "some-13b", 5, 5.0),
        ("halluqa-2", "some-13b", 1, 1.0),
        ("halluqa-3", "some-13b", None, None),
        ("halluqa-1", "other", 1, 1.0),
    ]
    assert {each.judge for each in read.judgments} == {"gpt-4"}
    assert read.judgments[2].error_kind == ErrorKind.NOT_IN_FILE
    assert [(answer.text, answer.finish_reason) for answer in read.answers][2] == ("", "empty")
    assert [(oddity.place, oddity.about_score) for oddity in read.oddities] == [(f"{file}, [2]", True)]
    assert [question.id for question in read.questions] == ["halluqa-1", "halluqa-2", "halluqa-3"]
    assert [question.prompt for question in read.questions][:2] == ["问题1？", "喝什么？"]


def test_several_right_answers_are_alternatives_in_the_reference(tmp_path: Path) -> None:
    one = halluqa(2, Best_Answer="水。")
    for name in ("Best_Answer1", "Best_Answer2", "Best_Answer3", "Best_Answer4"):
        del one[name]
    several, single = read_halluqa([written(tmp_path / "m.json", halluqa(), one)]).questions
    assert several.reference == "正确答案：“白开水”或者“绿茶”或者“牛奶”"
    assert single.reference == "水。"
    read = read_evouna(
        [written(tmp_path / "NQ.json", evouna("who", golden="Ann/ann /Bea"), evouna("which", golden="X"))]
    )
    assert [question.reference for question in read.questions] == ["Right answers: Ann or Bea", "X"]


def test_the_most_frequent_wording_is_kept(tmp_path: Path) -> None:
    files = [written(tmp_path / f"m{number}.json", halluqa()) for number in range(2)]
    files.insert(0, written(tmp_path / "odd.json", halluqa(question="问题一？")))
    read = read_halluqa(files)
    assert [question.prompt for question in read.questions] == ["问题1？"]
    assert len(read.answers) == 3
    assert [oddity.place for oddity in read.oddities] == ["halluqa-1"]


def test_all_problems_of_a_halluqa_file_are_named_at_once(tmp_path: Path) -> None:
    without = {name: value for name, value in halluqa(5).items() if not name.startswith("Best")}
    rows = [
        halluqa(1, "yes"),
        halluqa(2),
        halluqa(2),
        halluqa(4, question_id="x"),
        without,
        halluqa(6, response=None),
        "text",
    ]
    with pytest.raises(InputError) as error:
        read_halluqa([written(tmp_path / "m.json", *rows)])
    assert str(error.value).split("\n")[1:] == [
        "  [0]: is_hallucination is 'yes'; true, false or Invalid_Judge is expected",
        "  [2]: question_id 2 occurs twice",
        "  [3]: question_id is 'x'; a whole number is expected",
        "  [4]: no Best_Answer1 to Best_Answer4; at least one right answer is needed",
        "  [5]: response is no text",
        "  [6]: question_id is missing",
    ]
    with pytest.raises(InputError, match="name each file once"):
        read_halluqa([tmp_path / "m.json", tmp_path / "m.json"])


def test_people_s_verdicts_become_scores(tmp_path: Path) -> None:
    first = written(tmp_path / "NQ.json.gz", evouna("who"), evouna("now", None, None, improper=True))
    second = written(tmp_path / "TQ.json", evouna("which", False, answer_fid=None))
    read = read_evouna([first, second])
    assert [(score.question_id, score.model, score.score) for score in read.scores] == [
        ("evouna-nq-0", "fid", 5),
        ("evouna-nq-0", "gpt4", 1),
        ("evouna-tq-0", "fid", 1),
        ("evouna-tq-0", "gpt4", 1),
    ]
    assert {score.rater for score in read.scores} == {"evouna-annotator"}
    assert [(question.prompt, question.language) for question in read.questions] == [("who", "en"), ("which", "en")]
    assert [(answer.text, answer.finish_reason) for answer in read.answers][2] == ("", "empty")
    assert [(oddity.place, oddity.what[:27]) for oddity in read.oddities] == [
        (str(first), "1 questions are marked impr")
    ]


@pytest.mark.parametrize("nothing", [None, float("nan"), "nan"])
def test_an_answer_without_a_verdict_is_left_out(tmp_path: Path, nothing: Any) -> None:
    read = read_evouna([written(tmp_path / "NQ.json", evouna("who", nothing))])
    assert [score.model for score in read.scores] == [answer.model for answer in read.answers] == ["gpt4"]
    assert [oddity.place for oddity in read.oddities] == ["evouna-nq-0, fid"]


def test_a_question_that_two_entries_ask_is_left_out(tmp_path: Path) -> None:
    files = [written(tmp_path / f"{name}.json", evouna("who"), evouna(name)) for name in ("NQ", "TQ")]
    read = read_evouna(files)
    assert [question.prompt for question in read.questions] == ["NQ", "TQ"]
    assert {score.question_id for score in read.scores} == {"evouna-nq-1", "evouna-tq-1"}
    assert [oddity.place for oddity in read.oddities] == ["evouna-nq-0", "evouna-tq-0"]


def test_all_problems_of_an_evouna_file_are_named_at_once(tmp_path: Path) -> None:
    without = {"question": "a", "golden_answer": "b", "improper": False}
    rows = [evouna("a", "yes"), evouna(" "), without, evouna("d", answer_fid=3), {"question": "e"}]
    with pytest.raises(InputError) as error:
        read_evouna([written(tmp_path / "NQ.json", *rows)])
    assert str(error.value).split("\n")[1:] == [
        "  [0]: judge_fid is 'yes'; true, false or null is expected",
        "  [1]: question is empty or no text",
        "  [2]: no field judge_SYSTEM; at least one system's answer_SYSTEM and judge_SYSTEM are needed",
        "  [3]: answer_fid is no text",
        "  [4]: improper is missing",
    ]
