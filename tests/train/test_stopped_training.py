"""Training that is stopped or fails: what is left, what is said, and how it goes on."""

from pathlib import Path

import pytest
import torch
from recipe_runs import refused, train
from safetensors.torch import load_file, save_file
from transformers import Trainer

from medjudge.errors import InputError
from medjudge.judge.folder import read_card

CPU = torch.device("cpu")


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
