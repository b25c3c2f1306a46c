"""The lines of a training run that goes on, and the checkpoint that becomes the judge."""

import io
import re
import sys

import numpy as np
import pytest
from recipe_runs import changed, good_or_bad

from medjudge.judge.folder import read_card
from medjudge.train import ordinal as ordinal_module
from medjudge.train.checkpoints import kept_step


@pytest.mark.slow
def test_the_judge_is_the_checkpoint_with_the_highest_kappa(trained, training_files, trainers, monkeypatch) -> None:
    """As the default, with neither metric nor strategy in the config."""
    for path in training_files:
        changed(path, good_or_bad)
    # It starts from nothing, and so with a kappa of 0: the first head would be right about these answers at once.
    monkeypatch.setattr(ordinal_module, "start_from_similarity", lambda *arguments: None)
    card = read_card(trained("ordinal", max_steps=24, eval_steps=1, save_strategy=None, save_steps=None))
    (trainer,) = trainers
    name = "eval_quadratic_kappa"
    kappas = {entry["step"]: entry[name] for entry in trainer.state.log_history if name in entry}
    assert len(set(kappas.values())) > 1
    assert kappas[kept_step(trainer)] == max(kappas.values())
    assert card.training["validation"][name] == pytest.approx(max(kappas.values()), abs=1e-6)


@pytest.mark.slow
def test_the_curves_go_to_tensorboard(trained) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator", reason="no tensorboard")
    folder = trained("ordinal")
    (file,) = (folder / "training" / "tensorboard").iterdir()
    recorded = events.EventAccumulator(str(file)).Reload()
    losses = [(point.step, point.value) for point in recorded.Scalars("train/loss")]
    assert np.array(losses) == pytest.approx(np.array(read_card(folder).training["loss"]), abs=1e-5)
    assert [point.step for point in recorded.Scalars("eval/quadratic_kappa")] == [2, 4]


def test_off_a_terminal_each_evaluation_is_one_line(trained, capsys) -> None:
    trained("ordinal")
    output = capsys.readouterr()
    assert "{'" not in output.out + output.err
    lines = [line for line in output.err.splitlines() if line.startswith("training: ")]
    value = r"-?\d+\.\d{3}|nan"
    shown = ", ".join(f"{name} ({value})" for name in ("loss", "validation loss", "agreement", "kappa"))
    for line, step in zip(lines, (2, 4), strict=True):
        assert re.match(rf"training: {step} of 4 steps, \S+ left, {shown}", line), lines


def test_on_a_terminal_there_is_one_live_line(trained, monkeypatch) -> None:
    screen = io.StringIO()
    monkeypatch.setattr(screen, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stderr", screen)
    trained("ordinal")
    bars = [part for part in re.split(r"[\r\n]", screen.getvalue()) if part.startswith("training:")]
    assert re.search(r"training: 100%.*loss \d\.\d+, validation loss \d\.\d+, agreement \d\.\d+", bars[-1]), bars
    assert "{'" not in screen.getvalue()
