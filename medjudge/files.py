"""Reads and writes text and JSON files: errors name the place, and a replaced file is the old one or the new one."""

import json
import os
import sys
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from medjudge.errors import InputError

_LONGEST_VALUE = 60
"""Characters of a wrong value in a message."""


def read_text(path: Path) -> str:
    """Reads a UTF-8 file.

    Raises:
        InputError: The file cannot be read, or is not UTF-8.
    """
    try:
        return _decoded(path, path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None


def read_json(path: Path, fix: str = "", surrogates: bool = False) -> Any:
    """Reads a JSON document. NaN and infinity are accepted, as Python's json module writes them.

    Args:
        fix: What the user can do about a broken file; ends the message.
        surrogates: Whether a text may hold a lone surrogate, which can be read but never written.

    Raises:
        InputError: The file cannot be read, or is not JSON.
    """
    text = read_text(path)
    try:
        return _parsed(text, surrogates=surrogates)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not valid JSON ({error}){f'; {fix}' if fix else ''}") from None


def json_lines(path: Path, growing: bool = False) -> Iterator[tuple[int, Any]]:
    """Yields the values of a JSON-lines file with their line numbers, from 1; empty lines are skipped.

    Args:
        growing: Another process may be writing the last line: it is left out if it is incomplete.

    Raises:
        InputError: The file cannot be read, or a line is not JSON. The message names the file and the line.
    """
    text = _complete_lines(path) if growing else read_text(path)
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = _parsed(line, constants=False)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}, line {number}: not valid JSON ({error}); each line must be one JSON object"
            ) from None
        yield number, fields


def first_problem(error: ValidationError) -> str:
    """Explains the first problem that pydantic found: the field, what is wrong, and the value."""
    problems = error.errors()
    first = problems[0]
    field = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    value = (
        "" if first["type"] in ("missing", "value_error", "json_invalid") else f" (found {_clipped(first['input'])})"
    )
    count = len(problems) - 1
    more = f"; and {count} more problem{'s' if count > 1 else ''}" if count else ""
    return f"{field}: {message}{value}{more}" if field else f"{message}{value}{more}"


def complete_bytes(data: bytes) -> int:
    """How many bytes of a JSON-lines file are complete lines. The last line may lack its newline."""
    start = data.rfind(b"\n") + 1
    try:
        json.loads(data[start:] or b"{}")
    except ValueError:
        return start
    return len(data)


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON document, all of it or nothing."""
    write_whole(path, json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Writes a temporary file and renames it, so that a crash leaves the old file or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # The process id, because two processes may write the same file at the same time, such as `report` and `eval`.
    temporary = path.with_name(f"{path.name}.{os.getpid()}.part")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # otherwise a power cut could leave the new name with nothing in it
    os.replace(temporary, path)


def file_sha256(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _decoded(path: Path, data: bytes) -> str:
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _complete_lines(path: Path) -> str:
    """The text of a file that another process may be appending to, without an incomplete last line."""
    data = path.read_bytes()
    end = complete_bytes(data)
    if end < len(data):
        print(f"{path}: the last line is incomplete ({len(data) - end} bytes) and is ignored", file=sys.stderr)
    return _decoded(path, data[:end])


def _parsed(text: str, constants: bool = True, surrogates: bool = False) -> Any:
    """`json.loads` that refuses a name which occurs twice in one object, and what the two flags do not allow."""
    parse_constant = None if constants else _refuse_constant
    value = json.loads(text, parse_constant=parse_constant, object_pairs_hook=_refuse_duplicates)
    if not surrogates:
        json.dumps(value, ensure_ascii=False).encode()
    return value


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"'{next(name for name in names if names.count(name) > 1)}' occurs twice in one object")
    return fields


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value; write null where a value is missing")


def _clipped(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
