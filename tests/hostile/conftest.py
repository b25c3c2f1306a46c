"""Hostile files that several readers meet, made on the spot."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

_DEEP = 100_000


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")  # a link that the user names is followed; what it leads to is no file


def _huge(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(3 << 30)  # sparse: it takes no space


SHAPES: dict[str, Callable[[Path], object]] = {
    "a pipe that nobody writes to": _fifo,
    "a device without an end": _device,
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
"""What a file may be instead of what a command expects, by name."""


@pytest.fixture(params=SHAPES)
def hostile(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Path]:
    """Makes a file of one hostile shape under a name that decides its reader."""

    def make(name: str) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        SHAPES[request.param](path)
        return path

    return make
