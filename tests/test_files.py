"""Files that are read and written: a problem is one line, also where a few bytes of YAML stand for gigabytes."""

import os
from pathlib import Path

import pytest
from calls import dead_pid, refused_with
from pydantic import BaseModel, Field, ValidationError

from medjudge.errors import InputError
from medjudge.files import (
    clipped,
    first_problem,
    model_from_json,
    parse_yaml,
    read_json,
    read_text,
    read_yaml,
    write_whole,
)


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
        ('{"inner": [], "x": NaN}', "not valid JSON (NaN is not a JSON value; write null where a value is missing)"),
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


DOUBLING = "a0: &a0 [x, x]\n" + "".join(f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]\n" for n in range(1, 31))
REFUSED = {
    "a list in itself": ("benchmark: &a [*a]", "an alias in line 1; write out what it names"),
    "a mapping as its own key": ("a: &a\n  ? *a\n  : 1", "an alias in line 2"),
    "31 levels of aliases": (DOUBLING, "an alias in line 2"),
    "a merged mapping": ("a: &a {k: 1}\nb: {<<: *a}", "an alias in line 2"),
    "9,000 hexadecimal digits": ("n: 0x" + "f" * 9000, "the number in line 1 has more than 400 characters"),
    "30,000 binary digits": ("\nn: 0b" + "1" * 30_000, "the number in line 2 has more than 400 characters"),
    "a base of 60": ("n: 1" + ":1" * 3000, "the number in line 1 has more than 400 characters"),
    "a tagged number": ("n: !!int 0x" + "f" * 9000, "the number in line 1 has more than 400 characters"),
    "a boolean that is none": ("!!bool x", "not valid YAML"),
    "a time that is none": ("!!timestamp x", "not valid YAML"),
    "an empty number": ("!!int ''", "not valid YAML"),
    "an empty float": ("!!float ''", "not valid YAML"),
    "a mapping that is a list": ("!!map [[a, b]]", "not valid YAML"),
    "a Python object": ("!!python/object/apply:os.system [id]", "not valid YAML"),
    "half a character": (r'a: "\ud800"', "a text in line 1 holds a lone surrogate"),
    "a long key twice": ("x" * 5000 + ": 1\n" + "x" * 5000 + ": 2", "not valid YAML"),
    "a key twice": ("a:\n  b: 1\n  c: 2\n  b: 3\n", "'b' occurs twice in the mapping that starts in line 2"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_document_is_refused_at_once_and_in_one_line(tmp_path: Path, name: str) -> None:
    text, reason = REFUSED[name]
    path = tmp_path / "x.yaml"
    path.write_text(text)
    with pytest.raises(InputError) as caught:
        read_yaml(path)
    line = str(caught.value)
    assert line.startswith(f"{path}: not valid YAML (")
    assert reason in line
    assert "\n" not in line
    assert len(line) < 500 + len(str(path))


@pytest.mark.parametrize(
    ("text", "start"),
    [
        (REFUSED["a list in itself"][0], "not valid YAML"),
        ("benchmark: 0x" + "f" * 390, "benchmark: Input should be a valid string (found "),
        ("answers_per_rater: {2020-01-01: 1}", "answers_per_rater: Input should be a valid integer (found "),
        ("raters: [" + "[" * 50 + "]" * 50 + "]", "raters.0: Input should be a valid string (found "),
        ("judges: 5" + "5" * 300, "judges: Input should be a valid list (found "),
    ],
    ids=range(5),
)
def test_a_line_about_a_hostile_project_file_quotes_little(medjudge, tmp_path: Path, text: str, start: str) -> None:
    (tmp_path / "medjudge.yaml").write_text(text)
    done = medjudge("run")
    refused_with(done, f"medjudge.yaml: {start}")
    assert len(done.stderr) < 400


def test_any_value_can_be_quoted() -> None:
    assert clipped(10**9000) == "a value of type int"
    assert clipped({(1, 2): 3}) == "a value of type dict"
    assert len(clipped("x" * 10**7)) == 60


def test_a_character_that_json_spells_as_two_halves_is_read() -> None:
    assert parse_yaml(r'{"a": "\ud83d\ude00"}', "x.yaml") == {"a": "\U0001f600"}
