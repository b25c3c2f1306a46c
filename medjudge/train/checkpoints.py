"""Checkpoints by the clock, so that a run that is killed loses minutes and not an epoch."""

import time
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast
from transformers import TrainerCallback


def checkpoint_step(checkpoint: str | Path) -> int:
    """The optimizer step that a checkpoint was written after, from the name of its folder."""
    return int(Path(checkpoint).name.rpartition("-")[2])


def kept_step(trainer: Any) -> int:
    """The step whose weights a trainer has after training: that of the best checkpoint, or the last."""
    best = trainer.state.best_model_checkpoint if trainer.args.load_best_model_at_end else None
    return int(trainer.state.global_step) if best is None else checkpoint_step(best)


class TimedCheckpoints(TrainerCallback):
    """Saves a checkpoint every so many minutes, beside those of `save_strategy`.

    The loss is logged with every checkpoint: a run that resumes then averages it over the same steps.

    Args:
        minutes: From one checkpoint to the next; 0 for none by the clock.
    """

    def __init__(self, minutes: float) -> None:
        self._seconds = 60 * minutes
        self._last_save = time.monotonic()
        self._saved_step = 0

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._last_save, self._saved_step = time.monotonic(), state.global_step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # An epoch is evaluated after its last step. A run that resumes between the two would skip the evaluation.
        self._save_where_due(args, state, control, allowed=not float(state.epoch).is_integer())

    def on_epoch_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        # A checkpoint that was complete is not written a second time.
        self._save_where_due(args, state, control, allowed=state.global_step > self._saved_step)

    def on_save(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._last_save, self._saved_step = time.monotonic(), state.global_step

    def _save_where_due(self, args: Any, state: Any, control: Any, allowed: bool) -> None:
        if self._seconds > 0 and allowed:
            due = torch.tensor(int(time.monotonic() - self._last_save >= self._seconds), device=args.device)
            control.should_save |= bool(broadcast(due))  # all processes save together
        # With save_strategy best, an evaluation decides whether to save after the log of its step.
        control.should_log |= control.should_save or control.should_evaluate
