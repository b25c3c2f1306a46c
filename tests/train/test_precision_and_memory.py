"""Precision, dropout and memory of a training run."""

import numpy as np
import pytest
import torch

from medjudge.judge.folder import read_card
from medjudge.models.hardware import cpu_has_bf16
from medjudge.train.arguments import parse_arguments


@pytest.mark.slow
def test_gradient_checkpointing_changes_the_memory_of_an_ordinal_judge_only(trained, tmp_path) -> None:
    losses = []
    for on in (False, True):
        options = {"gradient_checkpointing": on, "output_dir": tmp_path / str(on)}
        losses.append(read_card(trained("ordinal", **options)).training["loss"])
    assert np.array(losses[0]) == pytest.approx(np.array(losses[1]), abs=1e-5)


def test_bf16_is_the_default_where_the_cpu_has_it(recipe) -> None:
    assert parse_arguments(recipe("ordinal", bf16=None, use_cpu=True)).training.bf16 == cpu_has_bf16()


@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_nothing_is_dropped_on_a_cpu(kind, trained, trainers) -> None:
    trained(kind, lora_dropout=0.3, max_steps=2)
    rates = [module.p for module in trainers[0].model.modules() if isinstance(module, torch.nn.Dropout)]
    assert len(rates) > 0
    assert set(rates) == {0.0}
