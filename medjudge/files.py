"""Reads and writes text, JSON and YAML: errors name the place, and a replaced file is the old one or the new one.

Readers take regular files up to a stated size. Pipes, devices and sockets are refused: reading them may never end.
"""

import errno
import json
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from glob import escape
from hashlib import sha256
from itertools import count
from math import isfinite
from pathlib import Path
from typing import IO, Any, TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from medjudge.errors import InputError, notify, printable
from medjudge.yaml_loader import BoundedLoader

LARGEST_DOCUMENT = 256 << 20
"""Bytes of a file that is read as a whole: 256 MiB."""

LARGEST_RECORD_FILE = 1 << 30
"""Bytes of a JSON-lines file: 1 GiB."""

LONGEST_LINE = 16 << 20
"""Bytes of one line of a JSON-lines file: 16 MiB."""

_LONGEST_VALUE = 60
"""Characters of a wrong value in a message."""
_LONGEST_PROBLEM = 400
"""Characters of a message about a value."""

_BOM = b"\xef\xbb\xbf"
_NO_LINK = getattr(os, "O_NOFOLLOW", 0)  # neither flag exists on Windows
_NO_WAITING = getattr(os, "O_NONBLOCK", 0)  # a pipe that nobody writes to would block for ever
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_Model = TypeVar("_Model", bound=BaseModel)


def read_bytes(path: Path, largest: int = LARGEST_DOCUMENT) -> bytes:
    """Reads a whole file.

    Args:
        largest: The most bytes that it may have.

    Raises:
        InputError: The file cannot be read, is not a regular file, or is larger.
    """
    with _reading(path, largest) as file:
        return file.read()


def read_text(path: Path) -> str:
    """Reads a UTF-8 file; a byte order mark at its start is left out.

    Raises:
        InputError: The file cannot be read, is too large, or is not UTF-8.
    """
    return decoded(path, read_bytes(path))


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
        return parse_json(text, surrogates=surrogates)
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}){f'; {fix}' if fix else ''}") from None


def model_from_json(model: type[_Model], text: str) -> _Model:
    """Reads a record from a JSON text as strictly as `parse_json`: pydantic takes the last of two values of one name.

    Raises:
        ValueError: The text is not such JSON, or not such a record; `first_problem` explains it.
    """
    parse_json(text, constants=False)
    return model.model_validate_json(text)


def read_yaml(path: Path) -> Any:
    """Reads a YAML document; a key that occurs twice in one mapping is refused.

    Raises:
        InputError: The file cannot be read, or is not YAML.
    """
    return parse_yaml(read_text(path), path)


def parse_yaml(text: str, place: Path | str) -> Any:
    """Reads YAML from a text.

    Args:
        place: Where the text comes from; starts the message.

    Raises:
        InputError: The text is not YAML, a key occurs twice in one mapping, there is an alias, or a number is
            too long.
    """
    try:
        return yaml.load(text, Loader=BoundedLoader)
    # PyYAML raises these besides its own where a tag does not fit its value, such as `!!bool x` or `!!timestamp x`.
    except (yaml.YAMLError, ValueError, TypeError, AttributeError, LookupError, OverflowError, RecursionError) as error:
        raise InputError(f"{place}: not valid YAML ({' '.join(str(error).split())[:160]})") from None


def json_lines(
    path: Path, growing: bool = False, on_error: Callable[[int, str], None] | None = None
) -> Iterator[tuple[int, Any]]:
    """Yields the values of a JSON-lines file with their line numbers, from 1; empty lines are skipped.

    Args:
        growing: Another process may be writing the last line: it is left out if it is incomplete.
        on_error: Is given the number of a line that is not JSON, and what is wrong with it; the line is left out.

    Raises:
        InputError: The file cannot be read, is too large, or a line is not JSON. The message names the file and the
            line.
    """
    with _reading(path, LARGEST_RECORD_FILE) as file:
        start = 0
        for number in count(1):
            data = file.readline(LONGEST_LINE + 1)
            if not data:
                return
            if len(data) > LONGEST_LINE:
                raise InputError(f"{path}, line {number}: longer than {LONGEST_LINE >> 20} MiB, the limit for one line")
            if growing and not data.endswith(b"\n") and not is_complete(data):
                notify(f"{path}: the last line is incomplete ({len(data)} bytes) and is ignored")
                return
            line = decoded(path, data, start)
            start += len(data)
            if not line.strip():
                continue
            try:
                fields = parse_json(line, constants=False)
            except ValueError as error:
                what = f"not valid JSON ({error}); each line must be one JSON object"
                if on_error is None:
                    raise InputError(f"{path}, line {number}: {what}") from None
                on_error(number, what)
                continue
            yield number, fields


def first_problem(error: ValueError) -> str:
    """Explains why a record cannot be read: its first field that is wrong, the reason, and the value."""
    if not isinstance(error, ValidationError):
        return f"not valid JSON ({str(error)[:_LONGEST_PROBLEM]})"
    problems = error.errors()
    first = problems[0]
    field = ".".join(str(part) for part in first["loc"])[:_LONGEST_PROBLEM]
    message = first["msg"].removeprefix("Value error, ")[:_LONGEST_PROBLEM]
    value = "" if first["type"] in ("missing", "value_error") else f" (found {clipped(first['input'])})"
    count = len(problems) - 1
    more = f"; and {count} more problem{'s' if count > 1 else ''}" if count else ""
    return f"{field}: {message}{value}{more}" if field else f"{message}{value}{more}"


def unended_line(path: Path) -> bytes:
    """The bytes behind the last newline of a file.

    Raises:
        InputError: The file cannot be read or is too large.
    """
    with _reading(path, LARGEST_RECORD_FILE) as file:
        start, block, last = file.seek(0, os.SEEK_END), 1 << 16, b""
        while start > 0 and b"\n" not in last:
            start, end, block = max(0, start - block), start, 2 * block
            file.seek(start)
            last = file.read(end - start) + last
    return last[last.rfind(b"\n") + 1 :]


def write_json(path: Path, value: Any) -> None:
    """Writes a JSON document, all of it or nothing."""
    write_whole(path, json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def write_json_lines(path: Path, values: Iterable[Any]) -> None:
    """Writes values as JSON, one a line, all of it or nothing."""
    write_whole(path, "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values))


def write_whole(path: Path, text: str, private: bool = True) -> None:
    """Writes a text file, all of it or nothing; see `replacing`.

    Raises:
        InputError: The text holds a lone surrogate, which no file can hold.
        OSError: The file cannot be written.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{path}: character {error.start} is a lone surrogate, which cannot be written") from None
    with replacing(path, private) as file:
        file.write(data)


@contextmanager
def replacing(path: Path, private: bool = True) -> Iterator[IO[bytes]]:
    """Opens a temporary file and renames it at the end: a crash leaves the old file or the new one, an error nothing.

    Args:
        private: A new file is readable by its owner only (0600), and so is a new folder (0700). A file that exists
            keeps its permissions.

    Raises:
        OSError: The file cannot be written; the error names it.
    """
    path.parent.mkdir(mode=0o700 if private else 0o777, parents=True, exist_ok=True)
    temporary = temporary_beside(path)
    try:
        temporary.unlink(missing_ok=True)  # of a process that had the same id
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
        with os.fdopen(os.open(temporary, flags, 0o600 if private else 0o666), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())  # otherwise a power cut could leave the new name with nothing in it
        if path.is_file() and not path.is_symlink():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        os.replace(temporary, path)
    except BaseException as error:
        temporary.unlink(missing_ok=True)
        if isinstance(error, OSError) and error.errno is not None and error.filename in (None, str(temporary)):
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def temporary_beside(path: Path) -> Path:
    """The place for this process to write what becomes `path`; what killed processes left of theirs is removed.

    The name has the process id, because two processes may write the same file at the same time, such as `report` and
    `eval`.
    """
    remove_leftovers(path.parent, f"{escape(path.name)}.*.part")
    return path.with_name(f"{path.name}.{os.getpid()}.part")


def remove_leftovers(folder: Path, pattern: str) -> None:
    """Removes the files and folders `*.PID.part` of a pattern whose processes are gone; those of living ones stay."""
    for leftover in folder.glob(pattern):
        import psutil  # late, because there hardly ever is one

        pid = leftover.suffixes[-2][1:] if len(leftover.suffixes) > 1 else ""
        if not re.fullmatch("[0-9]{1,9}", pid) or psutil.pid_exists(int(pid)):
            continue
        if leftover.is_dir() and not leftover.is_symlink():
            shutil.rmtree(leftover, ignore_errors=True)
        else:
            leftover.unlink(missing_ok=True)


@contextmanager
def appending(path: Path) -> Iterator[IO[bytes]]:
    """Opens a file to append to; a new one is readable by its owner only. What an error cut short is taken back, and a
    file that would be new and empty is removed.

    Raises:
        OSError: The file is a link or not a regular file, or the disk is full or gone; the error names the file.
    """
    flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | _NO_LINK | _NO_WAITING
    is_new = not os.path.lexists(path)
    descriptor = os.open(path, flags, 0o600)
    try:
        information = os.fstat(descriptor)
        if not stat.S_ISREG(information.st_mode):
            raise OSError(errno.EINVAL, "not a regular file", str(path))
        try:
            with os.fdopen(descriptor, "ab", closefd=False) as file:
                yield file
        except OSError as error:
            os.ftruncate(descriptor, information.st_size)
            if is_new and not information.st_size:
                path.unlink(missing_ok=True)
            raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        os.close(descriptor)


def require_own_files(folder: Path) -> None:
    """Refuses a folder with a link, a pipe or a device anywhere in it: writing there could change files elsewhere.

    Raises:
        InputError: Names the first one.
    """
    if not folder.is_dir():
        return
    for parent, folders, files in os.walk(folder, onerror=_raised):
        for path in (Path(parent, name) for name in (*folders, *files)):
            if printable(path.name) != path.name:
                raise InputError(f"{path}: a name with control characters; remove the file")
            if path.is_symlink() or not (path.is_dir() or path.is_file()):
                what = "a link" if path.is_symlink() else "not a regular file"
                raise InputError(
                    f"{path}: is {what}; a run folder holds only files of its own, so replace or remove it"
                )


def _raised(error: OSError) -> None:
    raise error


def file_sha256(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def parse_json(text: str, constants: bool = True, surrogates: bool = False) -> Any:
    """`json.loads` that refuses a name which occurs twice in one object.

    Args:
        constants: Whether NaN, infinity and numbers too large for a float are accepted.
        surrogates: Whether a text may hold a lone surrogate.

    Raises:
        ValueError: The text is not such JSON.
    """
    numbers: dict[str, Any] = {} if constants else {"parse_constant": _refuse_constant, "parse_float": _finite}
    try:
        value = json.loads(text, object_pairs_hook=_refuse_duplicates, **numbers)
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if not surrogates and _SURROGATE.search(text):
        try:
            json.dumps(value, ensure_ascii=False).encode()
        except UnicodeEncodeError:
            raise ValueError("a text holds a lone surrogate, half of a character") from None
    return value


@contextmanager
def _reading(path: Path, largest: int) -> Iterator[IO[bytes]]:
    try:
        with open(path, "rb", opener=lambda name, flags: os.open(name, flags | _NO_WAITING)) as file:
            information = os.fstat(file.fileno())
            if not stat.S_ISREG(information.st_mode):
                raise InputError(f"{path}: not a regular file; copy what it gives into a file")
            if information.st_size > largest:
                size, limit = -(-information.st_size >> 20), largest >> 20  # rounded up
                raise InputError(f"{path}: {size} MiB, and the limit is {limit} MiB; split it into several files")
            yield file
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None


def decoded(path: Path, data: bytes, start: int = 0) -> str:
    """The text of the bytes from `start` on of a UTF-8 file; every line ends with a newline alone.

    Raises:
        InputError: They are not UTF-8.
    """
    try:
        text = (data.removeprefix(_BOM) if start == 0 else data).decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {start + error.start}); save it as UTF-8") from None
    return text.replace("\r\n", "\n").replace("\r", "\n")


def is_complete(line: bytes) -> bool:
    """True if a line of a JSON-lines file is whole, with or without its newline."""
    try:
        json.loads(line)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"'{twice[:60]}' occurs twice in one object")
    return fields


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value; write null where a value is missing")


def _finite(literal: str) -> float:
    if not isfinite(value := float(literal)):
        raise ValueError(f"{literal[:40]} is too large; every number must be finite")
    return value


def clipped(value: Any) -> str:
    """A value as JSON for a message, cut where it is long."""
    if isinstance(value, str):
        value = value[:_LONGEST_VALUE]  # encoding the rest would take as long as the text is
    try:
        text = json.dumps(value, ensure_ascii=False, default=str)
    except RecursionError:
        return "a deeply nested value"
    except (TypeError, ValueError):  # a key that is no text, or a number of more digits than Python writes
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST_VALUE else f"{text[: _LONGEST_VALUE - 3]}..."
