"""Questions and answers as people have them: formats, defaults, matching, and all problems at once."""

import json

import pytest
from calls import refused_with, worked
from openpyxl import load_workbook
from published_rows import written

from medjudge.benchmark.files import check_file, read_benchmark
from medjudge.benchmark.own_files import read_own_answers, read_own_questions
from medjudge.errors import InputError
from medjudge.scheme import LLMEVAL_MED

ROWS = [
    {"id": "a", "category": "MK", "prompt": "How much?", "reference": "4 g", "ward": "3"},
    {"id": "b", "category": "MSE", "prompt": "一天多少?", "round": 2, "group": "g"},
]


@pytest.mark.parametrize("suffix", [".jsonl", ".json", ".csv", ".xlsx"])
def test_every_format_gives_the_same_questions_with_their_defaults(suffix, tmp_path, capsys) -> None:
    file = written(tmp_path / f"own{suffix}", *ROWS)
    first, second = read_benchmark(str(file)).questions
    assert (first.group, first.round, first.language, first.reference) == ("a", 1, "en", "4 g")
    assert (second.group, second.round, second.language, second.reference) == ("g", 2, "zh", None)
    assert (first.extra, second.extra) == ({"ward": "3"}, {})
    assert json.loads(first.model_dump_json())["extra"] == {"ward": "3"}
    assert "extra" not in json.loads(second.model_dump_json())
    assert capsys.readouterr().err == f"{file}: kept in extra, and used nowhere: ward\n"
    contents = check_file(file)
    assert (contents.kind, contents.counts["example_ids"]) == ("questions", ["a", "b"])


def test_all_problems_of_a_file_are_told_at_once_in_words(tmp_path) -> None:
    rows = [
        {"id": "a", "category": "MK", "promt": "How much?"},
        {"id": 7, "category": "MK", "prompt": "How much?"},
        {"id": "c", "category": "XX", "prompt": "How much?"},
        {"id": "d", "category": "MK", "prompt": " ", "round": 10**12},
        {"id": "e", "category": "MK", "round": "two"},
        {"id": "f", "category": "MK", "prompt": "How much?", "reference": "4 g", "Reference": "8 g"},
    ]
    file = written(tmp_path / "own.jsonl", *rows)
    with file.open("a") as text:
        text.write("{broken\n[1]\n")
    with pytest.raises(InputError) as refused:
        read_own_questions(file, LLMEVAL_MED)
    message = str(refused.value)
    for part in (
        "line 1: field 'promt' is not known, and prompt is; rename it",
        'line 2: id is 7, and a text is needed, for example "q1"',
        "line 3: category: scheme llmeval-med has 'MK'",
        "line 4: prompt is empty; for example",
        "line 4: round is 1000000000000, and a whole number from 1 to 1,000 is needed, for example 1",
        "line 5: prompt is missing; for example",
        'line 5: round is "two", and a whole number from 1 to 1,000 is needed, for example 1',
        "line 6: field 'Reference' is reference a second time; remove one of the two",
        "line 7: not valid JSON",
        "line 8: an object with named fields is expected",
    ):
        assert part in message, message
    assert "pydantic" not in message
    assert "Input should" not in message


def test_answers_are_matched_by_prompt_or_by_group_and_round(question, tmp_path) -> None:
    questions = [
        question(id="a", prompt="How much?"),
        question(id="b", prompt="Why?", group="g", round=2),
        question(id="c", prompt="Twice?"),
        question(id="d", prompt="Twice?"),
    ]
    rows = [
        {"prompt": "How much? ", "model": "m", "text": "x"},
        {"group": "g", "round": 2, "model": "m", "text": "y"},
        {"question_id": "c", "prompt": "Twice?", "model": "m", "text": "z"},
        {"question_id": "d", "model": "", "text": ""},
    ]
    answers = read_own_answers(written(tmp_path / "own.csv", *rows), questions)
    assert [answer.question_id for answer in answers] == ["a", "b", "c"]
    rows = [{"prompt": text, "model": "m", "text": "x"} for text in ("Twice?", "Never?")]
    with pytest.raises(InputError, match="row 2: its prompt is that of no question, or of several; give the question"):
        read_own_answers(written(tmp_path / "own.csv", *rows), questions)


@pytest.mark.parametrize("format", ["jsonl", "csv", "xlsx"])
def test_a_template_that_was_filled_in_is_read_as_answers(format, medjudge, jsonl, tmp_path) -> None:
    prompts = ["=How much?", "-Why?", "一天多少?"]
    base = {"category": "MK", "language": "en", "reference": "4 g"}
    lines = [{**base, "id": f"q{number}", "prompt": prompt} for number, prompt in enumerate(prompts)]
    questions = jsonl("questions.jsonl", *lines)
    out = tmp_path / f"answers.{format}"
    done = worked(medjudge("data", "template", questions, "--format", format, "--out", out))
    assert "3 questions" in done.stdout
    known = read_benchmark(str(questions)).questions
    assert read_own_answers(out, known) == []
    if format == "xlsx":
        book = load_workbook(out)
        assert (book.active["B2"].value, book.active["B2"].data_type) == ("=How much?", "s")
        book.active["C2"], book.active["D2"] = "m", "4 g"
        book.save(out)
    else:
        text = out.read_text(encoding="utf-8")
        filled = text.replace('"model": "", "text": ""', '"model": "m", "text": "4 g"', 1)
        out.write_text(filled.replace("?,,", "?,m,4 g", 1), encoding="utf-8")
    (answer,) = read_own_answers(out, known)
    assert (answer.question_id, answer.model, answer.text) == ("q0", "m", "4 g")
    refused_with(medjudge("data", "template", questions, "--format", "xlsx"), "needs --out FILE")  # not to stdout


def test_every_problem_of_items_is_told_with_its_place(medjudge, tmp_path) -> None:
    def row(name: str, *items: object) -> dict:
        return {"id": name, "category": "MK", "prompt": "How much?", "items": list(items)}

    good = {"text": "Names the limit", "points": -2, "safety_cap": 2}
    rows = [
        row("a", good, {"text": "Names 4 g"}),
        row("b", {"text": "Names 4 g", "points": 5, "safety_cap": 6}, {"text": " ", "points": "5"}),
        row("c", {"text": "Names 4 g", "points": -5, "must_have": True}, "Names 4 g"),
        row("d", good, good),
        row("e", {"text": "Names 4 g", "points": 5, "weight": 2, "importance": "main"}),
        {**row("f"), "items": "Names 4 g"},
        row("g", {"text": "Names 4 g", "points": 5, "must_have": True, "importance": "secondary"}),
    ]
    file = written(tmp_path / "own.jsonl", *rows)
    refused_with(
        medjudge("data", "check", file),
        "line 1: items, entry 2: points is missing; for example 5",
        "line 2: items, entry 1: safety_cap is 6, and a level from 1 to 5 is needed",
        "line 2: items, entry 2: text is empty; for example",
        'line 2: items, entry 2: points is "5", and a number, negative for what an answer must not say, is needed',
        "line 3: items, entry 1: must_have is true and points are not positive",
        'line 3: items, entry 2 is "Names 4 g", and an object is needed',
        "line 4: items: 'Names the limit' occurs twice; remove one of the two",
        "line 5: items, entry 1: field 'weight' is not known; the fields are text, points, must_have, safety_cap",
        'line 5: items, entry 1: importance is "main", and core or secondary is needed',
        'line 6: items is "Names 4 g", and a list of objects with text and points is needed',
        "line 7: items, entry 1: must_have is true and importance is secondary; a must-have is core",
    )


def test_items_are_written_as_they_were_read_and_counted(medjudge, tmp_path) -> None:
    items = [{"text": "Names 4 g", "points": 5, "theme": "dose"}, {"text": "Says 40 g", "points": -8, "safety_cap": 1}]
    file = written(tmp_path / "own.jsonl", *[{**ROWS[0], "items": items}, {**ROWS[1], "checklist": "1. One\n2. Two"}])
    first, second = read_own_questions(file, LLMEVAL_MED)
    assert [item.safety_cap for item in first.items] == [None, 1]
    again = written(tmp_path / "own.json", json.loads(first.model_dump_json()))
    assert read_own_questions(again, LLMEVAL_MED) == [first]
    assert "items" not in json.loads(second.model_dump_json())
    done = medjudge("data", "check", file)
    assert "items: 4" in done.stdout
    assert "checklists split into items: 1 of 1" in done.stdout
