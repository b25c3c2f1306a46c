"""Training that is killed: it continues within an epoch, and from a checkpoint that was written to its end."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from recipe_runs import REPOSITORY, train

from medjudge.judge.folder import read_card
from medjudge.train.checkpoints import last_checkpoint

BY_THE_CLOCK = {
    "save_strategy": "best",
    "save_minutes": 1e-6,  # after every step
    "eval_strategy": "epoch",
    "max_steps": -1,
    "num_train_epochs": 3,
    "logging_steps": 3,
}


def killed_after(step: int, arguments: list[str], folder: Path) -> None:
    """Runs the recipe in a process of its own, and kills it once it has a checkpoint of this step or a later one."""
    process = subprocess.Popen(
        [sys.executable, "recipes/train_judge.py", *arguments],
        cwd=REPOSITORY,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 300
    while (last := last_checkpoint(folder)) is None or int(last.rpartition("-")[2]) < step:
        assert process.poll() is None, process.stderr and process.stderr.read()[-3000:]
        assert time.monotonic() < deadline
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()


def losses(folder: Path) -> np.ndarray:
    return np.array(read_card(folder).training["loss"])


@pytest.mark.slow
def test_a_killed_run_goes_on_within_an_epoch_with_the_same_losses(trained, recipe, tmp_path) -> None:
    """Accumulated batches, a best checkpoint before the kill, and a loss that is logged every third step."""
    options = BY_THE_CLOCK | {"gradient_accumulation_steps": 2, "num_train_epochs": 2, "max_length": 1536}
    whole = trained("generative", **options, output_dir=tmp_path / "whole")
    folder = tmp_path / "killed"
    arguments = recipe("generative", **options, output_dir=folder)
    steps = int(losses(whole)[-1, 0])
    epoch = steps // 2
    killed_after(epoch + 2, arguments, folder)
    last = int(str(last_checkpoint(folder)).rpartition("-")[2])
    assert last % epoch != 0
    assert last < steps
    assert not (folder / "judge.json").exists()
    resumed = train([*arguments, "--resume"])
    assert losses(resumed) == pytest.approx(losses(whole), rel=1e-4)
    for name in ("validation", "untuned"):
        assert read_card(resumed).training[name] == pytest.approx(read_card(whole).training[name], abs=1e-3)
    assert not (resumed / "checkpoints").exists()


@pytest.mark.slow
def test_the_best_checkpoint_outlives_those_by_the_clock(recipe, tmp_path, stopped, monkeypatch) -> None:
    monkeypatch.setattr(
        "medjudge.train.ordinal.agreement_measures",
        lambda rows, level: {"quadratic_kappa": -next(evaluations), "usable_agreement": 0.5},
    )
    evaluations = iter(range(100))  # each is worse than the one before
    kept = []
    monkeypatch.setattr("train_judge.write_curves", lambda path, history, step: kept.append(step))
    arguments = recipe("ordinal", **BY_THE_CLOCK)
    folder = tmp_path / "judges" / "ordinal"
    with stopped(step=30), pytest.raises(KeyboardInterrupt):
        train(arguments)
    left = sorted(int(path.name.rpartition("-")[2]) for path in (folder / "checkpoints").iterdir())
    assert len(left) == 2
    best = left[0]
    assert left[1] > best + 1
    train([*arguments, "--resume"])
    assert kept == [best]


@pytest.mark.slow
def test_a_checkpoint_by_the_clock_skips_no_evaluation(recipe, tmp_path, stopped) -> None:
    """An epoch ends after its last step with an evaluation: no checkpoint lies between the two."""
    arguments = recipe("ordinal", **BY_THE_CLOCK)
    whole = train([*arguments, "--output_dir", str(tmp_path / "whole")])
    epoch = int(losses(whole)[-1, 0]) // 3
    with stopped(step=2 * epoch + 1), pytest.raises(KeyboardInterrupt):
        train(arguments)
    last = last_checkpoint(tmp_path / "judges" / "ordinal")
    assert last is not None
    assert int(last.rpartition("-")[2]) in (2 * epoch - 1, 2 * epoch)  # the latter where the evaluation was the best


@pytest.mark.slow
def test_a_checkpoint_that_was_half_written_is_not_resumed_from(recipe, tmp_path, stopped) -> None:
    arguments = recipe("ordinal", load_best_model_at_end=False)
    folder = tmp_path / "judges" / "ordinal"
    with stopped(step=4), pytest.raises(KeyboardInterrupt):
        train(arguments)
    whole = folder / "checkpoints" / "checkpoint-2"
    for name, cut in (("checkpoint-3", False), ("checkpoint-10", True)):
        half = folder / "checkpoints" / name
        half.mkdir()
        (half / "model.safetensors").write_bytes((whole / "model.safetensors").read_bytes()[:100])
        if cut:
            (half / "trainer_state.json").write_text((whole / "trainer_state.json").read_text()[:100])
    assert last_checkpoint(folder) == str(whole)
    judge = train([*arguments, "--resume"])
    assert losses(judge)[:, 0].tolist() == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_run_that_was_killed_after_its_last_step_takes_no_other(recipe, tmp_path, monkeypatch) -> None:
    arguments = recipe("ordinal", max_steps=3, save_steps=1, eval_steps=1, learning_rate=1e-2)
    arguments += ["--lr_scheduler_type", "constant"]

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("train_judge.move_into_place", killed)
        with pytest.raises(KeyboardInterrupt):
            train(arguments)
    judge = train([*arguments, "--resume"])
    assert losses(judge)[:, 0].tolist() == [1, 2, 3]
