"""One live line of a training run in place of a dict for every log: step, loss, agreement, time left."""

import time
from collections.abc import Mapping
from typing import Any

from transformers import PrinterCallback, ProgressCallback, TrainerCallback

from medjudge.screen import ProgressBar, progress_bar, say

_SECONDS_BETWEEN_LINES = 300
_SHOWN = {
    "loss": "loss",
    "eval_loss": "validation loss",
    "eval_usable_agreement": "agreement",
    "eval_quadratic_kappa": "kappa",
}
"""Measures of the trainer's log, and what they are called on the screen."""


def show_live_line(trainer: Any) -> None:
    """Replaces a trainer's own bar or printed dicts."""
    trainer.remove_callback(ProgressCallback)
    trainer.remove_callback(PrinterCallback)
    trainer.add_callback(LiveLine())


class LiveLine(TrainerCallback):
    """On a terminal, one bar; elsewhere, a line for each evaluation, and one every five minutes between them."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._bar: ProgressBar | None = None
        self._first_step = 0
        self._start = self._last_line = time.monotonic()

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self._first_step = state.global_step
        self._start = self._last_line = time.monotonic()
        if state.is_world_process_zero:
            self._bar = progress_bar(state.max_steps, "training", "step", shown=not args.disable_tqdm)
            self._bar.update(state.global_step)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        measured = {name: float(logs[key]) for key, name in _SHOWN.items() if logs and key in logs}
        self._values |= measured
        if self._bar is None or not measured:
            return
        self._bar.set_postfix_str(", ".join(f"{name} {value:.3f}" for name, value in self._values.items()))
        due = "validation loss" in measured or time.monotonic() - self._last_line >= _SECONDS_BETWEEN_LINES
        if self._bar.disable and due:
            self._last_line = time.monotonic()
            say(self._line(state.global_step, state.max_steps))

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None

    def _line(self, step: int, steps: int) -> str:
        values = "".join(f", {name} {value:.3f}" for name, value in self._values.items())
        done = step - self._first_step
        left = (steps - step) * (time.monotonic() - self._start) / done if done else 0.0
        return f"training: step {step} of {steps}{values}" + (f", {duration(left)} left" if left else "")


def duration(seconds: float) -> str:
    """A time in the unit that fits, such as "4 min"."""
    if seconds < 60:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h"
