"""The progress of a training run: one live line, and curves for TensorBoard."""

import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import PrinterCallback, ProgressCallback, TrainerCallback
from transformers.integrations import TensorBoardCallback

from medjudge.errors import notify
from medjudge.screen import ProgressBar, progress_bar
from medjudge.train.arguments import TENSORBOARD

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
    """On a terminal, one bar; elsewhere, a line for each evaluation, and one every 30 seconds between them."""

    def __init__(self) -> None:
        self._values: dict[str, float] = {}
        self._bar: ProgressBar | None = None

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.is_world_process_zero:
            self._bar = progress_bar(state.max_steps, "training", "step")
            self._bar.initial = self._bar.n = self._bar.last_print_n = state.global_step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._bar is not None:
            self._bar.update(state.global_step - self._bar.n)

    def on_log(self, args: Any, state: Any, control: Any, logs: Mapping[str, Any] | None = None, **_: Any) -> None:
        measured = {name: float(logs[key]) for key, name in _SHOWN.items() if logs and key in logs}
        self._values |= measured
        if self._bar is not None and measured:
            values = ", ".join(f"{name} {value:.3f}" for name, value in self._values.items())
            self._bar.set_postfix_str(values, refresh="validation loss" in measured)

    def on_train_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def log_to_tensorboard(trainer: Any, folder: Path, resumed: bool) -> None:
    """Has a trainer log for TensorBoard into its judge folder; says so where TensorBoard is not installed."""
    if find_spec("tensorboard") is None:
        notify("no curves for TensorBoard: it is not installed (pip install tensorboard)")
        return
    if not resumed:
        shutil.rmtree(folder / TENSORBOARD, ignore_errors=True)  # of a run that was killed before its first checkpoint
    callback = TensorBoardCallback()
    callback.logging_dir = str(folder / TENSORBOARD)
    trainer.add_callback(callback)
