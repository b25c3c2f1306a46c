"""Training that is stopped or fails: what is left, what is said, and how it goes on."""

from pathlib import Path

import pytest
import torch
from recipe_runs import refused
from safetensors.torch import load_file, save_file
from train_judge import main as train_judge
from transformers import Trainer

from medjudge.errors import InputError
from medjudge.judge.folder import read_card
from medjudge.train.arguments import parse_arguments

CPU = torch.device("cpu")


@pytest.mark.slow
def test_resume_goes_on_from_the_checkpoint_and_ends_where_one_run_ends(
    recipe, tiny_encoder, tmp_path, stopped
) -> None:
    def halves(shift: float) -> Path:
        """Trains, is stopped after the first checkpoint, as by Ctrl-C, and resumes from that one."""
        folder = tmp_path / f"halves{shift}"
        arguments = recipe("ordinal", tiny_encoder, output_dir=folder, load_best_model_at_end=False)
        with stopped(step=3), pytest.raises(KeyboardInterrupt):
            train_judge(*parse_arguments(arguments))
        assert sorted(path.name for path in folder.iterdir()) == ["checkpoints", "training"]
        with pytest.raises(InputError, match="add --resume"):
            train_judge(*parse_arguments(arguments))
        first = folder / "checkpoints" / "checkpoint-2" / "model.safetensors"
        tensors = load_file(first)
        save_file({**tensors, "first_cut": tensors["first_cut"] + shift}, first)
        return train_judge(*parse_arguments([*arguments, "--resume"]))

    arguments = recipe("ordinal", tiny_encoder, output_dir=tmp_path / "whole", load_best_model_at_end=False)
    whole = train_judge(*parse_arguments(arguments))
    resumed, shifted = halves(0.0), halves(3.0)
    for name in ("adapter_model.safetensors", "head.safetensors"):
        uninterrupted, other = load_file(whole / name), load_file(resumed / name)
        assert all(torch.allclose(uninterrupted[key], other[key], atol=1e-6) for key in uninterrupted)
    # And the checkpoint is what it went on from: a change in it is still there at the end.
    cut = [float(load_file(folder / "head.safetensors")["first_cut"]) for folder in (whole, shifted)]
    assert cut[1] - cut[0] == pytest.approx(3.0, abs=0.2)
    assert not (resumed / "checkpoints").exists()


@pytest.mark.parametrize("logged", ["steps", "no"])
def test_a_loss_that_is_no_number_ends_training(logged, recipe, tiny_encoder, tmp_path, capsys) -> None:
    arguments = recipe("ordinal", tiny_encoder, learning_rate=1e38, logging_strategy=logged, eval_strategy="no")
    assert refused(arguments, capsys, "lower learning_rate (now 1e+38)")
    assert not (tmp_path / "judges" / "ordinal").exists()


@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_out_of_memory_says_what_to_make_smaller(kind, recipe, tiny_encoder, tiny_lm, tmp_path, monkeypatch, capsys):
    def too_much(*_: object, **__: object) -> torch.Tensor:
        return torch.empty(2**50)  # the CPU's own allocator refuses

    monkeypatch.setattr(Trainer, "training_step", too_much)
    arguments = recipe(kind, tiny_encoder if kind == "ordinal" else tiny_lm)
    assert refused(
        arguments, capsys, "out of memory: training does not fit the CPU's memory; lower per_device_train_bat"
    )
    assert not (tmp_path / "judges" / kind).exists()


@pytest.mark.slow
def test_out_of_memory_after_a_checkpoint_leaves_it_for_resume(recipe, tiny_encoder, stopped, tmp_path, capsys) -> None:
    arguments = recipe("ordinal", tiny_encoder)
    folder = tmp_path / "judges" / "ordinal"
    with stopped(step=3, error=torch.OutOfMemoryError, message="CUDA out of memory."):
        assert refused(arguments, capsys, "out of memory")
    assert not (folder / "adapter_model.safetensors").exists()
    card = read_card(train_judge(*parse_arguments([*arguments, "--resume"])))
    assert [step for step, _ in card.training["loss"]] == [1, 2, 3, 4]


def test_other_errors_are_not_taken_for_want_of_memory(recipe, tiny_encoder, stopped, tmp_path) -> None:
    with stopped(step=1, error=RuntimeError, message="shape mismatch"), pytest.raises(RuntimeError, match="shape"):
        train_judge(*parse_arguments(recipe("ordinal", tiny_encoder)))
    assert not (tmp_path / "judges" / "ordinal").exists()
