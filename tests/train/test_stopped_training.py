"""Training that is stopped, killed or fails: what is left, what is said, and how it goes on."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from recipe_runs import REPOSITORY, refused
from safetensors.torch import load_file
from transformers import Trainer

from medjudge.errors import InputError
from medjudge.judge.folder import read_card
from medjudge.train.checkpoints import checkpoint_step, kept_step, last_checkpoint

BY_THE_CLOCK = {"save_strategy": "best", "save_minutes": 1e-6}  # after every step
BY_THE_CLOCK |= {"eval_strategy": "epoch", "max_steps": -1, "num_train_epochs": 3, "logging_steps": 3}


@pytest.fixture
def interrupted(trained, stopped, tmp_path):
    """Trains until Ctrl-C within a step; gives the judge folder."""

    def train(step: int, **options: object) -> Path:
        with stopped(step=step), pytest.raises(KeyboardInterrupt):
            trained("ordinal", **options)
        return Path(options.get("output_dir", tmp_path / "judges" / "ordinal"))

    return train


def killed_after(step: int, arguments: list[str], folder: Path) -> None:
    """Runs the recipe in a process of its own, and kills it once it has a checkpoint of this step or a later one."""
    command = [sys.executable, "recipes/train_judge.py", *arguments]
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    process = subprocess.Popen(command, cwd=REPOSITORY, env=environment, stderr=subprocess.PIPE, text=True)
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
    whole, folder = trained("generative", **options, output_dir=tmp_path / "whole"), tmp_path / "killed"
    steps = int(losses(whole)[-1, 0])
    killed_after(steps // 2 + 2, recipe("generative", **options, output_dir=folder), folder)
    last = checkpoint_step(str(last_checkpoint(folder)))
    assert last % (steps // 2) != 0
    assert last < steps
    assert not (folder / "judge.json").exists()
    resumed = trained("generative", **options, output_dir=folder, resume=True)
    assert losses(resumed) == pytest.approx(losses(whole), rel=1e-4)
    for name in ("validation", "untuned"):
        assert read_card(resumed).training[name] == pytest.approx(read_card(whole).training[name], abs=1e-3)
    assert not (resumed / "checkpoints").exists()


@pytest.mark.slow
def test_the_best_checkpoint_outlives_those_by_the_clock(trained, interrupted, trainers, monkeypatch) -> None:
    kappas = iter(range(0, -100, -1))  # each is worse than the one before
    measures = "medjudge.train.ordinal.agreement_measures"
    monkeypatch.setattr(measures, lambda rows, level: {"quadratic_kappa": next(kappas), "usable_agreement": 0.5})
    folder = interrupted(30, **BY_THE_CLOCK)
    best, last = sorted(checkpoint_step(path) for path in (folder / "checkpoints").iterdir())
    assert last > best + 1
    trained("ordinal", **BY_THE_CLOCK, resume=True)
    assert kept_step(trainers[-1]) == best


@pytest.mark.slow
def test_a_checkpoint_by_the_clock_skips_no_evaluation(trained, interrupted, tmp_path) -> None:
    """An epoch ends after its last step with an evaluation: no checkpoint lies between the two."""
    whole = trained("ordinal", **BY_THE_CLOCK, output_dir=tmp_path / "whole")
    epoch = int(losses(whole)[-1, 0]) // 3
    last = checkpoint_step(str(last_checkpoint(interrupted(2 * epoch + 1, **BY_THE_CLOCK))))
    assert last in (2 * epoch - 1, 2 * epoch)  # the latter where the evaluation was the best


@pytest.mark.slow
def test_a_checkpoint_that_was_half_written_is_not_resumed_from(trained, interrupted) -> None:
    folder = interrupted(4, load_best_model_at_end=False)
    whole = folder / "checkpoints" / "checkpoint-2"
    for name, file in (("checkpoint-3", "model.safetensors"), ("checkpoint-10", "trainer_state.json")):
        (folder / "checkpoints" / name).mkdir()
        (folder / "checkpoints" / name / file).write_bytes((whole / file).read_bytes()[:100])
    assert last_checkpoint(folder) == str(whole)
    judge = trained("ordinal", load_best_model_at_end=False, resume=True)
    assert losses(judge)[:, 0].tolist() == [1, 2, 3, 4]


@pytest.mark.slow
def test_a_run_that_was_killed_after_its_last_step_takes_no_other(trained, monkeypatch) -> None:
    options = {"max_steps": 3, "save_steps": 1, "eval_steps": 1, "lr_scheduler_type": "constant"}
    with monkeypatch.context() as patch:
        patch.setattr("train_judge.move_into_place", Mock(side_effect=KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            trained("ordinal", **options)
    assert losses(trained("ordinal", **options, resume=True))[:, 0].tolist() == [1, 2, 3]


@pytest.mark.slow
def test_resume_goes_on_from_the_checkpoint_and_ends_where_one_run_ends(trained, interrupted, tmp_path) -> None:
    whole = trained("ordinal", output_dir=tmp_path / "whole", load_best_model_at_end=False)
    options = {"output_dir": tmp_path / "halves", "load_best_model_at_end": False}
    folder = interrupted(3, **options)
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoints", "training"]
    with pytest.raises(InputError, match="add --resume"):
        trained("ordinal", **options)
    resumed = trained("ordinal", **options, resume=True)
    for name in ("adapter_model.safetensors", "head.safetensors"):
        uninterrupted, other = load_file(whole / name), load_file(resumed / name)
        assert all(torch.allclose(uninterrupted[key], other[key], atol=1e-6) for key in uninterrupted)
    assert losses(resumed) == pytest.approx(losses(whole), rel=1e-4)
    assert not (resumed / "checkpoints").exists()


@pytest.mark.parametrize(("step", "kept"), [(1, "nothing is kept"), (3, "checkpoint-2 is kept; the same command with")])
def test_ctrl_c_says_what_is_kept(step, kept, interrupted, capsys) -> None:
    interrupted(step, load_best_model_at_end=False)
    assert kept in capsys.readouterr().err


@pytest.mark.parametrize("logged", ["steps", "no"])
def test_a_loss_that_is_no_number_ends_training(logged, recipe, tmp_path, capsys) -> None:
    arguments = recipe("ordinal", learning_rate=1e38, logging_strategy=logged, eval_strategy="no")
    assert refused(arguments, capsys, "lower learning_rate (now 1e+38)")
    assert not (tmp_path / "judges" / "ordinal").exists()


@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_out_of_memory_says_what_to_make_smaller(kind, recipe, tmp_path, monkeypatch, capsys) -> None:
    # The CPU's own allocator refuses.
    monkeypatch.setattr(Trainer, "training_step", lambda *_, **__: torch.empty(2**50))
    message = "out of memory: training does not fit the CPU's memory; lower per_device_train_bat"
    assert refused(recipe(kind), capsys, message)
    assert not (tmp_path / "judges" / kind).exists()


@pytest.mark.slow
def test_out_of_memory_after_a_checkpoint_leaves_it_for_resume(trained, recipe, stopped, tmp_path, capsys) -> None:
    with stopped(step=3, error=torch.OutOfMemoryError, message="CUDA out of memory."):
        assert refused(recipe("ordinal"), capsys, "out of memory")
    assert not (tmp_path / "judges" / "ordinal" / "adapter_model.safetensors").exists()
    assert losses(trained("ordinal", resume=True))[:, 0].tolist() == [1, 2, 3, 4]


def test_other_errors_are_not_taken_for_want_of_memory(trained, stopped, tmp_path) -> None:
    with stopped(step=1, error=RuntimeError, message="shape mismatch"), pytest.raises(RuntimeError, match="shape"):
        trained("ordinal")
    assert not (tmp_path / "judges" / "ordinal").exists()
