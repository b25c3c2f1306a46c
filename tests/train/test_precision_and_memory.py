"""Precision, dropout and memory of a training run."""

import numpy as np
import pytest
import torch

from medjudge.judge.folder import read_card
from medjudge.models.hardware import cpu_has_bf16
from medjudge.train.ordinal import without_dropout


@pytest.mark.slow
def test_gradient_checkpointing_changes_the_memory_of_an_ordinal_judge_only(trained, tmp_path) -> None:
    losses = []
    for on in (False, True):
        options = {"gradient_checkpointing": on, "output_dir": tmp_path / str(on)}
        losses.append(read_card(trained("ordinal", **options)).training["loss"])
    assert np.array(losses[0]) == pytest.approx(np.array(losses[1]), abs=1e-5)


@pytest.mark.skipif(not cpu_has_bf16(), reason="this CPU has no bf16")
@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_bf16_is_the_default_where_the_cpu_has_it(kind, trained, tmp_path) -> None:
    losses = []
    for bf16 in (None, False):
        training = read_card(trained(kind, bf16=bf16, output_dir=tmp_path / str(bf16))).training
        losses.append([loss for _, loss in training["loss"]])
        assert training["bf16"] is (bf16 is None)
    assert losses[0][0] == pytest.approx(losses[1][0], rel=0.02)
    assert losses[0] != losses[1]


@pytest.mark.parametrize("kind", ["ordinal", "generative"])
def test_nothing_is_dropped_on_a_cpu(kind, trained, monkeypatch) -> None:
    kept = []
    monkeypatch.setattr("train_judge.without_dropout", lambda model: (without_dropout(model), kept.append(model)))
    trained(kind, lora_dropout=0.3, max_steps=2)
    rates = [module.p for module in kept[0].modules() if isinstance(module, torch.nn.Dropout)]
    assert len(rates) > 0
    assert set(rates) == {0.0}
