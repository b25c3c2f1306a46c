import os
from pathlib import Path

import pytest
from calls import dead_pid
from pydantic import BaseModel, Field, ValidationError

from medjudge.errors import InputError
from medjudge.files import first_problem, model_from_json, read_json, read_text, write_whole


class _Inner(BaseModel):
    level: int = Field(ge=1, le=5)
    name: str


class _Outer(BaseModel):
    inner: list[_Inner]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ([{"level": 7, "name": "x"}], "level: Input should be less than or equal to 5 (found 7)"),
        ([{"level": 1}], "name: Field required"),
        (
            [{"level": "x" * 90, "name": ""}, {"level": 0, "name": ""}],
            "level: Input should be a valid integer, unable to parse string as an integer "
            f'(found "{"x" * 56}...); and 1 more problem',
        ),
        (
            [{"level": 0, "name": ""}] * 3,
            "level: Input should be greater than or equal to 1 (found 0); and 2 more problems",
        ),
    ],
)
def test_the_first_problem_names_field_reason_and_value(value: list, message: str) -> None:
    with pytest.raises(ValidationError) as caught:
        _Outer.model_validate({"inner": value})
    assert first_problem(caught.value) == f"inner.0.{message}"


def test_what_is_not_json_is_explained_without_the_whole_text() -> None:
    with pytest.raises(ValidationError) as caught:
        _Outer.model_validate_json("{" + "x" * 1000)
    assert first_problem(caught.value).startswith("Invalid JSON: ")
    assert "xxxx" not in first_problem(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"a": 1', "Expecting ',' delimiter"),
        ('{"a": 1, "a": 2}', "'a' occurs twice in one object"),
        ('["\\ud800"]', "surrogate"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_broken_document_names_the_file_and_the_fix(tmp_path, text: str, reason: str) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(InputError, match=reason) as caught:
        read_json(path, "restore it")
    assert str(caught.value).startswith(f"{path}: not valid JSON (")
    assert str(caught.value).endswith("; restore it")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"inner": [], "inner": []}', "not valid JSON ('inner' occurs twice in one object)"),
        ('{"inner": [], "other": 1e999}', "not valid JSON (1e999 is too large; every number must be finite)"),
        (
            '{"inner": [], "other": NaN}',
            "not valid JSON (NaN is not a JSON value; write null where a value is missing)",
        ),
        ('{"inner": 3}', "inner: Input should be a valid array (found 3)"),
    ],
)
def test_a_record_is_read_as_strictly_as_any_json(text: str, reason: str) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011, the reason is compared below
        model_from_json(_Outer, text)
    assert first_problem(caught.value) == reason


def test_a_write_removes_what_killed_processes_left_of_theirs(tmp_path: Path) -> None:
    file = tmp_path / "report [1].html"
    dead = tmp_path / f"{file.name}.{dead_pid()}.part"
    dead.write_text("half")
    others = [tmp_path / f"{file.name}.{os.getppid()}.part", tmp_path / "report 1.html.1.part", tmp_path / "own.part"]
    for other in others:
        other.write_text("of a living process, of another file, or of the user")
    write_whole(file, "whole")
    assert not dead.exists()
    assert all(other.exists() for other in others)
    assert file.read_text() == "whole"


def test_a_file_that_may_not_be_read_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> int:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "open", refuse)  # root may read everything
    with pytest.raises(InputError, match=r"answers\.jsonl: permission denied; check the path"):
        read_text(tmp_path / "answers.jsonl")
