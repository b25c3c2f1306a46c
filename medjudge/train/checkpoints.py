"""Checkpoints by the clock, and a judge folder that is written whole or not at all."""

import os
import re
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast
from transformers import TrainerCallback
from transformers.trainer import TRAINER_STATE_NAME

from medjudge.errors import InputError, notify
from medjudge.files import read_json
from medjudge.train.arguments import CHECKPOINTS, TENSORBOARD
from medjudge.train.checks import NotFiniteError


def checkpoint_step(checkpoint: str | Path) -> int:
    """The optimizer step that a checkpoint was written after, from the name of its folder."""
    return int(Path(checkpoint).name.rpartition("-")[2])


def kept_step(trainer: Any) -> int:
    """The step whose weights a trainer has after training: that of the best checkpoint, or the last."""
    best = trainer.state.best_model_checkpoint if trainer.args.load_best_model_at_end else None
    return int(trainer.state.global_step) if best is None else checkpoint_step(best)


class TimedCheckpoints(TrainerCallback):
    """Saves a checkpoint every so many minutes (0 for none), in addition to those of `save_strategy`.

    The loss is logged with every checkpoint: a run that resumes then averages it over the same steps.
    """

    def __init__(self, minutes: float) -> None:
        self._seconds = 60 * minutes
        self._last_save = time.monotonic()
        self._saved_step = 0

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # An epoch is evaluated after its last step. A run that resumes between the two would skip the evaluation.
        self._save_where_due(args, state, control, allowed=not float(state.epoch).is_integer())

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # A checkpoint that was complete is not written a second time.
        self._save_where_due(args, state, control, allowed=state.global_step > self._saved_step)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._last_save, self._saved_step = time.monotonic(), state.global_step

    on_train_begin = on_save

    def _save_where_due(self, args: Any, state: Any, control: Any, allowed: bool) -> None:
        if self._seconds > 0 and allowed:
            due = torch.tensor(int(time.monotonic() - self._last_save >= self._seconds), device=args.device)
            control.should_save |= bool(broadcast(due))  # all processes save together
        # With save_strategy best, an evaluation decides whether to save after the log of its step.
        control.should_log |= control.should_save or control.should_evaluate


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
    complete = [path for path, is_complete in _checkpoints(folder).items() if is_complete]
    return str(max(complete, key=checkpoint_step)) if complete else None


def _checkpoints(folder: Path) -> dict[Path, bool]:
    """The checkpoints, and which were written to their end: the trainer's state is written last."""
    found = {}
    for path in (folder / CHECKPOINTS).glob("checkpoint-*"):
        if re.fullmatch(r"checkpoint-\d+", path.name):
            found[path] = False
            with suppress(InputError):
                read_json(path / TRAINER_STATE_NAME)
                found[path] = True
    return found


@contextmanager
def whole_or_nothing(folder: Path, writes: bool) -> Iterator[None]:
    """Removes what a failed or stopped run wrote into a judge folder, but for what `--resume` can continue from.

    Files that the run did not write are left alone. `writes` says whether this is the process that writes.
    """
    had_checkpoints = (folder / CHECKPOINTS).exists()
    if writes:
        for checkpoint, is_complete in _checkpoints(folder).items():
            if not is_complete:  # a run was killed while it wrote
                shutil.rmtree(checkpoint)
    try:
        yield
    except BaseException as error:
        if writes:
            shutil.rmtree(folder / STAGING, ignore_errors=True)
            kept = last_checkpoint(folder)
            if kept is None or isinstance(error, NotFiniteError):
                if not had_checkpoints:
                    shutil.rmtree(folder / CHECKPOINTS, ignore_errors=True)
                shutil.rmtree(folder / TENSORBOARD, ignore_errors=True)
                for left in (folder / "training", folder):
                    with suppress(OSError):  # it does not exist, or holds something else
                        left.rmdir()
            if not isinstance(error, Exception):
                nothing = " before its first checkpoint: nothing is kept, and the same command starts it again"
                how = f": {kept} is kept; the same command with --resume continues from it" if kept else nothing
                notify(f"\ntraining stopped{how}")
        raise


STAGING = ".staging"
"""Holds a judge's files, within its folder, until all of them are written."""


def move_into_place(folder: Path) -> None:
    """Moves the files from `STAGING` into the folder."""
    for path in sorted((folder / STAGING).iterdir()):
        os.replace(path, folder / path.name)
    (folder / STAGING).rmdir()
