"""Prompts in packs: each is read as if it stood alone, what they share once, and nothing is padded."""

from copy import deepcopy

import pytest
import torch
from test_shared_prefixes import CONFIGS, judge_like_prompts, model_of, plain, shared
from transformers import Gemma2Config, Gemma3TextConfig, PreTrainedModel

from medjudge.errors import InputError
from medjudge.judge.inference import Inference, prepared
from medjudge.judge.prompt_packs import read_in_packs, takes_tree_attention
from medjudge.judge.shared_prefixes import prefix_forest, unique_tokens
from medjudge.models.batching import MemoryLimit
from medjudge.models.tree_attention import TREE_ATTENTION


def in_packs(model: PreTrainedModel, prompts: list[list[int]], memory: MemoryLimit) -> torch.Tensor:
    logits_of = dict(read_in_packs(model, prompts, memory))
    assert len(logits_of) == len(prompts)
    return torch.stack([logits_of[index].float() for index in range(len(prompts))])


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("most", [10_000, 400])
def test_logits_are_those_of_today_and_of_each_prompt_alone(name: str, most: int) -> None:
    prompts = judge_like_prompts()
    model = model_of(deepcopy(CONFIGS[name]))
    today, alone = shared(model, prompts), plain(model, prompts)
    assert takes_tree_attention(model)
    packed = in_packs(model, prompts, MemoryLimit(model.device, most))
    assert packed == pytest.approx(today, abs=1e-4)
    assert packed == pytest.approx(alone, abs=1e-4)
    assert packed.std(dim=0).mean() > 0.1  # the prompts differ


def test_what_prompts_share_is_computed_once_and_nothing_is_padded() -> None:
    prompts, model = judge_like_prompts(), model_of(deepcopy(CONFIGS["qwen3"]))
    assert takes_tree_attention(model)
    sizes: list[int] = []
    model.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].numel()))
    in_packs(model, prompts, MemoryLimit(model.device, 10_000))
    assert sizes == [unique_tokens(prefix_forest(prompts))]
    sizes.clear()
    in_packs(model, prompts, MemoryLimit(model.device, 400))
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
    assert in_packs(model, prompts, MemoryLimit(model.device, 4000)) == pytest.approx(expected, abs=1e-4)
    with pytest.raises(InputError, match="one text of 600 tokens does not fit"):
        in_packs(model, [[1] * 600, [2] * 30], MemoryLimit(model.device, 4000))


SMALL = {"vocab_size": 97, "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4, "head_dim": 8}
TYPES = ["sliding_attention", "sliding_attention", "full_attention"]


def windowed(window: int) -> PreTrainedModel:
    config = Gemma3TextConfig(
        **SMALL, intermediate_size=64, num_key_value_heads=2, sliding_window=window, layer_types=TYPES
    )
    return model_of(config)


@pytest.mark.parametrize("window", [16, 10_000])
def test_sliding_windows_are_heeded_in_a_pack(window: int) -> None:
    prompts, model = judge_like_prompts(), windowed(window)
    alone = plain(model, prompts)
    assert takes_tree_attention(model)
    assert in_packs(model, prompts, MemoryLimit(model.device, 400)) == pytest.approx(alone, abs=1e-4)
    assert plain(windowed(17), prompts) != pytest.approx(plain(windowed(16), prompts), abs=1e-4)  # a window shows


def test_a_pack_of_a_model_with_windows_stays_small_on_a_cpu() -> None:
    model = windowed(16)
    assert takes_tree_attention(model)
    sizes: list[int] = []
    model.register_forward_pre_hook(lambda _, inputs: sizes.append(inputs[0].numel()))
    texts = [[index, *([5] * 699)] for index in range(6)]
    in_packs(model, texts, MemoryLimit(model.device, 10_000))
    assert sizes == [1400, 1400, 1400]


def test_a_model_that_caps_its_logits_is_refused_and_others_keep_their_attention_unless_asked() -> None:
    capped = model_of(Gemma2Config(**SMALL, intermediate_size=64, num_key_value_heads=2))
    with pytest.raises(InputError, match="--attention tree: Gemma2ForCausalLM has windows"):
        prepared(capped, Inference(attention="tree"))
    model = model_of(deepcopy(CONFIGS["qwen3"]))
    assert prepared(model, Inference()).config._attn_implementation == "sdpa"
    assert prepared(model, Inference(attention="tree")).config._attn_implementation == TREE_ATTENTION
