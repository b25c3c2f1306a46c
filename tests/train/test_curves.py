"""The plot of a training run."""

import re

import pytest

from medjudge.train.curves import curve, write_curves

pytest.importorskip("matplotlib", reason="matplotlib is not installed; pip install 'medjudge[report]'")

HISTORY = [
    {"step": 10, "loss": 2.0, "epoch": 0.5},
    {"step": 20, "loss": 1.5},
    {"step": 20, "eval_loss": 1.8, "eval_quadratic_kappa": 0.3, "eval_usable_agreement": 0.7},
    {"step": 30, "loss": 1.2},
    {"step": 40, "eval_loss": 1.9, "eval_quadratic_kappa": 0.2, "eval_usable_agreement": 0.65},
    {"step": 40, "train_loss": 1.6},
]


def test_a_curve_has_one_value_a_step_the_last_logged() -> None:
    assert curve(HISTORY, "loss") == ([10, 20, 30], [2.0, 1.5, 1.2])
    assert curve([*HISTORY, {"step": 20, "eval_loss": 1.0}], "eval_loss") == ([20, 40], [1.0, 1.9])
    assert curve(HISTORY, "eval_f1") == ([], [])


def test_the_plot_shows_all_curves_and_the_step_that_was_kept(tmp_path) -> None:
    path = tmp_path / "training" / "curves.svg"
    assert write_curves(path, HISTORY, kept_step=20)
    text = path.read_text()
    for label in ("training", "validation", "quadratic kappa", "usable", "kept: 20"):
        assert f">{label}<" in text
    # Every value lies as high as it should: the training losses fall by 0.5 and 0.3.
    heights = [float(height) for height in re.findall(r'<use [^>]*y="([\d.]+)"[^>]*style="fill: #5b6875', text)][:3]
    assert (heights[1] - heights[0]) / (heights[2] - heights[1]) == pytest.approx(0.5 / 0.3, rel=0.01)
    first = path.read_bytes()
    write_curves(path, HISTORY, kept_step=20)
    assert path.read_bytes() == first  # no date, no random names


def test_what_was_not_logged_is_said_to_be_missing(tmp_path) -> None:
    assert write_curves(tmp_path / "a.svg", HISTORY[:2], None)
    assert "not measured" in (tmp_path / "a.svg").read_text()
    assert "kept" not in (tmp_path / "a.svg").read_text()
    assert not write_curves(tmp_path / "b.svg", [{"step": 1, "train_loss": 1.0}], None)
    assert not (tmp_path / "b.svg").exists()
