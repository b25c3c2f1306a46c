"""The runs of a folder: what an index shows of each, and why one cannot be read."""

import os
from contextlib import suppress
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from medjudge.errors import InputError, printable
from medjudge.report.boards import JudgedRun, judged_run
from medjudge.report.contents import Contents, read_contents
from medjudge.store import Run

_MARKS = ("run.json", "questions.jsonl", "answers.jsonl")
"""A folder with one of these is a run, or was to become one."""


def run_folders(folder: Path) -> dict[str, Path]:
    """The folders right inside a folder that are runs, or were to become some, by name.

    Raises:
        OSError: The folder cannot be read.
    """
    return {
        path.name: path
        for path in sorted(folder.iterdir())
        # One that this process may not read is listed with that reason, and not left out silently.
        if path.is_dir()
        and (not os.access(path, os.R_OK | os.X_OK) or any(os.path.lexists(path / name) for name in _MARKS))
    }


def state_of(folder: Path) -> frozenset[tuple[str, int, int, int]]:
    """Path, inode, size and time of each file: in another state, what was made from the files is out of date."""
    files = set()
    for place, _, names in os.walk(folder):
        for name in names:
            path = os.path.join(place, name)
            with suppress(OSError):  # it is gone meanwhile
                status = os.lstat(path)
                files.add((path, status.st_ino, status.st_size, status.st_mtime_ns))
    return frozenset(files)


def open_run(path: Path) -> Run:
    """Opens a run folder in which no link leads elsewhere.

    Raises:
        InputError: It is a link or holds one, it is no run folder, or it has a name that no page can show.
    """
    if path.is_symlink():
        raise InputError(f"{path}: is a link; only runs that lie in the folder itself are shown")
    if printable(path.name) != path.name:
        raise InputError(f"{printable(str(path))}: a name with control characters; rename the folder")
    run = Run(path)
    if run.questions_file.exists() and not run.answers_file.exists():
        raise InputError(f"{path}: no answers yet")
    return Run.existing(path)


def list_run(path: Path) -> dict[str, Any] | str:
    """A run's row in the index, as `runs.html` shows it, or the reason why it cannot be read.

    `last` is the run by the judge that judged last, or the reason why that cannot be read; None without a judge.
    """
    try:
        run = read_contents(open_run(path))
        last: JudgedRun | str | None = None
        try:
            last = judged_run(0, run, next(iter(run.judgments))) if run.judgments else None
        except InputError as error:  # such as a damaged study: the rest of the row can be shown
            last = reason_of(error, path.parent)
        return {
            "name": run.name,
            "date": _date(run),
            "source": Path((run.manifest.get("benchmark") or {}).get("source", "")).name,
            "scheme": run.scheme.name,
            "questions": len(run.questions),
            "models": run.models,
            "judges": len(run.judgments),
            "last": last,
        }
    except (InputError, OSError) as error:
        return reason_of(error, path.parent)


def reason_of(error: Exception, folder: Path) -> str:
    """The reason why something cannot be read, for a page: files are named from the folder of the runs on."""
    reason = str(error)
    if isinstance(error, OSError) and error.filename:
        reason = f"{error.filename}: {(error.strerror or reason).lower()}"
    return reason.replace(f"{folder}/", "")


def _date(run: Contents) -> datetime:
    """When a run was started, or started again; when its answers were written, where it does not say."""
    try:
        return datetime.fromisoformat(run.manifest.get("updated", "")).astimezone(timezone.utc)
    except (ValueError, OverflowError):
        return datetime.fromtimestamp(run.run.answers_file.stat().st_mtime, timezone.utc)
