import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
from scoring_run import MODELS, build_run, planned

from medjudge.annotate.cells import DIMENSIONS
from medjudge.annotate.label_studio import write_label_studio
from medjudge.annotate.scores import read_physician_scores
from medjudge.annotate.tasks import LEVELS
from medjudge.errors import InputError
from medjudge.records import PhysicianScore

DATA = {"question_id": "q1", "model": "m", "sample": 1, "prompt": "How much?"}


@pytest.fixture
def export(tmp_path: Path) -> Callable[[Any], Path]:
    def write(content: Any) -> Path:
        path = tmp_path / "project-3.json"
        path.write_text(json.dumps(content, ensure_ascii=False), encoding="utf-8")
        return path

    return write


def result(name: str, kind: str, value: Any) -> dict[str, Any]:
    """One result, as Label Studio writes it."""
    field = "text" if kind == "textarea" else kind
    return {"id": "x", "from_name": name, "to_name": "answer", "type": kind, "value": {field: value}}


def annotation(number: int, by: Any, *results: dict[str, Any], **fields: Any) -> dict[str, Any]:
    return {"id": number, "completed_by": by, "result": list(results), "was_cancelled": False, "task": 1, **fields}


def task(number: int, *annotations: dict[str, Any], **data: Any) -> dict[str, Any]:
    return {"id": number, "data": {**DATA, **data}, "annotations": list(annotations), "predictions": []}


def refused(path: Path, *arguments: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_physician_scores(path, *arguments)
    return str(caught.value)


def dimensions(*points: int) -> list[dict[str, Any]]:
    names = ("instruction_following", "correctness", "effectiveness", "readability", "safety")
    return [result(name, "number", value) for name, value in zip(names, points, strict=True)]


def test_an_export_of_tasks_with_every_kind_of_control(export) -> None:
    doctor = {"id": 9, "email": "doctor@example.org", "first_name": ""}
    relation = {"type": "relation", "from_id": "a", "to_id": "b", "direction": "right"}
    content = [
        task(
            1,
            annotation(11, 7, result("score", "rating", 4), result("comment", "textarea", ["short", "but right"])),
            annotation(12, doctor, result("score", "choices", ["2"]), result("tags", "choices", ["a", "b"]), relation),
            annotation(13, 8, result("score", "rating", 1), was_cancelled=True),
            annotation(14, {"id": 5, "email": ""}, *dimensions(5, 5, 5, 5, 0)),
            annotation(15, 6),
        ),
        task(2, annotation(16, 7, result("score", "number", 5.0)), question_id=17, sample=None),
        task(3),
    ]
    scores = read_physician_scores(export(content))
    assert [(score.question_id, score.sample, score.rater, score.level, score.comment) for score in scores] == [
        ("q1", 1, "rater-7", 4, "short\nbut right"),
        ("q1", 1, "doctor@example.org", 2, None),
        ("q1", 1, "rater-5", 1, None),
        ("17", 0, "rater-7", 5, None),
    ]
    assert scores[2].dimensions is not None


def test_the_flat_export(export) -> None:
    # Ratings and numbers stand in a list, single choices and texts bare, as the converter of Label Studio writes them.
    rest = {"created_at": "2026-01-01", "lead_time": 3.5}
    content = [
        {**DATA, "id": 1, "score": [{"rating": 4}], "comment": "fine", "annotator": 7, "annotation_id": 3, **rest},
        {**DATA, "id": 1, "score": "2", "annotator": "doctor@example.org", "annotation_id": 4, **rest},
        {**DATA, "id": 1, "score": "1", "annotator": 8, "annotation_id": 5, "was_cancelled": True},
        {**DATA, "id": 2, "question_id": "q2", "score": 5, "annotator": "7", "annotation_id": 6},
        {**DATA, "id": 3, "annotator": None, "annotation_id": None},
        {
            **{**DATA, "id": 4, "question_id": "q4", "annotator": 7, "comment": {"text": ["a", "b"]}},
            **{name: [{"number": 4}] for name in ("instruction_following", "correctness", "effectiveness")},
            **{"readability": [{"rating": 4}], "safety": "1"},
        },
    ]
    scores = read_physician_scores(export(content))
    assert [(score.question_id, score.rater, score.level, score.comment) for score in scores] == [
        ("q1", "rater-7", 4, "fine"),
        ("q1", "doctor@example.org", 2, None),
        ("q2", "rater-7", 5, None),
        ("q4", "rater-7", 4, "a\nb"),
    ]


def test_choices_with_words_need_a_label_map(export) -> None:
    path = export([task(1, annotation(2, 7, result("score", "choices", ["4 – usable"])))])
    assert "task 1, annotation 2: score is '4 – usable'; which level is it? --label-map" in refused(path, (), {})
    assert "the label map has only good" in refused(path, (), {"good": 5})
    expected = [PhysicianScore(question_id="q1", model="m", sample=1, rater="rater-7", score=4)]
    assert read_physician_scores(path, (), {"4 – Usable": 4}) == expected
    flat = export([{**DATA, "id": 1, "score": "4 – usable", "annotator": 7, "annotation_id": 2}])
    assert read_physician_scores(flat, (), {"4 – Usable": 4}) == expected


def test_problems_name_task_annotation_and_field(export) -> None:
    four = result("score", "rating", 4)
    content = [
        task(1, annotation(11, 7, four), annotation(12, 7, result("score", "rating", 5))),
        task(2, annotation(21, 7, result("score", "choices", ["4", "5"]))),
        task(3, annotation(31, 7, four, four), question_id="q3"),
        task(4, annotation(41, None, four), question_id="q4"),
        task(5, annotation(51, 7, result("score", "rating", 9)), question_id="q5"),
        task(6, annotation(61, 7, {"from_name": "score", "type": "labels", "value": {"labels": ["x"]}})),
        task(7, annotation(71, 7, *dimensions(5, 5, 5, 5, 1)[:4]), question_id="q7"),
        {"id": 8, "data": {"question_id": "q8", "text": "?"}, "annotations": [annotation(81, 7, four)]},
    ]
    summary, *lines = refused(export(content)).split("\n")
    assert summary.endswith("8 problems; nothing was read")
    for expected in (
        "task 1, annotation 12: q1 / m / 1 / rater-7 duplicates task 1, annotation 11;",
        "task 2, annotation 21: score has 2 choices (4, 5)",
        "task 3, annotation 31: score appears twice",
        "task 4, annotation 41: no annotator is named (completed_by;",
        "task 5, annotation 51: score is 9; the scale goes from 1 to 5",
        "task 6, annotation 61: score is not a rating, choice, number or text",
        "task 7, annotation 71: no safety;",
        "task 8, annotation 81: data has no model; its fields are: question_id, text",
    ):
        assert sum(expected in line for line in lines) == 1, expected


def test_the_text_of_a_marked_part_is_no_score(export) -> None:
    part = {"start": 3, "end": 4, "text": "4"}
    marked = {"from_name": "score", "type": "labels", "value": {**part, "labels": ["dose"]}}
    rated = {"from_name": "safety", "type": "rating", "value": {**part, "rating": 1}}
    drawn = {"from_name": "score", "type": "choices", "value": {"x": 1.0, "y": 2.0, "choices": ["4"]}}
    content = [task(number, annotation(number, 7, one)) for number, one in enumerate((marked, rated, drawn), 1)]
    message = refused(export(content))
    assert "task 1, annotation 1: score is about a part of the task (end, labels, start); ask for it once" in message
    assert "task 2, annotation 2: safety is about a part of the task" in message
    assert "task 3, annotation 3: score is about a part of the task (x, y)" in message
    flat = export([{**DATA, "id": 1, "score": [{**part, "labels": ["dose"]}], "annotator": 7, "annotation_id": 2}])
    assert "task 1, annotation 2: score is about a part of the task" in refused(flat)


def test_a_score_in_the_data_of_a_task_is_not_the_raters(export) -> None:
    # Somebody's earlier score was imported with the task, and this rater left the control alone.
    nested = export([task(1, annotation(11, 7, result("comment", "textarea", ["later"])), score=5, safety=1)])
    assert "has no score; a control named score is needed" in refused(nested)
    rest = {"annotator": 7, "annotation_id": 2, "lead_time": 3.5}
    flat = export([{**DATA, "score": 5, "id": 1, "comment": "later", **rest}])
    unclear = (
        "task 1, annotation 2: score may be a field of the task's data and not what the rater filled in; export as"
    )
    assert unclear in refused(flat)
    # Here the id comes first; a task that nobody worked on shows that score belongs to the data.
    ordered = [{"id": 1, **DATA, "score": 5, **rest}, {"id": 2, **DATA, "score": 4, "annotator": None}]
    assert unclear in refused(export(ordered))
    assert [score.score for score in read_physician_scores(export(ordered[:1]))] == [5]


def test_an_export_without_a_score_names_its_controls(export) -> None:
    path = export([task(1, annotation(2, 7, result("quality", "rating", 4)))])
    assert "has no score" in refused(path)
    assert refused(path).endswith("its controls are: quality")


@pytest.mark.parametrize(
    "content",
    [
        [],
        {"questions": []},
        [1, 2],
        [{"id": 1, "problem": "How much?"}],
        [task(1), {"id": 2}],
        [{"data": {}, "annotations": [7]}],
        [{"data": {}, "annotations": [{"result": "x"}]}],
    ],
)
def test_json_that_is_not_an_export_is_refused(export, content: Any) -> None:
    assert "not a Label Studio export" in refused(export(content))


def test_broken_and_missing_files(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('[{"id": 1,')
    assert "not valid JSON" in refused(tmp_path / "a.json")
    (tmp_path / "c.json").write_text(
        json.dumps([task(1, annotation(2, 7, result("score", "number", 4)), model="\ud800")])
    )
    assert "a lone surrogate" in refused(tmp_path / "c.json")
    assert "no such file" in refused(tmp_path / "b.json")


def test_a_project_shows_texts_as_text_and_names_no_model(tmp_path: Path) -> None:
    run = build_run(tmp_path / "run")
    listed = LEVELS.units(run, planned(run))["dr-a"]
    files = write_label_studio(tmp_path, "dr-a", listed)
    tasks = [task["data"] for file in files for task in json.loads(file.read_text(encoding="utf-8"))]
    assert {task["item"] for task in tasks} == {entry.item.id for entry in listed}
    content = "".join(file.read_text(encoding="utf-8") for file in tmp_path.glob("*.*"))
    assert not any(model in content for model in MODELS)
    assert "<b>Extract</b> & translate" in [task["question"] for task in tasks]
    assert any("␋␟" in task["answer"] for task in tasks)
    for kind, controls in (("", ["score"]), ("-MTG", list(DIMENSIONS))):
        view = ElementTree.parse(tmp_path / f"label-studio{kind}.xml").getroot()
        assert {text.get("value") for text in view.iter("Text")} == {f"${field}" for field in LEVELS.shown}
        assert {text.get("valueType") for text in view.iter("Text")} == {"text"}
        assert [control.get("name") for control in view.iter("Choices")] == controls
        keys = [(choice.get("value"), choice.get("hotkey")) for choice in view.iter("Choice")]
        if not kind:
            assert keys == [(level, level) for level in "12345"]
        else:
            assert len(keys) == 4 * 6 + 2
