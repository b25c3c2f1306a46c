"""Hostile files: every reader reads one or refuses it in one line, with exit status 2, and leaves nothing behind."""

import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eval.robustness.hostile_inputs import hostile_files
from eval.robustness.hostile_readers import READERS, Outcome, Reader, outcome
from medjudge.errors import InputError
from medjudge.files import json_lines, read_json, read_yaml
from medjudge.store import Run

NAMES = ("answers", "training lines", "data check", "LLMEval-Med", "prices", "gate", "scheme.yaml", "scheme.json")
SOME = [reader for reader in READERS if reader.name in (*NAMES, "run.json", "MEDIQA", "long table")]
_DEEP = 100_000


def _huge(path: Path) -> None:
    path.touch()
    os.truncate(path, 3 << 30)  # sparse: it takes no space


SHAPES: dict[str, Callable[[Path], object]] = {
    "a pipe that nobody writes to": os.mkfifo,
    "a device without an end": lambda path: path.symlink_to("/dev/zero"),
    "3 GiB": _huge,
    "a folder": Path.mkdir,
    "deep lists": lambda path: path.write_text("[" * _DEEP),
    "deep objects": lambda path: path.write_text('{"a":' * _DEEP),
    "a lone surrogate": lambda path: path.write_text(
        '{"id": "\\udcff", "model": "m", "text": "x", "question_id": "q"}'
    ),
    "a number of 5,000 digits": lambda path: path.write_text('{"round": ' + "7" * 5000 + "}"),
    "not UTF-8": lambda path: path.write_bytes(b'{"id": "\xff"}'),
    "zero bytes": lambda path: path.write_bytes(bytes(500)),
    "a text instead of an object": lambda path: path.write_text('"text"'),
    "a number instead of an object": lambda path: path.write_text("0"),
}
"""Things that a file may be instead of what a command expects, by name."""


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reader", SOME, ids=lambda reader: reader.name)
def test_every_reader_refuses_it_in_one_line_that_names_it(tmp_path: Path, shape: str, reader: Reader) -> None:
    path = tmp_path / reader.file
    SHAPES[shape](path)
    with pytest.raises(InputError) as caught:
        reader.read(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "manifest",
    [
        *([], 0, {"judges": 5}, {"models": {"m": 3}}, {"notes": "x"}, {"judge": ["j"]}),
        *({"judges": {"j": entry}} for entry in ({"kind": 1}, {"seconds": "x"}, {"seen_question_ids": 3})),
        *({"judges": {"j": {"cascade": cascade}}} for cascade in ("x", {"stages": [{}]})),
        *({"benchmark": {}}, {"benchmark": {"source": 5}}, {"spending": {"usd": "much"}}),
    ],
)
def test_an_odd_manifest_is_named(tmp_path: Path, manifest: object) -> None:
    run = Run(tmp_path)
    run.manifest_file.write_text(json.dumps(manifest))
    with pytest.raises(InputError, match=r"run\.json: .*; remove it or choose another --run"):
        run.manifest()


def test_a_line_longer_than_the_limit_is_refused_without_reading_on(tmp_path: Path) -> None:
    path = tmp_path / "answers.jsonl"
    path.write_bytes(b"{}\n" + b" " * (17 << 20))
    lines = json_lines(path)
    assert next(lines) == (1, {})
    with pytest.raises(InputError, match=r"line 2: longer than 16 MiB"):
        next(lines)


def test_a_byte_order_mark_is_accepted(tmp_path: Path) -> None:
    bom = b"\xef\xbb\xbf"
    (tmp_path / "x.json").write_bytes(bom + b'{"a": 1}')
    (tmp_path / "x.jsonl").write_bytes(bom + b'{"a": 1}\n{"a": 2}\n')
    (tmp_path / "x.yaml").write_bytes(bom + b"a: 1\n")
    assert read_json(tmp_path / "x.json") == read_yaml(tmp_path / "x.yaml") == {"a": 1}
    assert list(json_lines(tmp_path / "x.jsonl")) == [(1, {"a": 1}), (2, {"a": 2})]


few = settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
OF_REPLIES = [reader for reader in READERS if reader.kind == "reply"]
OF_FILES = [pytest.param(reader, marks=pytest.mark.slow) for reader in READERS if reader.kind != "reply"]


@pytest.mark.parametrize("reader", [*OF_REPLIES, *OF_FILES], ids=lambda reader: reader.name)
def test_a_file_or_reply_is_read_or_refused(reader: Reader) -> None:
    for valid in reader.valid:
        assert outcome(reader, valid) == Outcome(read=True)

    @few
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        assert outcome(reader, data.draw(hostile_files(reader))).problem is None

    holds()
