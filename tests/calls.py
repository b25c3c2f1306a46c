"""Helpers for tests of commands: a question, and the output of a command that refuses its input."""

import io
import subprocess
import sys
from typing import Any

SAMPLE_QUESTION = {
    "id": "q1",
    "category": "MK",
    "group": "q1",
    "prompt": "How much?",
    "language": "en",
    "reference": "4 g",
}


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


def refused(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Exit status 2, one line on stderr that holds all parts, nothing on stdout."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr[-2000:])
    lines = [line for line in done.stderr.splitlines() if line.strip()]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("error: ")
    for part in parts:
        assert part in lines[0], lines[0]
    assert done.stdout == ""


def refused_with(done: subprocess.CompletedProcess[str], *parts: str) -> None:
    """Exit status 2, and an error of one line or several on stderr that holds all parts; notes may come before it."""
    assert done.returncode == 2, (done.returncode, done.stdout, done.stderr[-2000:])
    assert "error: " in done.stderr
    for part in parts:
        assert part in done.stderr, done.stderr
