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
    return tmp_path / "built-in.json"


def recorded(table: Path, *names: str) -> dict[str, Any]:
    made = cast(Made, SimpleNamespace(material=SimpleNamespace(work=table.parent)))
    reader_rows.record_rows(made, table.parent, names)
    return {name: row["taken"] for name, row in json.loads(table.read_text()).items()}


def test_an_interrupted_run_does_not_measure_again_what_work_keeps(table: Path) -> None:
    assert recorded(table) == {"row of one": 1, "row of two things": 1}
    assert recorded(table) == {"row of one": 1, "row of two things": 1}


def test_a_measure_that_is_named_is_taken_again_and_the_other_rows_stay(table: Path) -> None:
    recorded(table)
    assert recorded(table, "two things") == {"row of one": 1, "row of two things": 2}
    assert recorded(table) == {"row of one": 1, "row of two things": 2}


def test_a_row_says_by_which_command_and_on_which_machine_it_was_measured(table: Path) -> None:
    recorded(table, "two things")
    row = json.loads(table.read_text())["row of two things"]
    assert row["command"] == 'python eval/built_in.py DATA WORK "two things"'
    assert {"date", "machine", "versions"} < row.keys()
