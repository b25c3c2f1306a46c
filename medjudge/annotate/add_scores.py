"""Adds physicians' scores to a run, under a lock of their own."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

from medjudge.annotate.plan import plan_file
from medjudge.errors import InputError
from medjudge.provenance import same, stamped
from medjudge.records import PhysicianScore
from medjudge.store import Run, append_lines, repair_last_line


class Added(NamedTuple):
    """How many scores were new, in the run already, or replaced another one."""

    new: int
    same: int
    replaced: int


def scores_lock(run: Run) -> FileLock:
    """Gives one process and thread at a time access to the scores; the system frees it when a process dies."""
    file = plan_file(run).with_name("scores.lock")
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    return FileLock(file, mode=0o600)


def add_scores(run: Run, scores: Sequence[PhysicianScore], replace: bool = False, agreed: bool = False) -> Added:
    """Adds scores to `physician_scores.jsonl` of the run, or agreed ones to `adjudicated.jsonl`.

    They are on disk when this returns.

    A score that is there already adds nothing. Others who add or read under `scores_lock` wait. Users outside the
    file's group lose access to it, whatever its permissions were.

    Args:
        replace: Whether a score replaces a different one by the same rater for the same answer.
        agreed: Whether these are scores that a third physician recorded where two differ.

    Raises:
        InputError: The run has a different score by the same rater for the same answer, and `replace` is not set.
            Nothing is written.
    """
    with scores_lock(run):
        file = run.adjudicated_file if agreed else run.physicians_file
        before_this: Sequence[PhysicianScore] = run.adjudicated() if agreed else run.physician_scores()
        merged, texts = {score.key: score for score in before_this}, run.texts()
        new: list[PhysicianScore] = []
        changed: list[tuple[PhysicianScore, PhysicianScore]] = []
        for score in stamped(scores, texts):
            before = merged.get(score.key)
            if before is None:
                new.append(score)
                merged[score.key] = score
            elif not same(before, score):
                changed.append((before, score))
        if changed and not replace:
            before, score = changed[0]
            more = f", and {len(changed) - 1} more like it" if len(changed) > 1 else ""
            raise InputError(
                f"{file}: {score.rater} gave the answer of {score.model} to {score.question_id} "
                f"{shown_score(before)}, and now {shown_score(score)}{more}; --replace takes the new scores"
            )
        if file.exists():
            file.chmod(file.stat().st_mode & 0o770)
        if changed:
            run.rewrite(file, {**merged, **{score.key: score for _, score in changed}}.values())
        elif new:
            _append(file, new)
        return Added(len(new), len(scores) - len(new) - len(changed), len(changed))


def _append(path: Path, scores: Sequence[PhysicianScore]) -> None:
    if path.exists():
        repair_last_line(path)
    append_lines(path, "".join(score.model_dump_json() + "\n" for score in scores))


def shown_score(score: PhysicianScore) -> str:
    """A score as messages show it, with its comment: 4, or 5/5/4/5/1 by dimensions."""
    if score.dimensions is None:
        values = str(score.score)
    else:
        values = "/".join(str(points) for points in score.dimensions.model_dump().values())
    return f"{values} ('{score.comment}')" if score.comment else values
