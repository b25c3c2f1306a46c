"""Adds physicians' records to a run, under a lock of their own."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from filelock import FileLock

from medjudge.annotate.plan import plan_file
from medjudge.annotate.tasks import LEVELS, Task
from medjudge.errors import InputError
from medjudge.provenance import stamped
from medjudge.records import PhysicianScore
from medjudge.store import Run, append_lines, repair_last_line


class Added(NamedTuple):
    """The numbers of records that were new, in the run already, or replaced another one."""

    new: int
    same: int
    replaced: int


def scores_lock(run: Run) -> FileLock:
    """Gives one process and thread at a time access to the records; the system frees it when a process dies."""
    file = plan_file(run).with_name("scores.lock")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return FileLock(file, mode=0o600)


def add_records(run: Run, records: Sequence[Any], replace: bool = False, task: Task = LEVELS) -> Added:
    """Adds the records of a task to the run; they are on disk when this returns.

    A record that is there already adds nothing. Others who add or read under `scores_lock` wait. Users outside the
    file's group lose access to it, whatever its permissions were.

    Args:
        replace: Whether a record replaces a different one by the same rater for the same answer, pair or item.

    Raises:
        InputError: The run has a different one, and `replace` is not set. Nothing is written.
    """
    with scores_lock(run):
        file = task.file(run)
        merged = {record.key: record for record in task.kept(run)}
        new, changed = [], []
        records = list(stamped(records, run.texts()))
        for record in records:
            if record.key not in merged:
                new.append(record)
                merged[record.key] = record
            elif task.said(merged[record.key]) != task.said(record):
                changed.append((merged[record.key], record))
        if changed and not replace:
            before, record = changed[0]
            raise InputError(
                f"{file}: {record.rater}'s {task.verdict} of {record.question_id} is {shown_record(before)} in the "
                f"run, and now {shown_record(record)} ({len(changed)} differ); --replace takes the new {task.verdict}s"
            )
        if file.exists():
            file.chmod(file.stat().st_mode & 0o770)
        if changed:
            run.rewrite(file, {**merged, **{record.key: record for _, record in changed}}.values())
        elif new:
            if file.exists():
                repair_last_line(file)
            append_lines(file, "".join(record.model_dump_json() + "\n" for record in new))
        return Added(len(new), len(records) - len(new) - len(changed), len(changed))


def shown_record(record: Any) -> str:
    """A record as messages show it, with its comment: 4, or 5/5/4/5/1 by dimensions; or a verdict."""
    if not isinstance(record, PhysicianScore):
        value = record.preferred if hasattr(record, "preferred") else record.verdict
    elif record.dimensions is None:
        value = str(record.score)
    else:
        value = "/".join(str(points) for points in record.dimensions.model_dump().values())
    comment = getattr(record, "comment", None)
    return f"{value} ('{comment}')" if comment else value
