from functools import partial
from pathlib import Path
from typing import Any

import pytest
from published_rows import llmeval2 as entry
from published_rows import llmeval2_files

from medjudge.benchmark.llmeval2 import RATER, read_llmeval2
from medjudge.benchmark.published import TEACHER
from medjudge.errors import InputError
from medjudge.records import ErrorKind


@pytest.fixture
def files(tmp_path: Path):
    return partial(llmeval2_files, tmp_path)


@pytest.mark.parametrize(
    ("kind", "stars", "level"),
    [
        ("A", {}, 5),
        ("A", {"Explanation_Correctness": 1}, 4),
        ("A", {"Correctness": 2}, 3),
        ("A", {"Correctness": 1}, 2),
        ("A", {"Correctness": 1, "Explanation_Correctness": 1}, 1),
        ("B", {}, 5),
        ("B", {"Fluency": 1}, 5),
        ("B", {"Logicality": 2}, 4),
        ("B", {"Accuracy": 4}, 3),
        ("B", {"Accuracy": 3, "Informativeness": 1}, 3),
        ("B", {"Accuracy": 2}, 2),
        ("B", {"Accuracy": 1, "Informativeness": 2}, 1),
    ],
)
def test_full_marks_are_usable_and_nothing_else(files, kind: str, stars: dict[str, int], level: int) -> None:
    read = read_llmeval2(*files([entry(kind=kind, **stars)]))
    assert [score.score for score in read.scores] == [level]
    assert [judgment.score for judgment in read.judgments] == [level]
    assert (read.scores[0].rater, read.judgments[0].judge) == (RATER, TEACHER)


def test_a_score_of_zero_is_none_and_is_counted(files) -> None:
    people = [entry(1, Correctness=0), entry(2)]
    read = read_llmeval2(*files(people, [entry(1), entry(2, Correctness=0)]))
    assert [score.question_id for score in read.scores] == ["Optics_2"]
    assert [judgment.score for judgment in read.judgments] == [5, None]
    assert read.judgments[1].error_kind == ErrorKind.NOT_IN_FILE
    assert [oddity.what for oddity in read.oddities].count("a score of 0, which is none") == 2


def test_subjects_become_categories(files, tmp_path: Path) -> None:
    files([entry()])
    files([{**entry(), "question_uuid": "New_1"}], subject="New_Subject")
    read = read_llmeval2(tmp_path / "human", tmp_path / "gpt")
    assert read.scheme.category_ids == ("New_Subject", "Optics")
    assert [question.category for question in read.questions] == ["New_Subject", "Optics"]
    assert read.scheme.category("Optics").title_in("zh") == "光学"
    assert "光学" in read.scheme.rubrics["Optics.zh"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"type": "C"}, r"\[0\]: type: 'A' or 'B' is expected \(found \"C\"\)"),
        (
            {"stars": {"Correctness": 3}},
            r"\[0\]: stars of type A need exactly Correctness \(1 to 3\), Explanation Corr",
        ),
        ({"stars": {"Correctness": 4, "Explanation Correctness": 1}}, "stars of type A need exactly"),
        ({"dialog": [{"role": "user", "content": "x"}]}, "dialog needs two turns"),
        ({"hint": None, "llm_name": ""}, "model"),
    ],
)
def test_a_bad_entry_is_named(files, change: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        read_llmeval2(*files([{**entry(), **change}]))


def test_both_files_score_the_same_answers(files, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"gpt.Optics_data.json: no score of m's answer to Optics_2"):
        read_llmeval2(*files([entry(1), entry(2)], [entry(1)]))
    with pytest.raises(InputError, match=r"human.Optics_data.json: no score of m's answer to Optics_2"):
        read_llmeval2(*files([entry(1)], [entry(1), entry(2)]))
    with pytest.raises(InputError, match="has another text than before"):
        read_llmeval2(*files([entry(text="甲")], [entry(text="乙")]))
    with pytest.raises(InputError, match="a second time"):
        read_llmeval2(*files([entry(), entry()]))
    (tmp_path / "gpt" / "Law_data.json").write_text("[]")
    with pytest.raises(InputError, match=r"human: no Law_data.json"):
        read_llmeval2(tmp_path / "human", tmp_path / "gpt")
    with pytest.raises(InputError, match="two files of one subject, or two folders"):
        read_llmeval2(tmp_path / "human", tmp_path / "gpt" / "Law_data.json")
