"""The evaluation of DISC-MedLLM, from small files of its layout."""

from pathlib import Path

import pytest
from files_of_rows import written
from published_rows import TURNS, consultation

from medjudge.benchmark.json_sets import read_disc_medllm
from medjudge.errors import InputError
from medjudge.scheme import open_scheme


def test_the_patient_s_first_message_is_the_question_and_the_rest_the_answer(tmp_path: Path) -> None:
    files = [
        written(tmp_path / "a.jsonl.gz", consultation()),
        written(tmp_path / "b.jsonl", consultation("n", 5), consultation(id=3, source="CMID")),
    ]
    read = read_disc_medllm(files)
    assert [(question.id, question.prompt) for question in read.questions] == [
        ("cmd-0-7", "我头疼\n三天了。"),
        ("cmid-3", "我头疼\n三天了。"),
    ]
    assert read.answers[0].text == "医生：发烧吗？\n\n1. 体温多少？\n\n患者：不发烧。\n\n医生：请休息。"
    assert [(each.question_id, each.model, each.score) for each in read.judgments] == [
        ("cmd-0-7", "m", 4),
        ("cmd-0-7", "n", 5),
        ("cmid-3", "m", 4),
    ]
    assert read.judgments[0].judge == "gpt-4"
    assert "Helpfulness: 3" in (read.judgments[0].raw or "")
    assert not read.oddities
    scheme = open_scheme("consultations")
    assert all(scheme.problem_with(each.category, each.language) is None for each in read.questions)


def test_a_score_between_two_levels_reaches_the_lower_one(tmp_path: Path) -> None:
    read = read_disc_medllm([written(tmp_path / "a.jsonl", consultation(accuracy=4.5))])
    assert [(each.score, each.expected) for each in read.judgments] == [(4, 4.5)]
    assert [oddity.what for oddity in read.oddities] == ["Accuracy is 4.5; read as level 4"]


def test_all_problems_of_a_file_are_named_at_once(tmp_path: Path) -> None:
    rows = [
        consultation(accuracy=6),
        consultation(turns="doctor: 请休息。\n"),
        consultation(turns="patient: 我头疼\ndoctor:\n"),
        consultation(prompt="no conversation"),
        consultation("other"),
        consultation("other"),
        consultation("third", turns=TURNS.replace("头疼", "腿疼")),
        [],
    ]
    with pytest.raises(InputError) as error:
        read_disc_medllm([written(tmp_path / "a.jsonl", *rows)])
    problems = str(error.value).split("\n")[1:]
    assert [problem.split(":")[0].strip() for problem in problems] == [
        f"line {number}" for number in (1, 2, 3, 4, 6, 7, 8)
    ]
    assert "no line 'Accuracy: N' with N from 1 to 5" in problems[0]
    assert all("a conversation is expected between" in problem for problem in problems[1:4])
    assert "other and this id occur a second time" in problems[4]
    assert "the patient begins in other words" in problems[5]
    assert "source is missing" in problems[6]
    (tmp_path / "b.jsonl").write_text("{")
    with pytest.raises(InputError, match="line 1: Expecting"):
        read_disc_medllm([tmp_path / "b.jsonl"])
