"""The progress of a training run: one live line, and the curves drawn into its judge folder."""

import shutil
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from transformers import PrinterCallback, ProgressCallback, TrainerCallback
from transformers.integrations import TensorBoardCallback

from medjudge.errors import notify
from medjudge.judge.card import CURVES_FILE
from medjudge.plot_style import ACCENT, INK, LINE, SOFT, STYLE
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


_PANELS = {
    "Loss": (("loss", "training", SOFT), ("eval_loss", "validation", ACCENT)),
    "Agreement on validation": (
        ("eval_quadratic_kappa", "quadratic kappa", ACCENT),
        ("eval_usable_agreement", "usable", "#b5651d"),
    ),
}
"""Measures of each panel, what they are called, and their colours."""


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


def write_curves(path: Path, history: Sequence[Mapping[str, Any]], kept_step: int | None) -> None:
    """Draws losses, and agreement on the validation file, over the steps of training, if matplotlib is installed.

    Args:
        path: The SVG file to write.
        kept_step: The step whose checkpoint became the judge; None where it was the last.
    """
    # Of a step that was logged twice, the last value counts.
    names = {name for lines in _PANELS.values() for name, _, _ in lines}
    curves = {name: {int(entry["step"]): float(entry[name]) for entry in history if name in entry} for name in names}
    if find_spec("matplotlib") is None:
        notify(f"no {CURVES_FILE}: matplotlib is not installed (pip install 'medjudge[report]')")
        return
    if not any(curves.values()):
        return
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context():
        matplotlib.rcdefaults()  # whatever the user's own matplotlibrc says
        matplotlib.rcParams.update({**STYLE, "legend.frameon": False, "legend.fontsize": 8.5})
        figure = Figure(figsize=(8.4, 3.1), layout="constrained")
        for axes, (title, lines) in zip(figure.subplots(1, 2), _PANELS.items(), strict=True):
            axes.set_title(title, loc="left", fontsize=10, fontweight="bold")
            axes.set_xlabel("Step")
            axes.grid(axis="y", color=LINE, linewidth=0.5)
            for name, label, colour in lines:
                points = sorted(curves[name].items())
                if points:
                    axes.plot(*zip(*points, strict=True), color=colour, marker="o", markersize=3, label=label)
            if kept_step is not None:
                axes.axvline(kept_step, color=INK, linewidth=0.9, linestyle="--", zorder=0, label=f"kept: {kept_step}")
            if any(curves[name] for name, _, _ in lines):
                axes.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.2), ncols=3)  # below, where no curve passes
            else:
                axes.text(0.5, 0.5, "not measured", transform=axes.transAxes, ha="center", color=SOFT)
        path.parent.mkdir(parents=True, exist_ok=True)
        # Without date and version: the same run gives the same bytes.
        figure.savefig(path, metadata={"Date": None, "Creator": None})
