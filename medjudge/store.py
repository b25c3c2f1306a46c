"""Record files and run folders: read with precise errors, append one flushed line a record, go on after a crash."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from medjudge.errors import InputError
from medjudge.records import Answer, Judgment, PhysicianScore, Question

Record = TypeVar("Record", Question, Answer, Judgment, PhysicianScore)


def read_records(path: Path, record: type[Record]) -> list[Record]:
    """Reads a JSON-lines file of one kind of record.

    Raises:
        InputError: The file is missing or not JSON lines, a record breaks a rule, or a key stands twice. The message
            names the file, the line and the field.
    """
    records = []
    seen: dict[Any, int] = {}
    for number, fields in _json_lines(path):
        try:
            one = record.model_validate(fields)
        except ValidationError as error:
            raise InputError(f"{path}, line {number}: {_first_problem(error)}") from None
        if one.key in seen:
            raise InputError(
                f"{path}, line {number}: {_shown(one.key)} stands already in line {seen[one.key]}; remove one of "
                "the two"
            )
        seen[one.key] = number
        records.append(one)
    return records


def _json_lines(path: Path) -> Iterator[tuple[int, Any]]:
    number = 0
    for line in read_text(path).split("\n"):
        number += 1
        if not line.strip():
            continue
        try:
            fields = json.loads(line, parse_constant=_refuse_constant, object_pairs_hook=refuse_duplicates)
            json.dumps(fields, ensure_ascii=False).encode()  # a lone surrogate could be read, but never written again
            yield number, fields
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"{path}, line {number}: not valid JSON ({error}); one object a line is expected"
            ) from None


def read_text(path: Path) -> str:
    """The text of a UTF-8 file, or an InputError that says why it cannot be read."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None


def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """For `json.loads`: an object in which a name stands twice is an error, not silently its last value."""
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"'{next(name for name in names if names.count(name) > 1)}' stands twice in one object")
    return fields


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a JSON value; write null where something is missing")


def _first_problem(error: ValidationError) -> str:
    problems = error.errors()
    first = problems[0]
    place = ".".join(str(part) for part in first["loc"])
    message = first["msg"].removeprefix("Value error, ")
    value = "" if first["type"] in ("missing", "value_error") else f" (found {_clipped(first['input'])})"
    more = f"; and {len(problems) - 1} more in this line" if len(problems) > 1 else ""
    return f"{place}: {message}{value}{more}" if place else f"{message}{value}{more}"


def _clipped(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _shown(key: Any) -> str:
    return f"'{key}'" if isinstance(key, str) else " / ".join(str(part) for part in key)


def write_records(path: Path, records: Iterable[Question | Answer | Judgment | PhysicianScore]) -> None:
    """Writes a whole record file at once: all of it or nothing."""
    write_whole(path, "".join(record.model_dump_json() + "\n" for record in records))


def write_json(path: Path, value: Any) -> None:
    """Writes one JSON document at once: all of it or nothing."""
    write_whole(path, json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Replaces a file by way of a neighbour, so that a crash leaves the old one or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(path.name + ".part")
    beside.write_text(text, encoding="utf-8")
    os.replace(beside, path)


def file_sha256(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    digest = sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


class Run:
    """A run folder (`runs/NAME`): questions, answers, judgments, physicians' scores and what was made of them.

    Args:
        path: The folder; made on the first write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.questions_file = path / "questions.jsonl"
        self.answers_file = path / "answers.jsonl"
        self.physicians_file = path / "physician_scores.jsonl"
        self.manifest_file = path / "run.json"

    @classmethod
    def existing(cls, path: Path) -> "Run":
        """Opens a folder that must already hold questions and answers.

        Raises:
            InputError: It does not.
        """
        run = cls(path)
        for needed in (run.questions_file, run.answers_file):
            if not needed.is_file():
                raise InputError(
                    f"{path}: no {needed.name} in it, so it is not a run folder; `medjudge eval` makes one"
                )
        return run

    def judgments_file(self, judge: str) -> Path:
        return self.path / "judgments" / f"{judge}.jsonl"

    def agreement_file(self, judge: str) -> Path:
        return self.path / "agreement" / f"{judge}.json"

    def judges(self) -> list[str]:
        """The names of the judges that have judgments here."""
        return sorted(file.stem for file in (self.path / "judgments").glob("*.jsonl"))

    def questions(self) -> list[Question]:
        return read_records(self.questions_file, Question)

    def answers(self) -> list[Answer]:
        return self._resumed(self.answers_file, Answer)

    def judgments(self, judge: str) -> list[Judgment]:
        return self._resumed(self.judgments_file(judge), Judgment)

    def physician_scores(self) -> list[PhysicianScore]:
        return self._resumed(self.physicians_file, PhysicianScore)

    def _resumed(self, path: Path, record: type[Record]) -> list[Record]:
        if not path.exists():
            return []
        mend_last_line(path)
        return read_records(path, record)

    def append(self, path: Path, record: Answer | Judgment) -> None:
        """Adds one record; it is on its way to the disk when this returns."""
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", encoding="utf-8") as file:
            file.write(record.model_dump_json() + "\n")

    def manifest(self) -> dict[str, Any]:
        """What made this run; empty before the first write."""
        return _json_object(self.manifest_file, "remove it or take another --run") or {}

    def agreement(self, judge: str) -> dict[str, Any] | None:
        """The study of a judge that `medjudge validate` wrote; None where there is none."""
        return _json_object(self.agreement_file(judge), "run `medjudge validate` again")

    def update_manifest(self, **entries: Any) -> None:
        """Sets entries of `run.json` and keeps the others."""
        write_json(self.manifest_file, self.manifest() | entries)


def _json_object(path: Path, mend: str) -> dict[str, Any] | None:
    if not path.exists():
        return None
    try:
        content: dict[str, Any] = json.loads(read_text(path))
    except ValueError as error:
        raise InputError(f"{path}: not valid JSON ({error}); {mend}") from None
    return content


def mend_last_line(path: Path) -> int:
    """Cuts off a last line that a crash left without its end; a whole one that only lacks its newline gets it.

    Returns:
        The number of bytes cut; 0 where nothing was lost.
    """
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole == len(data):
        return 0
    try:
        json.loads(data[whole:])
    except ValueError:
        os.truncate(path, whole)
        print(f"{path}: the last line was incomplete ({len(data) - whole} bytes) and is cut off", file=sys.stderr)
        return len(data) - whole
    with path.open("ab") as file:
        file.write(b"\n")
    return 0
