"""The common beginnings of prompts are computed once, and nothing else changes."""

import random
from copy import deepcopy
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    Gemma2Config,
    Gemma3TextConfig,
    GPT2Config,
    GPTNeoConfig,
    LlamaConfig,
    MambaConfig,
    MptConfig,
    PreTrainedModel,
    Qwen3Config,
)

from medjudge.errors import InputError
from medjudge.judge.shared_prefixes import in_tree_order, read_ends, takes_tree_attention
from medjudge.models.batching import MemoryLimit

SMALL = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4}
WIDE = SMALL | {"intermediate_size": 64, "num_key_value_heads": 2, "max_position_embeddings": 1024}
CONFIGS = {
    "llama": LlamaConfig(**WIDE),
    "qwen3": Qwen3Config(**WIDE, head_dim=16),
    "gpt2": GPT2Config(vocab_size=97, n_embd=32, n_layer=3, n_head=4, n_positions=1024),
}


def model_of(config) -> PreTrainedModel:
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    for weight in model.parameters():  # fresh weights are so small that every token would look alike
        weight.data *= 4 if weight.dim() > 1 else 1
    return model


def judge_like_prompts() -> list[list[int]]:
    """Two rubrics, three questions each, one to five answers of 1 to 90 tokens each; one answer twice."""
    draw = random.Random(0)

    def tokens(count: int) -> list[int]:
        return [draw.randrange(97) for _ in range(count)]

    prompts = []
    for _ in range(2):
        rubric = tokens(150)
        for number in range(3):
            question = tokens(draw.randrange(20, 80))
            prompts += [rubric + question + tokens(draw.randrange(1, 90)) for _ in range(1 + 2 * number)]
    prompts.append(list(prompts[4]))
    draw.shuffle(prompts)
    return prompts


def ends(model: PreTrainedModel, prompts: list[list[int]], tokens: int = 10_000) -> torch.Tensor:
    logits_of = dict(read_ends(model, prompts, 0, MemoryLimit(model.device, tokens)))
    assert len(logits_of) == len(prompts)
    return torch.stack([logits_of[index].float() for index in range(len(prompts))])


def plain(model: PreTrainedModel, prompts: list[list[int]]) -> torch.Tensor:
    with torch.inference_mode():
        return torch.stack([model(torch.tensor([ids])).logits[0, -1].float() for ids in prompts])


@pytest.mark.slow
@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=400), min_size=1, max_size=12))
def test_each_text_begins_as_the_one_before_it(prompts: list[list[int]]) -> None:
    prompts = [*prompts, prompts[0], prompts[0] * 2]
    order = in_tree_order(prompts)
    assert sorted(text for text, _ in order) == list(range(len(prompts)))
    assert order[0].shared == 0
    for (before, _), (text, shared) in pairwise(order):
        assert shared <= len(prompts[before])
        assert prompts[text][:shared] == prompts[before][:shared]
        assert shared < len(prompts[text]) or prompts[text] == prompts[before]


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("tokens", [10_000, 400])
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 2e-2)])
def test_probabilities_are_those_of_one_prompt_at_a_time(name, tokens, dtype, tolerance) -> None:
    prompts, model = judge_like_prompts(), model_of(deepcopy(CONFIGS[name])).to(dtype)
    padded, alone = ends(model, prompts), plain(model, prompts)[:, 5:10].softmax(-1)
    assert takes_tree_attention(model)
    trees = ends(model, prompts, tokens)
    assert alone.std(dim=0).max() > 2 * tolerance  # prompts that looked alike would show nothing
    for logits in (padded, trees):
        assert (logits[:, 5:10].softmax(-1) - alone).abs().max() < tolerance


@pytest.mark.parametrize(
    "config",
    [
        MambaConfig(**SMALL),
        BloomConfig(vocab_size=97, hidden_size=32, n_layer=3, n_head=4),
        MptConfig(vocab_size=97, d_model=32, n_layers=3, n_heads=4),
        Gemma2Config(**WIDE, head_dim=8),  # caps its logits
        GPTNeoConfig(vocab_size=97, hidden_size=32, num_layers=2, attention_types=[[["local"], 2]], num_heads=4),
    ],
)
def test_models_that_do_not_heed_a_tree_keep_their_attention(config) -> None:
    model = model_of(config)
    before = model.config._attn_implementation
    assert not takes_tree_attention(model)
    assert model.config._attn_implementation == before


def test_what_prompts_share_is_computed_once_and_nothing_is_padded() -> None:
    prompts, model = judge_like_prompts(), model_of(deepcopy(CONFIGS["qwen3"]))
    assert takes_tree_attention(model)
    sizes: list[int] = []
    model.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].numel()))
    ends(model, prompts)
    assert sizes == [sum(len(prompts[text]) - shared for text, shared in in_tree_order(prompts))]
    sizes.clear()
    ends(model, prompts, 400)
    assert len(sizes) > 2
    assert max(sizes) <= 400


def test_a_pack_that_does_not_fit_in_memory_is_read_in_smaller_ones(monkeypatch) -> None:
    prompts, model = judge_like_prompts(), model_of(deepcopy(CONFIGS["qwen3"]))
    expected = plain(model, prompts)
    assert takes_tree_attention(model)

    def small(_, inputs: tuple[torch.Tensor, ...]) -> None:
        if inputs[0].numel() > 500:
            raise torch.OutOfMemoryError("CUDA out of memory")

    model.register_forward_pre_hook(small)
    assert ends(model, prompts, 4000) == pytest.approx(expected, abs=1e-4)
    with pytest.raises(InputError, match="one text of 600 tokens does not fit"):
        ends(model, [[1] * 600, [2] * 30], 4000)
    model.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):  # not taken for a lack of memory
        ends(model, prompts)


def windowed(window: int) -> PreTrainedModel:
    types = ["sliding_attention", "sliding_attention", "full_attention"]
    return model_of(Gemma3TextConfig(**WIDE, head_dim=8, sliding_window=window, layer_types=types))


@pytest.mark.parametrize("window", [16, 10_000])
def test_sliding_windows_are_heeded_in_a_pack(window: int) -> None:
    prompts, model = judge_like_prompts(), windowed(window)
    alone = plain(model, prompts)
    assert takes_tree_attention(model)
    assert ends(model, prompts, 400) == pytest.approx(alone, abs=1e-4)
    assert plain(windowed(17), prompts) != pytest.approx(plain(windowed(16), prompts), abs=1e-4)  # a window shows
