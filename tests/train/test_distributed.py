"""Several processes: the same training as one process with as large a batch, plain (DDP) and with DeepSpeed."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from recipe_runs import changed, train
from safetensors.torch import load_file

from medjudge.judge.folder import load_judge, read_card

LOSS_TOLERANCE = 1e-4
"""Relative, of each step's loss: sums of 32-bit numbers in another order, through six steps of Adam."""


@pytest.fixture
def weighted(training_files: tuple[Path, Path]) -> None:
    """Lines of very different weight: a mean over processes of means over lines would be another loss."""
    weights = np.random.default_rng(0).choice([0.1, 1.0, 5.0], 1000).tolist()
    changed(training_files[0], lambda number, line: line.update(weight=weights[number]))


def curve(folder: Path) -> np.ndarray:
    """(step, loss) of each step."""
    return np.array(read_card(folder).training["loss"])


@pytest.fixture
def six_steps(recipe, tmp_path):
    """Arguments of six steps in the first epoch, in a folder of the name given."""

    def build(kind: str, name: str, batch: int, **options: object) -> list[str]:
        steps = {"max_steps": 6, "eval_strategy": "no", "save_strategy": "no", **options}
        steps |= {} if kind == "ordinal" else {"max_length": 1536}
        return recipe(kind, output_dir=tmp_path / name, per_device_train_batch_size=batch, **steps)

    return build


@pytest.mark.slow
@pytest.mark.parametrize("accumulated", [False, True])
@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_two_processes_or_accumulated_batches_give_the_loss_curve_of_one_with_double_batch(
    kind, accumulated, weighted, six_steps, launched, tmp_path
) -> None:
    """accelerate gives process p the batches p, p + 2, ... of one shuffled order: a step sees the same lines."""
    alone, two = train(six_steps(kind, "one", 4)), tmp_path / "two"
    if accumulated:
        train(six_steps(kind, "two", 2, gradient_accumulation_steps=2))
    else:
        launched("two-cpu", six_steps(kind, "two", 2))
    assert read_card(two).training["batch"] == read_card(alone).training["batch"] == 4
    assert curve(two) == pytest.approx(curve(alone), rel=LOSS_TOLERANCE)
    assert np.ptp(curve(alone)[:, 1]) > 0.1
    load_judge(two, "tiny", torch.device("cpu"))


@pytest.mark.slow
@pytest.mark.skipif(find_spec("deepspeed") is None, reason="deepspeed is not installed; pip install deepspeed")
@pytest.mark.parametrize(("kind", "zero"), [("ordinal", "zero2"), ("generative", "zero2"), ("generative", "zero3")])
def test_deepspeed_trains_as_one_process_does(kind, zero, six_steps, launched, tmp_path) -> None:
    """For real, with the shipped configs: two processes on the CPU, or as many as the machine has GPUs.

    The checkpoint is saved and loaded again (the best one), and the adapter that is written is the trained one.
    """
    if torch.cuda.device_count() == 1:
        pytest.skip("the configs start two processes, and there is one GPU")
    options = {"eval_strategy": "steps", "eval_steps": 6, "save_strategy": "steps", "save_steps": 6}
    device = {} if torch.cuda.is_available() else {"DS_ACCELERATOR": "cpu"}
    launched(zero, six_steps(kind, zero, 2, **options), **device)
    training = read_card(tmp_path / zero).training
    assert (training["zero_stage"], training["processes"], training["batch"]) == (int(zero[-1]), 2, 4)
    train(six_steps(kind, "one", 4, **options))
    assert curve(tmp_path / zero) == pytest.approx(curve(tmp_path / "one"), rel=1e-3)
    adapters = [load_file(tmp_path / name / "adapter_model.safetensors") for name in ("one", zero)]
    assert adapters[0].keys() == adapters[1].keys()
    for name, tensor in adapters[0].items():
        assert torch.allclose(tensor, adapters[1][name].float(), atol=1e-3), name
    assert all(bool(tensor.any()) for tensor in adapters[1].values())  # lora_B starts at 0
    load_judge(tmp_path / zero, "tiny", torch.device("cpu"))
