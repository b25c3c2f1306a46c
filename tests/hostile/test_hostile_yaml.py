"""YAML in which a few bytes stand for hours, gigabytes or an exception of Python's."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medjudge.errors import InputError
from medjudge.files import clipped, parse_yaml, read_yaml

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
def test_a_hostile_project_file_ends_a_command_with_a_line_that_quotes_little_of_it(
    medjudge: Callable[..., Any], tmp_path: Path, text: str, start: str
) -> None:
    (tmp_path / "medjudge.yaml").write_text(text)
    done = medjudge("run")
    assert done.returncode == 2
    assert f"medjudge.yaml: {start}" in done.stderr
    assert "Traceback" not in done.stderr
    assert len(done.stderr) < 400


def test_any_value_can_be_quoted() -> None:
    assert clipped(10**9000) == "a value of type int"
    assert clipped({(1, 2): 3}) == "a value of type dict"
    assert len(clipped("x" * 10**7)) == 60


def test_a_character_that_json_spells_as_two_halves_is_read() -> None:
    assert parse_yaml(r'{"a": "\ud83d\ude00"}', "x.yaml") == {"a": "\U0001f600"}
