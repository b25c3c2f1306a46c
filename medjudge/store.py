"""Record files and the run folder: append one flushed line per record, read, and resume after a crash.

Everything a killed process appended is kept, up to the last complete line. A power cut can lose the lines of the last
second: appended lines are synced to disk at most once per second.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol, TypeVar

import psutil
from filelock import FileLock, Timeout
from pydantic import BaseModel, ValidationError

from medjudge.errors import InputError, notify
from medjudge.files import (
    appending,
    file_sha256,
    first_problem,
    is_complete,
    json_lines,
    read_json,
    read_text,
    remove_leftovers,
    require_own_files,
    unended_line,
    write_json,
    write_whole,
)
from medjudge.item_records import ItemScore
from medjudge.provenance import Made, left_out, of_other_texts, problem_with, texts_of
from medjudge.records import AgreedScore, Answer, AnswerKey, Judgment, OfTexts, PhysicianScore, Question
from medjudge.run_log import logging_to
from medjudge.scheme import SCHEME_FILE, Scheme, scheme_beside


class Keyed(Protocol):
    """A record that its key names in a file."""

    @property
    def key(self) -> Any: ...

    @classmethod
    def model_validate(cls, obj: Any, /) -> Any: ...


Record = TypeVar("Record", bound=Keyed)

SYNC_SECONDS = 1.0
"""Seconds between two syncs to disk: a sync takes milliseconds, and some judges append 500 lines a second."""

LOCK_FILE, PID_FILE = ".lock", ".pid"


def read_questions(path: Path, scheme: Scheme | None = None) -> list[Question]:
    """Reads a JSON-lines file of questions.

    Args:
        scheme: The scheme that the questions belong to; by default the one beside the file.

    Raises:
        InputError: As for `read_records`; or the scheme does not have a question's category or language.
    """
    known = scheme or scheme_beside(path)
    return read_records(path, Question, check=lambda one: known.problem_with(one.category, one.language))


def read_records(
    path: Path, record: type[Record], growing: bool = False, check: Callable[[Record], str | None] | None = None
) -> list[Record]:
    """Reads a JSON-lines file of one kind of record.

    Args:
        check: Returns what is wrong with a valid record, None if nothing is.
        growing: Another process may be writing the last line: it is left out if it is incomplete.

    Raises:
        InputError: The file is missing or not JSON lines, a record breaks a rule, or a key is not unique. The message
            names the file, the line and the field.
    """
    records = []
    line_of_key: dict[Any, int] = {}
    for number, fields in json_lines(path, growing):
        try:
            item = record.model_validate(fields)
        except ValidationError as error:
            raise InputError(f"{path}, line {number}: {first_problem(error)}") from None
        if check is not None and (problem := check(item)):
            raise InputError(f"{path}, line {number}: {problem}")
        key = (item.key, item.texts if isinstance(item, OfTexts) else None)
        if key in line_of_key:
            name = f"'{item.key}'" if isinstance(item.key, str) else " / ".join(map(str, item.key))
            raise InputError(f"{path}, line {number}: {name} duplicates line {line_of_key[key]}; remove one of the two")
        line_of_key[key] = number
        records.append(item)
    return records


def write_records(path: Path, records: Iterable[BaseModel]) -> None:
    """Writes a record file, all of it or nothing."""
    write_whole(path, "".join(record.model_dump_json() + "\n" for record in records))


def write_scheme(folder: Path, scheme: Scheme) -> None:
    """Writes a copy of a scheme into the folder of the record files that belong to it."""
    write_whole(folder / SCHEME_FILE, scheme.model_dump_json(indent=2) + "\n")


def repair_last_line(path: Path) -> None:
    """Removes an incomplete last line, which a crash may leave; a complete one without its newline gets it."""
    last = unended_line(path)
    if last and is_complete(last):
        append_lines(path, "\n")
    elif last:
        os.truncate(path, path.stat().st_size - len(last))
        notify(f"{path}: the last line was incomplete ({len(last)} bytes) and was removed")


def append_lines(path: Path, text: str) -> None:
    """Appends whole lines to a file that is not a link, and syncs them to disk.

    Raises:
        OSError: The disk is full or gone; the error names the file, and nothing was added.
    """
    with appending(path) as file:
        file.write(text.encode())
        file.flush()
        os.fsync(file.fileno())


class _Stage(BaseModel):
    judge: str


class _Cascade(BaseModel):
    stages: list[_Stage] = []


class _JudgeEntry(BaseModel):
    kind: str = ""
    sha256: str = ""
    rubrics_sha256: str = ""
    quantization: str | None = None
    seconds: float = 0.0
    seen_question_ids: list[str] = []
    validated_on: list[dict[str, Any]] = []
    refused_parameters: list[str] = []
    reply_tokens: int = 0
    served: list[str | None] = []
    cascade: _Cascade = _Cascade()


class _ModelEntry(BaseModel):
    seconds: float = 0.0


class _SpendingEntry(BaseModel):
    usd: float | None = None


class _BenchmarkEntry(BaseModel):
    source: str
    questions: int = 0
    sha256: str = ""  # empty until the questions are written


class _Manifest(BaseModel):
    """The parts of `run.json` that readers rely on; other entries may have any form."""

    id: str = ""
    updated: str = ""
    judge: str | None = None
    judges: dict[str, _JudgeEntry] = {}
    item_judges: dict[str, _JudgeEntry] = {}
    pair_judges: dict[str, _JudgeEntry] = {}
    models: dict[str, _ModelEntry] = {}
    notes: list[str] = []
    versions: dict[str, str] = {}
    benchmark: _BenchmarkEntry | None = None
    spending: _SpendingEntry | None = None


class Run:
    """A run folder (`runs/NAME`): questions, answers, judgments, physicians' scores, and the results made from them.

    Questions and answers are read again only when their files have changed. Reading needs no lock. Code that appends
    records or replaces files must do so inside `with run.lock():`.

    Args:
        path: The folder; created on the first write.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.questions_file = path / "questions.jsonl"
        self.answers_file = path / "answers.jsonl"
        self.physicians_file = path / "physician_scores.jsonl"
        self.adjudicated_file = path / "adjudicated.jsonl"
        self.items_file = path / "item_scores.jsonl"
        self.deferred_file = path / "for_physicians.jsonl"
        self.manifest_file = path / "run.json"
        self.spending_file = path / "spending.jsonl"
        self.aside: dict[Path, Sequence[OfTexts]] = {}  # by file: what was made from other texts
        self._locked = False
        self._synced: dict[Path, float] = {}
        self._read: dict[tuple[Path, ...], tuple[object, Any]] = {}

    @classmethod
    def existing(cls, path: Path) -> "Run":
        """Opens a folder that must already hold questions and answers.

        Raises:
            InputError: It does not, or it holds a link.
        """
        require_own_files(path)
        run = cls(path)
        for file in (run.questions_file, run.answers_file):
            if not file.is_file():
                raise InputError(
                    f"{path}: no {file.name} in it, so it is not a run folder; `medjudge eval` creates one"
                )
        return run

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Keeps other processes from writing here, and repairs what a killed process left.

        The kernel holds the lock, so it ends with its process, whatever ends the process.

        Raises:
            InputError: Another process holds the lock, or the folder holds a link, which could lead writes elsewhere.
        """
        require_own_files(self.path)
        self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
        pid_file = self.path / PID_FILE
        lock = FileLock(self.path / LOCK_FILE, timeout=0, mode=0o600)
        try:
            lock.acquire()
        except Timeout:
            pid = self._pid()
            raise InputError(
                f"{self.path}: another process{f' (pid {pid})' if pid else ''} is using this folder; wait until it "
                "ends, or choose another --run"
            ) from None
        try:
            write_whole(pid_file, str(os.getpid()))
            self._repair()
            self._locked = True
            with logging_to(self.path):
                yield
        finally:
            self._locked = False
            for file in filter(Path.exists, self._synced):
                append_lines(file, "")  # syncs what was appended before
            self._synced.clear()
            pid_file.unlink(missing_ok=True)
            lock.release()

    def _pid(self) -> str:
        try:
            return read_text(self.path / PID_FILE)[:20]
        except InputError:  # no process, or one that is just starting or ending
            return ""

    @property
    def is_being_written(self) -> bool:
        """True if the process that last wrote here has not ended; tells nothing of processes of another machine."""
        pid = self._pid()
        return pid.isdecimal() and int(pid) < 1 << 31 and psutil.pid_exists(int(pid))

    def _repair(self) -> None:
        judged = [file for folder in ("judgments", "pairs", "items") for file in (self.path / folder).glob("*.jsonl")]
        for file in (self.answers_file, self.spending_file, *judged):
            if file.exists():
                repair_last_line(file)
        remove_leftovers(self.path, "**/*.part")

    def judgments_file(self, judge_name: str) -> Path:
        return self.path / "judgments" / f"{judge_name}.jsonl"

    def agreement_file(self, judge_name: str, against: str | None = None) -> Path:
        """The file of a judge's study; one against another judge is stored beside the one against physicians."""
        name = f"{judge_name}-against-{against}" if against else judge_name
        return self.path / "agreement" / f"{name}.json"

    @property
    def has_scheme(self) -> bool:
        """True if the run keeps a copy of its scheme."""
        return (self.path / SCHEME_FILE).is_file()

    def scheme(self) -> Scheme:
        """The run's copy of its scheme; LLMEval-Med's if it has none."""
        return self._unchanged([self.path / SCHEME_FILE], lambda: scheme_beside(self.questions_file))

    def _unchanged(self, files: Sequence[Path], read: Callable[[], Any]) -> Any:
        """The content of files that were read before, unless one of them has grown or was replaced."""
        if not all(file.exists() for file in files):
            return read()
        state = [(stat.st_ino, stat.st_mtime_ns, stat.st_size) for stat in map(Path.stat, files)]
        if self._read.get((*files,), (None,))[0] != state:
            self._read[(*files,)] = state, read()
        return self._read[(*files,)][1]

    def write_questions(self, questions: Iterable[Question], scheme: Scheme) -> None:
        """Writes the scheme and then the questions that belong to it."""
        write_scheme(self.path, scheme)
        write_records(self.questions_file, questions)

    def judges(self) -> list[str]:
        """The names of the judges that have judgments here, sorted."""
        return sorted(file.stem for file in (self.path / "judgments").glob("*.jsonl"))

    @property
    def last_judge(self) -> str | None:
        """The name of the judge that judged last, as the manifest has it."""
        return self.manifest().get("judge")

    def questions(self) -> list[Question]:
        return list(self._unchanged([self.questions_file], lambda: read_questions(self.questions_file)))

    def answers(self) -> list[Answer]:
        file = self.answers_file
        read = self._unchanged([file], lambda: read_records(file, Answer, growing=True)) if file.exists() else []
        return list(read)

    def texts(self) -> dict[AnswerKey, str]:
        """The hash of the texts of each answer; empty where the folder has no questions."""
        files = (self.questions_file, self.answers_file)
        if not all(file.exists() for file in files):
            return {}
        return self._unchanged(files, lambda: texts_of(self.questions(), self.answers()))

    def judgments(self, judge_name: str) -> list[Judgment]:
        """A judge's judgments of the texts that the run holds now; `aside` has those of others.

        Raises:
            InputError: As for `read_records`; or a judgment is another judge's, or contradicts its own probabilities.
        """
        file = self.judgments_file(judge_name)
        stages = self.judge_entry(judge_name).get("cascade", {}).get("stages", [])
        judges = [judge_name, *(stage["judge"] for stage in stages)]  # earlier versions joined two in one file
        return self.made_from_texts(file, Judgment, lambda judgment: problem_with(judgment, judges))

    def physician_scores(self) -> list[PhysicianScore]:
        """The physicians' scores of the texts that the run holds now; `aside` has those of others."""
        return self.made_from_texts(self.physicians_file, PhysicianScore)

    def adjudicated(self) -> list[AgreedScore]:
        """The scores that a third physician recorded where two differ."""
        return self.made_from_texts(self.adjudicated_file, AgreedScore)

    def settled_scores(self) -> list[PhysicianScore]:
        """The physicians' scores, and the agreed ones that count in place of some of them."""
        return [*self.physician_scores(), *self.adjudicated()]

    def item_scores(self) -> list[ItemScore]:
        return self.made_from_texts(self.items_file, ItemScore)

    def made_from_texts(
        self, file: Path, record: type[Made], check: Callable[[Made], str | None] | None = None
    ) -> list[Made]:
        """The records of a file, of the texts that the run holds now; `aside` has those of others."""
        if not file.exists():
            return []
        records, texts = read_records(file, record, growing=True, check=check), self.texts()
        aside = [made for made in records if of_other_texts(made, texts)]
        if aside and self.aside.get(file) != aside:
            notify(left_out(file, len(aside)))
        self.aside[file] = aside
        return [made for made in records if not of_other_texts(made, texts)] if aside else records

    def rewrite(self, file: Path, records: Iterable[Made]) -> None:
        """Replaces judgments or scores in a file that was read; what the reading left out stays in it."""
        write_records(file, [*self.aside.get(file, ()), *records])

    def append(self, path: Path, line: str) -> None:
        """Appends one line. After the call the line survives the end of the process, and usually a power cut.

        Raises:
            OSError: The disk is full or gone; the error names the file.
        """
        assert self._locked, "append inside `with run.lock():`, which repairs the last line and keeps others out"
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with appending(path) as file:
            file.write(line.encode("utf-8") + b"\n")
            file.flush()
            if time.monotonic() - self._synced.get(path, float("-inf")) >= SYNC_SECONDS:
                os.fsync(file.fileno())
                self._synced[path] = time.monotonic()

    def manifest(self) -> dict[str, Any]:
        """`run.json`: what produced this run; empty before the first write.

        Raises:
            InputError: It is corrupt.
        """
        if not self.manifest_file.exists():
            return {}
        fix = "remove it or choose another --run"
        content = read_json(self.manifest_file, fix)
        try:
            _Manifest.model_validate(content, strict=True)
        except ValidationError as error:
            raise InputError(f"{self.manifest_file}: {first_problem(error)}; {fix}") from None
        manifest: dict[str, Any] = content
        return manifest

    def judge_entry(self, judge_name: str) -> dict[str, Any]:
        """A judge's entry in the manifest; empty where it has none."""
        entry: dict[str, Any] = self.manifest().get("judges", {}).get(judge_name, {})
        return entry

    def notes(self) -> list[str]:
        """Notes that go with any figure of this run: its own notes, and what of it was changed since."""
        notes = list(self.manifest().get("notes", []))
        benchmark = self.manifest().get("benchmark") or {}
        if benchmark.get("sha256") and benchmark["sha256"] != file_sha256(self.questions_file):
            notes.append("The questions are not those that this run began with: questions.jsonl was changed.")
        return [*notes, *(left_out(file.name, len(aside)) for file, aside in self.aside.items() if aside)]

    def update_manifest(self, **entries: Any) -> None:
        """Sets entries of `run.json` and keeps the others."""
        write_json(self.manifest_file, self.manifest() | entries)
