"""Helpers for tests: a question, a judgment, processes, full disks, and a command that refuses its input."""

import io
import json
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from medjudge.records import Judgment

SAMPLE_QUESTION = {"id": "q1", "category": "MK", "group": "q1", "prompt": "How much?"}
SAMPLE_QUESTION |= {"language": "en", "reference": "4 g"}


def judged(question_id: str, score: int | None, **fields: object) -> Judgment:
    """The judgment of an answer, without a score where that is None; every other field can be given."""
    error = None if score is not None else "unreadable"
    given = {"question_id": question_id, "model": "m", "judge": "j", "score": score, "error": error}
    return Judgment.model_validate({**given, **fields})


class Terminal(io.StringIO):
    """A standard stream at which a person waits."""

    def isatty(self) -> bool:
        return True


def python(*words: object, **options: Any) -> subprocess.CompletedProcess[str]:
    """Runs this Python in a process of its own; the options are those of `subprocess.run`."""
    command = [sys.executable, *map(str, words)]
    return subprocess.run(command, **{"capture_output": True, "text": True, "timeout": 600, **options})


def worked(done: subprocess.CompletedProcess[str]) -> subprocess.CompletedProcess[str]:
    """The command, which ended with exit status 0."""
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def dead_pid() -> int:
    """The number of a process that has ended."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@contextmanager
def files_of_at_most(size: int) -> Iterator[None]:
    """Every write beyond so many bytes fails, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def change_json(path: Path, **fields: object) -> None:
    """Sets fields of an object in a JSON file."""
    path.write_text(json.dumps(json.loads(path.read_text()) | fields))


def refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Exit status 2, one line on stderr that holds all parts, nothing on stdout."""
    refused_with(done, *parts)
    assert done.stderr.startswith("error: ")
    assert len([line for line in done.stderr.splitlines() if line.strip()]) == 1, done.stderr
    assert done.stdout == ""


def refused_with(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Exit status 2, and an error of one line or several on stderr that holds all parts; notes may come before it."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr[-2000:])
    assert "error: " in done.stderr
    assert "Traceback" not in done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr
