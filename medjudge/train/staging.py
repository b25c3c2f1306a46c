"""A judge folder is written whole or not at all: all files go to a staging folder in it first."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from transformers.trainer_utils import get_last_checkpoint

from medjudge.errors import InputError, notify
from medjudge.judge.card import CURVES_FILE
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
    checkpoints = folder / CHECKPOINTS
    last: str | None = get_last_checkpoint(str(checkpoints)) if checkpoints.is_dir() else None
    return last


@contextmanager
def whole_or_nothing(folder: Path, writes: bool) -> Iterator[None]:
    """Removes what a failed or stopped run wrote, but for what `--resume` can continue from.

    Args:
        folder: The judge folder. Files that the run did not write are left alone.
        writes: Whether this is the process that writes.
    """
    had_checkpoints = (folder / CHECKPOINTS).exists()
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
    """Moves the files from `staging` into the folder, and removes the checkpoints."""
    for path in sorted(staging(folder).iterdir()):
        os.replace(path, folder / path.name)
    for name in (_STAGING, CHECKPOINTS):
        shutil.rmtree(folder / name, ignore_errors=True)
