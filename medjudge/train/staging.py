"""A judge folder is written whole or not at all: all files go to a staging folder in it first."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from transformers.trainer import TRAINER_STATE_NAME

from medjudge.errors import InputError, notify
from medjudge.files import read_json
from medjudge.judge.card import CURVES_FILE
from medjudge.train.checkpoints import checkpoint_step
from medjudge.train.checks import NotFiniteError
from medjudge.train.curves import TENSORBOARD

CHECKPOINTS = "checkpoints"
_STAGING = ".staging"


def staging(folder: Path) -> Path:
    """The folder that holds a judge's files until all of them are written."""
    return folder / _STAGING


def checkpoint_to_resume(folder: Path, resume: bool) -> str | None:
    """The checkpoint that a run continues from; None for a new run.

    Raises:
        InputError: There is no checkpoint to resume from, or there are checkpoints and the run is not to resume.
    """
    last = last_checkpoint(folder)
    if resume and last is None:
        raise InputError(f"--resume: no checkpoint in {folder / CHECKPOINTS}; start without it")
    if last is not None and not resume:
        raise InputError(
            f"{folder / CHECKPOINTS}: holds checkpoints of an earlier run; add --resume, or remove the folder"
        )
    return last


def last_checkpoint(folder: Path) -> str | None:
    """The last complete checkpoint of an interrupted run; None where there is none."""
    complete = [path for path in _checkpoints(folder) if _is_complete(path)]
    return str(max(complete, key=checkpoint_step)) if complete else None


def _checkpoints(folder: Path) -> list[Path]:
    return [path for path in (folder / CHECKPOINTS).glob("checkpoint-*") if re.fullmatch(r"checkpoint-\d+", path.name)]


def _is_complete(checkpoint: Path) -> bool:
    """Whether a checkpoint was written to its end: the trainer's state is written last."""
    try:
        read_json(checkpoint / TRAINER_STATE_NAME)
    except InputError:
        return False
    return True


@contextmanager
def whole_or_nothing(folder: Path, writes: bool) -> Iterator[None]:
    """Removes what a failed or stopped run wrote, but for what `--resume` can continue from.

    Args:
        folder: The judge folder. Files that the run did not write are left alone.
        writes: Whether this is the process that writes.
    """
    had_checkpoints = (folder / CHECKPOINTS).exists()
    if writes:
        for checkpoint in _checkpoints(folder):
            if not _is_complete(checkpoint):  # a run was killed while it wrote
                shutil.rmtree(checkpoint)
    try:
        yield
    except BaseException as error:
        if writes:
            shutil.rmtree(staging(folder), ignore_errors=True)
            if last_checkpoint(folder) is None or isinstance(error, NotFiniteError):
                _remove(folder, had_checkpoints)
            if not isinstance(error, Exception):
                notify(f"\n{_what_is_kept(folder)}")
        raise


def _what_is_kept(folder: Path) -> str:
    """What a stopped run can continue from."""
    checkpoint = last_checkpoint(folder)
    if checkpoint is None:
        return "training stopped before its first checkpoint: nothing is kept, and the same command starts it again"
    return f"training stopped: {checkpoint} is kept; the same command with --resume continues from it"


def _remove(folder: Path, had_checkpoints: bool) -> None:
    if not had_checkpoints:
        shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
    shutil.rmtree(folder / TENSORBOARD, ignore_errors=True)
    (folder / CURVES_FILE).unlink(missing_ok=True)
    for left in (folder / "training", folder):
        with suppress(OSError):  # it does not exist, or holds something else
            left.rmdir()


def move_into_place(folder: Path) -> None:
    """Moves the files from `staging` into the folder."""
    for path in sorted(staging(folder).iterdir()):
        os.replace(path, folder / path.name)
    staging(folder).rmdir()


def remove_checkpoints(folder: Path) -> None:
    """Removes the checkpoints of a finished judge: until its card is written, a killed run needs them."""
    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
