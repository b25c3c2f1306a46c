"""What a training run shows while it goes on, which checkpoint becomes the judge, and the curves that it leaves."""

import io
import re
import sys

import numpy as np
import pytest
from recipe_runs import changed, good_or_bad

from medjudge.judge.folder import read_card
from medjudge.train import ordinal as ordinal_module
from medjudge.train import progress as progress_module
from medjudge.train.progress import write_curves

HISTORY = [
    {"step": 10, "loss": 2.0, "epoch": 0.5},
    {"step": 20, "loss": 1.5},
    {"step": 20, "eval_loss": 1.8, "eval_quadratic_kappa": 0.3, "eval_usable_agreement": 0.7},
    {"step": 30, "loss": 1.2},
    {"step": 40, "eval_loss": 1.9, "eval_quadratic_kappa": 0.2, "eval_usable_agreement": 0.65},
    {"step": 40, "train_loss": 1.6},
]


def test_the_plot_shows_all_curves_and_the_step_that_was_kept(tmp_path) -> None:
    path = tmp_path / "training" / "curves.svg"
    write_curves(path, HISTORY, kept_step=20)
    text = path.read_text()
    for label in ("training", "validation", "quadratic kappa", "usable", "kept: 20"):
        assert f">{label}<" in text
    # Every value lies as high as it should: the training losses fall by 0.5 and 0.3.
    heights = [float(height) for height in re.findall(r'<use [^>]*y="([\d.]+)"[^>]*style="fill: #5b6875', text)][:3]
    assert (heights[1] - heights[0]) / (heights[2] - heights[1]) == pytest.approx(0.5 / 0.3, rel=0.01)
    first = path.read_bytes()
    write_curves(path, HISTORY, kept_step=20)
    assert path.read_bytes() == first  # no date, no random names


@pytest.mark.slow
def test_the_judge_is_the_checkpoint_with_the_highest_quadratic_kappa(trained, training_files, monkeypatch) -> None:
    """As the default, with neither metric nor strategy in the config."""
    for path in training_files:
        changed(path, good_or_bad)
    kept = []
    monkeypatch.setattr("train_judge.write_curves", lambda *arguments: kept.append(arguments))
    # It starts from nothing, and so with a kappa of 0: the first head would be right about these answers at once.
    monkeypatch.setattr(ordinal_module, "start_from_similarity", lambda *arguments: None)
    card = read_card(trained("ordinal", max_steps=24, eval_steps=1, save_strategy=None, save_steps=None))
    _, history, step = kept[0]
    kappas = {entry["step"]: entry["eval_quadratic_kappa"] for entry in history if "eval_quadratic_kappa" in entry}
    assert len(set(kappas.values())) > 1
    assert kappas[step] == max(kappas.values())
    assert card.training["validation"]["eval_quadratic_kappa"] == pytest.approx(kappas[step], abs=1e-6)


@pytest.mark.slow
def test_the_curves_go_to_tensorboard_and_a_plot(trained) -> None:
    events = pytest.importorskip(
        "tensorboard.backend.event_processing.event_accumulator",
        reason="tensorboard is not installed; pip install 'medjudge[tensorboard]'",
    )
    folder = trained("ordinal")
    (file,) = (folder / "training" / "tensorboard").iterdir()
    recorded = events.EventAccumulator(str(file)).Reload()
    losses = [(point.step, point.value) for point in recorded.Scalars("train/loss")]
    assert np.array(losses) == pytest.approx(np.array(read_card(folder).training["loss"]), abs=1e-5)
    assert [point.step for point in recorded.Scalars("eval/quadratic_kappa")] == [2, 4]
    assert "quadratic kappa" in (folder / "training" / "curves.svg").read_text()
    assert "(training/curves.svg)" in (folder / "README.md").read_text()


@pytest.mark.slow
def test_curves_that_nothing_can_draw_are_said_to_be_missing(trained, capsys, monkeypatch) -> None:
    monkeypatch.setattr(progress_module, "find_spec", lambda name: None)
    folder = trained("ordinal")
    printed = capsys.readouterr().err
    assert "no curves for TensorBoard: it is not installed (pip install tensorboard)" in printed
    assert "no training/curves.svg: matplotlib is not installed" in printed
    assert not (folder / "training").exists()
    assert "Curves" not in (folder / "README.md").read_text()


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
