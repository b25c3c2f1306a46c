"""Training that is stopped, killed or fails: what is left, what is said, and how it goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from recipe_runs import REPOSITORY, refused, train
from safetensors.torch import load_file, save_file
from transformers import Trainer

from medjudge.errors import InputError
from medjudge.judge.folder import read_card
from medjudge.train.checkpoints import checkpoint_step, last_checkpoint

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
    while (last := last_checkpoint(folder)) is None or checkpoint_step(last) < step:
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
    last = checkpoint_step(str(last_checkpoint(folder)))
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
    left = sorted(checkpoint_step(path) for path in (folder / "checkpoints").iterdir())
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
    assert checkpoint_step(last) in (2 * epoch - 1, 2 * epoch)  # the latter where the evaluation was the best


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


@pytest.mark.slow
def test_resume_goes_on_from_the_checkpoint_and_ends_where_one_run_ends(recipe, tmp_path, stopped) -> None:
    def halves(shift: float) -> Path:
        """Trains, is stopped after the first checkpoint, as by Ctrl-C, and resumes from that one."""
        folder = tmp_path / f"halves{shift}"
        arguments = recipe("ordinal", output_dir=folder, load_best_model_at_end=False)
        with stopped(step=3), pytest.raises(KeyboardInterrupt):
            train(arguments)
        assert sorted(path.name for path in folder.iterdir()) == ["checkpoints", "training"]
        with pytest.raises(InputError, match="add --resume"):
            train(arguments)
        first = folder / "checkpoints" / "checkpoint-2" / "model.safetensors"
        tensors = load_file(first)
        save_file({**tensors, "first_cut": tensors["first_cut"] + shift}, first)
        return train([*arguments, "--resume"])

    arguments = recipe("ordinal", output_dir=tmp_path / "whole", load_best_model_at_end=False)
    whole = train(arguments)
    resumed, shifted = halves(0.0), halves(3.0)
    for name in ("adapter_model.safetensors", "head.safetensors"):
        uninterrupted, other = load_file(whole / name), load_file(resumed / name)
        assert all(torch.allclose(uninterrupted[key], other[key], atol=1e-6) for key in uninterrupted)
    # And the checkpoint is what it went on from: a change in it is still there at the end.
    cut = [float(load_file(folder / "head.safetensors")["first_cut"]) for folder in (whole, shifted)]
    assert cut[1] - cut[0] == pytest.approx(3.0, abs=0.2)
    assert not (resumed / "checkpoints").exists()


@pytest.mark.parametrize("logged", ["steps", "no"])
def test_a_loss_that_is_no_number_ends_training(logged, recipe, tmp_path, capsys) -> None:
    arguments = recipe("ordinal", learning_rate=1e38, logging_strategy=logged, eval_strategy="no")
    assert refused(arguments, capsys, "lower learning_rate (now 1e+38)")
    assert not (tmp_path / "judges" / "ordinal").exists()


@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_out_of_memory_says_what_to_make_smaller(kind, recipe, tmp_path, monkeypatch, capsys):
    def too_much(*_: object, **__: object) -> torch.Tensor:
        return torch.empty(2**50)  # the CPU's own allocator refuses

    monkeypatch.setattr(Trainer, "training_step", too_much)
    arguments = recipe(kind)
    assert refused(
        arguments, capsys, "out of memory: training does not fit the CPU's memory; lower per_device_train_bat"
    )
    assert not (tmp_path / "judges" / kind).exists()


@pytest.mark.slow
def test_out_of_memory_after_a_checkpoint_leaves_it_for_resume(recipe, stopped, tmp_path, capsys) -> None:
    arguments = recipe("ordinal")
    folder = tmp_path / "judges" / "ordinal"
    with stopped(step=3, error=torch.OutOfMemoryError, message="CUDA out of memory."):
        assert refused(arguments, capsys, "out of memory")
    assert not (folder / "adapter_model.safetensors").exists()
    card = read_card(train([*arguments, "--resume"]))
    assert [step for step, _ in card.training["loss"]] == [1, 2, 3, 4]


def test_other_errors_are_not_taken_for_want_of_memory(trained, stopped, tmp_path) -> None:
    with stopped(step=1, error=RuntimeError, message="shape mismatch"), pytest.raises(RuntimeError, match="shape"):
        trained("ordinal")
    assert not (tmp_path / "judges" / "ordinal").exists()
