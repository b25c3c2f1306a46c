"""A model in training is read as a judge reads: prefixes are computed once. Under ZeRO-3 batches are fixed."""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from peft import LoraConfig, PeftModel, get_peft_model

from medjudge.judge import generative
from medjudge.models.batching import MemoryLimit
from medjudge.models.loading import load_causal_lm, load_tokenizer
from medjudge.train.features import read_training_lines
from medjudge.train.generative import score_logits


@pytest.fixture
def wrapped(tiny_lm) -> PeftModel:
    """The tiny model with an adapter that changes what it says."""
    torch.manual_seed(0)
    model = get_peft_model(load_causal_lm(str(tiny_lm)), LoraConfig(r=4, target_modules="all-linear"))
    for name, value in model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(value, std=0.1)
    return model


@contextmanager
def counted(model: PeftModel) -> Iterator[list[int]]:
    """The tokens of each forward pass, padding included."""
    tokens: list[int] = []
    embedding = model.get_input_embeddings()
    hook = embedding.register_forward_hook(lambda module, inputs, output: tokens.append(inputs[0].numel()))
    yield tokens
    hook.remove()


def test_prefixes_are_shared_under_an_adapter_in_training(wrapped, tiny_lm, training_files, monkeypatch) -> None:
    lines, tokenizer = read_training_lines(training_files[0])[:6], load_tokenizer(str(tiny_lm))
    with counted(wrapped) as shared:
        logits = score_logits(wrapped, tokenizer, lines, 2048, "score-first")
    for sharing in ("can_share", "takes_tree_attention"):
        monkeypatch.setattr(generative, sharing, lambda model: False)
    with counted(wrapped) as separate:
        expected = score_logits(wrapped, tokenizer, lines, 2048, "score-first")
    assert np.allclose(logits, expected, atol=1e-4)
    assert sum(shared) < 0.6 * sum(separate)
    with wrapped.disable_adapter():
        assert not np.allclose(logits, score_logits(wrapped, tokenizer, lines, 2048, "score-first"), atol=1e-2)


def test_under_zero3_batches_stay_as_they_are(wrapped, tiny_lm, training_files, monkeypatch) -> None:
    monkeypatch.setattr("medjudge.train.generative.is_deepspeed_zero3_enabled", lambda: True)
    batches = []
    run = MemoryLimit.run

    def recorded(limit, indices, lengths, forward):
        assert limit.fixed
        for batch, result in run(limit, indices, lengths, forward):
            batches.append(batch)
            yield batch, result

    monkeypatch.setattr(MemoryLimit, "run", recorded)
    lines = read_training_lines(training_files[0])[:4]
    score_logits(wrapped, load_tokenizer(str(tiny_lm)), lines, 2048, "score-first")
    assert sorted(index for batch in batches for index in batch) == [0, 1, 2, 3]


def test_a_fixed_batch_that_does_not_fit_is_no_smaller_one() -> None:
    limit = MemoryLimit(torch.device("cpu"), 100, fixed=True)

    def full(batch: list[int]) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory.")

    with pytest.raises(torch.OutOfMemoryError):
        list(limit.run(range(4), [10] * 4, full))
    assert limit.tokens == 100
