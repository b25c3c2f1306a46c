"""The table of the built-in judge: what is measured, what is kept, and what stays as it is."""

import json
from itertools import count
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import reader_rows
import study
from reader_judge import Made


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A table with two measures, each of which counts how often it was taken."""
    numbers = {name: count(1) for name in ("one", "two things")}

    def measure(name: str) -> reader_rows.Measure:
        return lambda made, data: {f"row of {name}": {"taken": next(numbers[name])}}

    monkeypatch.setattr(study, "RESULTS", tmp_path)
    monkeypatch.setattr(reader_rows, "MEASURES", {name: measure(name) for name in numbers})
    (tmp_path / "judge").mkdir()
    (tmp_path / "judge" / "reader.safetensors").write_bytes(b"weights")
    return tmp_path / "built-in.json"


def recorded(table: Path, *names: str) -> dict[str, Any]:
    folder = table.parent
    made = cast(Made, SimpleNamespace(material=SimpleNamespace(work=folder), folder=folder / "judge"))
    reader_rows.record_rows(made, folder, names)
    return {name: row["taken"] for name, row in json.loads(table.read_text()).items()}


def test_an_interrupted_run_goes_on_behind_what_it_measured(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = reader_rows.MEASURES["two things"]
    monkeypatch.setitem(reader_rows.MEASURES, "two things", lambda made, data: {}["interrupted"])
    with pytest.raises(KeyError):
        recorded(table)
    monkeypatch.setitem(reader_rows.MEASURES, "two things", whole)
    assert recorded(table) == {"row of one": 1, "row of two things": 1}


def test_a_measure_that_is_named_is_taken_again_and_the_other_rows_stay(table: Path) -> None:
    recorded(table)
    assert recorded(table, "two things") == {"row of one": 1, "row of two things": 2}
    assert recorded(table) == {"row of one": 1, "row of two things": 2}


def test_another_judge_is_measured_anew(table: Path) -> None:
    recorded(table)
    (table.parent / "judge" / "reader.safetensors").write_bytes(b"other weights")
    assert recorded(table) == {"row of one": 2, "row of two things": 2}


def test_a_row_keeps_the_date_and_machine_of_its_measure(table: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded(table, "two things")
    before = json.loads(table.read_text())["row of two things"]
    assert before["command"] == 'python eval/built_in.py DATA WORK "two things"'
    assert {"date", "machine", "versions"} < before.keys()
    monkeypatch.setattr(reader_rows, "circumstances", lambda: {"date": "another day"})
    recorded(table)
    rows = json.loads(table.read_text())
    assert rows["row of two things"] == before
    assert rows["row of one"]["date"] == "another day"
