"""The table of the built-in judge: what is measured, what is kept, and what stays as it is."""

import json
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import reader_rows
import study

Measures = dict[str, Callable[[], dict[str, Any]]]


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table, in a folder with a judge."""
    monkeypatch.setattr(study, "RESULTS", tmp_path)
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "reader.safetensors").write_bytes(b"weights")
    return tmp_path / "built-in.json"


@pytest.fixture
def measures() -> Measures:
    """Two measures, each of which counts how often it was taken."""
    numbers = {name: count(1) for name in ("one", "two things")}
    return {name: lambda name=name: {f"row of {name}": {"taken": next(numbers[name])}} for name in numbers}


def recorded(table: Path, measures: Measures, *names: str) -> dict[str, Any]:
    chosen = {name: measures[name] for name in names or measures}
    reader_rows.record_rows(chosen, table.parent / "judge", table.parent, again=bool(names))
    return {name: row["taken"] for name, row in json.loads(table.read_text()).items()}


def test_an_interrupted_run_goes_on_behind_what_it_measured(table: Path, measures: Measures) -> None:
    with pytest.raises(KeyError):
        recorded(table, measures | {"two things": lambda: {}["interrupted"]})
    assert recorded(table, measures) == {"row of one": 1, "row of two things": 1}


def test_a_measure_that_is_named_is_taken_again_and_the_other_rows_stay(table: Path, measures: Measures) -> None:
    recorded(table, measures)
    assert recorded(table, measures, "two things") == {"row of one": 1, "row of two things": 2}
    assert recorded(table, measures) == {"row of one": 1, "row of two things": 2}


def test_another_judge_is_measured_anew(table: Path, measures: Measures) -> None:
    recorded(table, measures)
    (table.parent / "judge" / "reader.safetensors").write_bytes(b"other weights")
    assert recorded(table, measures) == {"row of one": 2, "row of two things": 2}


def test_a_judge_with_other_rules_is_measured_anew(
    table: Path, measures: Measures, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = table.parent / "medjudge" / "judge" / "rule.py"
    rule.parent.mkdir(parents=True)
    rule.write_text("LEAST = 1")
    monkeypatch.setattr(reader_rows, "REPOSITORY", table.parent)
    recorded(table, measures)
    assert recorded(table, measures) == {"row of one": 1, "row of two things": 1}
    rule.write_text("LEAST = 2")
    assert recorded(table, measures) == {"row of one": 2, "row of two things": 2}


def test_a_row_keeps_the_date_and_machine_of_its_measure(
    table: Path, measures: Measures, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded(table, measures, "two things")
    before = json.loads(table.read_text())["row of two things"]
    assert before["command"] == 'python eval/built_in.py DATA WORK "two things"'
    assert {"date", "machine", "versions"} < before.keys()
    monkeypatch.setattr(reader_rows, "circumstances", lambda: {"date": "another day"})
    recorded(table, measures)
    rows = json.loads(table.read_text())
    assert rows["row of two things"] == before
    assert rows["row of one"]["date"] == "another day"
