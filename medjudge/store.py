"""Record files and run folders: read with precise errors, append one flushed line a record, go on after a crash.

What a killed process wrote is there to the last whole line. A power cut may take lines, too: they are forced to the
disk at most once a second, and later ones when the system writes by itself. A file that is replaced is the old one or
the new one.
"""

import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

import psutil
from filelock import FileLock, Timeout
from pydantic import ValidationError

from medjudge.errors import InputError
from medjudge.records import Answer, Judgment, PhysicianScore, Question
from medjudge.scheme import SCHEME_FILE, Scheme, scheme_beside

Record = TypeVar("Record", Question, Answer, Judgment, PhysicianScore)


SYNC_SECONDS = 1.0
"""How often appended lines are forced to the disk: each time costs milliseconds, and some judges make 500 a second."""

LOCK_FILE, PID_FILE = ".lock", ".pid"


def read_questions(path: Path, scheme: Scheme | None = None) -> list[Question]:
    """Reads a JSON-lines file of questions.

    Args:
        scheme: What the questions belong to; the scheme beside the file unless given.

    Raises:
        InputError: As for `read_records`; or a category or language is not one of the scheme.
    """
    known = scheme or scheme_beside(path)
    return read_records(path, Question, check=lambda question: known.problem_with(question.category, question.language))


def check_questions(questions: Iterable[Question], scheme: Scheme) -> None:
    """Raises InputError where a question's category or language is not one of the scheme."""
    for question in questions:
        if problem := scheme.problem_with(question.category, question.language):
            raise InputError(f"question {question.id}: {problem}; choose another --scheme")


def read_records(
    path: Path, record: type[Record], growing: bool = False, check: Callable[[Record], str | None] | None = None
) -> list[Record]:
    """Reads a JSON-lines file of one kind of record.

    Args:
        check: Finds what is wrong with a whole record; None where nothing is.
        growing: Another process may be writing the last line: it is left out where it is not whole yet.

    Raises:
        InputError: The file is missing or not JSON lines, a record breaks a rule, or a key stands twice. The message
            names the file, the line and the field.
    """
    records = []
    seen: dict[Any, int] = {}
    for number, fields in json_lines(path, growing):
        try:
            one = record.model_validate(fields)
        except ValidationError as error:
            raise InputError(f"{path}, line {number}: {_first_problem(error)}") from None
        if check is not None and (problem := check(one)):
            raise InputError(f"{path}, line {number}: {problem}")
        if one.key in seen:
            raise InputError(
                f"{path}, line {number}: {_shown(one.key)} stands already in line {seen[one.key]}; remove one of "
                "the two"
            )
        seen[one.key] = number
        records.append(one)
    return records


def json_lines(path: Path, growing: bool = False) -> Iterator[tuple[int, Any]]:
    """The lines of a JSON-lines file with their numbers, from 1; raises InputError as `read_records` does."""
    number = 0
    text = _whole_lines(path) if growing else read_text(path)
    for line in text.split("\n"):
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


def _whole_lines(path: Path) -> str:
    """The text of a file that grows, without a last line that is not whole: cut off, or being written just now."""
    data = path.read_bytes()
    end = _whole(data)
    if end < len(data):
        print(f"{path}: the last line is incomplete ({len(data) - end} bytes) and is left out", file=sys.stderr)
    try:
        return data[:end].decode("utf-8")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 text (byte {error.start}); save it as UTF-8") from None


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


def write_scheme(folder: Path, scheme: Scheme) -> None:
    """Puts the copy of a scheme beside the files of a folder that it holds for."""
    write_whole(folder / SCHEME_FILE, scheme.model_dump_json(indent=2) + "\n")


def write_json(path: Path, value: Any) -> None:
    """Writes one JSON document at once: all of it or nothing."""
    write_whole(path, json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False) + "\n")


def write_whole(path: Path, text: str) -> None:
    """Replaces a file by way of a neighbour, so that a crash leaves the old one or the new one, never half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Named after the process: `report` may write what a running `eval` writes, too.
    beside = path.with_name(f"{path.name}.{os.getpid()}.part")
    with beside.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())  # else a power cut could leave the new name with nothing in it
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

    Reading needs nothing. Who adds records or replaces files does so inside `with run.lock():`.

    Args:
        path: The folder; made on the first write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.questions_file = path / "questions.jsonl"
        self.answers_file = path / "answers.jsonl"
        self.physicians_file = path / "physician_scores.jsonl"
        self.manifest_file = path / "run.json"
        self.spending_file = path / "spending.jsonl"
        self.parts_folder = path / "parts"
        self._locked = False
        self._synced: dict[Path, float] = {}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps other processes from writing here, mends what a killed one left, and takes in the parts of a group.

        The kernel holds the lock, so that it ends with its process, however that ends.

        Raises:
            InputError: Another process holds it.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        holder = self.path / PID_FILE
        lock = FileLock(self.path / LOCK_FILE, timeout=0)
        try:
            lock.acquire()
        except Timeout:
            try:
                pid = holder.read_text(encoding="ascii")
            except FileNotFoundError:  # it began, or ended, just now
                pid = ""
            raise InputError(
                f"{self.path}: another process{f' (pid {pid})' if pid else ''} is at work in this folder; wait for its "
                "end, or choose another --run"
            ) from None
        try:
            holder.write_text(str(os.getpid()), encoding="ascii")
            self._mend()
            self._locked = True
            self.merge_parts()
            yield
        finally:
            self._locked = False
            for file in self._synced:
                _sync(file)
            self._synced.clear()
            holder.unlink(missing_ok=True)
            lock.release()

    def _mend(self) -> None:
        for file in (self.answers_file, self.spending_file, *(self.path / "judgments").glob("*.jsonl")):
            if file.exists():
                repair_last_line(file)
        for left in self.path.rglob("*.part"):
            pid = left.suffixes[-2:-1]
            if pid and pid[0][1:].isdecimal() and not psutil.pid_exists(int(pid[0][1:])):
                left.unlink(missing_ok=True)

    def part(self, rank: int) -> "Run":
        """Where one of several processes appends what `merge_parts` takes in: a run folder of its own."""
        return Run(self.parts_folder / str(rank))

    def merge_parts(self) -> None:
        """Moves what several processes wrote into this run's files, in the order of the questions.

        Nothing is lost or taken in twice, however often this is broken off.

        Raises:
            InputError: One of the processes is still at work.
        """
        if not self.parts_folder.exists():
            return
        parts = [Run(folder) for folder in sorted(self.parts_folder.iterdir())]
        with ExitStack() as locks:
            for part in parts:
                locks.enter_context(part.lock())
            order = {question.id: place for place, question in enumerate(self.questions())}
            self._take_in(self.answers_file, self.answers(), [one for part in parts for one in part.answers()], order)
            for judge in sorted({name for part in parts for name in part.judges()}):
                made = [one for part in parts for one in part.judgments(judge)]
                self._take_in(self.judgments_file(judge), self.judgments(judge), made, order)
            shutil.rmtree(self.parts_folder)

    def _take_in(
        self,
        path: Path,
        there: Sequence[Answer | Judgment],
        made: Sequence[Answer | Judgment],
        order: Mapping[str, int],
    ) -> None:
        known = {one.key for one in there}
        for one in sorted(made, key=lambda one: (order[one.question_id], *one.key[1:])):
            if one.key not in known:
                known.add(one.key)
                self.append(path, one.model_dump_json())
        _sync(path)

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

    def scheme(self) -> Scheme:
        """The scheme that the run keeps a copy of; LLMEval-Med's where it keeps none."""
        return scheme_beside(self.questions_file)

    def write_questions(self, questions: Iterable[Question], scheme: Scheme) -> None:
        """Writes the questions, and the scheme that they belong to before them."""
        write_scheme(self.path, scheme)
        write_records(self.questions_file, questions)

    def judges(self) -> list[str]:
        """The names of the judges that have judgments here."""
        return sorted(file.stem for file in (self.path / "judgments").glob("*.jsonl"))

    def questions(self) -> list[Question]:
        return read_questions(self.questions_file)

    def answers(self) -> list[Answer]:
        return self._appended(self.answers_file, Answer)

    def judgments(self, judge: str) -> list[Judgment]:
        return self._appended(self.judgments_file(judge), Judgment)

    def physician_scores(self) -> list[PhysicianScore]:
        return self._appended(self.physicians_file, PhysicianScore)

    def _appended(self, path: Path, record: type[Record]) -> list[Record]:
        return read_records(path, record, growing=True) if path.exists() else []

    def append(self, path: Path, line: str) -> None:
        """Adds one line; when this returns it outlives the process, and mostly a power cut.

        Raises:
            OSError: The disk is full or gone; the error names the file.
        """
        assert self._locked, "append inside `with run.lock():`, which mends the last line and keeps others out"
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with path.open("ab") as file:
                file.write(line.encode("utf-8") + b"\n")
                file.flush()
                if time.monotonic() - self._synced.get(path, float("-inf")) >= SYNC_SECONDS:
                    os.fsync(file.fileno())
                    self._synced[path] = time.monotonic()
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from None

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


def repair_last_line(path: Path) -> int:
    """Cuts off a last line that a crash left without its end; a whole one that only lacks its newline gets it.

    Returns:
        The number of bytes cut; 0 where nothing was lost.
    """
    data = path.read_bytes()
    end = _whole(data)
    if end < len(data):
        os.truncate(path, end)
        print(f"{path}: the last line was incomplete ({len(data) - end} bytes) and is cut off", file=sys.stderr)
    elif data and not data.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")
    return len(data) - end


def _whole(data: bytes) -> int:
    """How many bytes of a JSON-lines file are whole lines; a last line may lack its newline."""
    start = data.rfind(b"\n") + 1
    try:
        json.loads(data[start:] or b"{}")
    except ValueError:
        return start
    return len(data)


def _sync(path: Path) -> None:
    if path.exists():
        with path.open("ab") as file:
            os.fsync(file.fileno())
