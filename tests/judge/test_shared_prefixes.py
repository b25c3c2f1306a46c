"""What prompts share is computed once, and nothing else changes."""

import random

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
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
from medjudge.judge.shared_prefixes import Node, can_share, prefix_forest, read_to_the_end, unique_tokens
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


def shared(
    model: PreTrainedModel, prompts: list[list[int]], memory: MemoryLimit | None = None, keep: bool = False
) -> torch.Tensor:
    memory = memory or MemoryLimit(model.device, 700)
    logits_of = dict(
        read_to_the_end(model, prefix_forest(prompts), 0, memory, lambda logits, known, of: logits.float(), 16 * keep)
    )
    assert len(logits_of) == len(prompts)
    return torch.stack([logits_of[index] for index in range(len(prompts))])


def plain(model: PreTrainedModel, prompts: list[list[int]]) -> torch.Tensor:
    with torch.inference_mode():
        return torch.stack([model(torch.tensor([ids])).logits[0, -1].float() for ids in prompts])


@settings(deadline=None)
@given(st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=400), min_size=1, max_size=12))
def test_every_path_of_the_forest_spells_its_prompts(prompts: list[list[int]]) -> None:
    prompts = [*prompts, prompts[0], prompts[0] * 2]
    spelled: dict[int, list[int]] = {}

    def walk(nodes: list[Node], before: list[int]) -> None:
        for node in nodes:
            assert node.ids
            assert bool(node.ends) is not bool(node.after)
            for place in node.ends:
                assert place not in spelled
                spelled[place] = before + node.ids
            walk(node.after, before + node.ids)

    walk(prefix_forest(prompts), [])
    assert [spelled[place] for place in range(len(prompts))] == prompts


def test_a_rubric_and_a_question_are_computed_once() -> None:
    rubric, questions = [7] * 500, [[number] * 300 for number in range(1, 3)]
    prompts = [rubric + question + [10 + answer] * 50 for question in questions for answer in range(5)]
    assert unique_tokens(prefix_forest(prompts)) == 500 + 2 * 300 + 10 * 50


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-4), (torch.bfloat16, 2e-2)])
def test_probabilities_are_those_of_one_prompt_at_a_time(name: str, dtype: torch.dtype, tolerance: float) -> None:
    model = model_of(CONFIGS[name]).to(dtype)
    assert can_share(model)
    prompts = judge_like_prompts()
    computed = []
    model.register_forward_pre_hook(lambda _, inputs: computed.append(inputs[0].numel()))
    ours = shared(model, prompts)[:, 5:10].softmax(-1)
    kept = shared(model, prompts, keep=True)[:, 5:10].softmax(-1)
    assert sum(computed) < 2 * 0.7 * sum(map(len, prompts))  # padding included
    alone = plain(model, prompts)[:, 5:10].softmax(-1)
    assert alone.std(dim=0).max() > 2 * tolerance  # prompts that looked alike would show nothing
    assert (ours - alone).abs().max() < tolerance
    assert (kept - alone).abs().max() < tolerance
    levels = torch.arange(1.0, 6)
    assert (ours @ levels - alone @ levels).abs().max() < 0.02


@pytest.mark.parametrize(
    "config",
    [
        Gemma3TextConfig(**WIDE, head_dim=16, sliding_window=64),
        MambaConfig(**SMALL),
        BloomConfig(vocab_size=97, hidden_size=32, n_layer=3, n_head=4),
        MptConfig(vocab_size=97, d_model=32, n_layers=3, n_heads=4),
        GPTNeoConfig(
            vocab_size=97, hidden_size=32, num_layers=2, attention_types=[[["global", "local"], 1]], num_heads=4
        ),
    ],
)
def test_models_that_do_not_keep_all_they_read_do_not_share(config) -> None:
    assert not can_share(model_of(config))


def test_a_batch_that_runs_out_of_memory_is_halved_and_nothing_is_lost() -> None:
    model = model_of(CONFIGS["llama"])
    prompts = judge_like_prompts()
    failed = []

    def full(_: object, inputs: tuple[torch.Tensor]) -> None:
        if inputs[0].numel() > 300:
            failed.append(inputs[0].numel())
            raise torch.OutOfMemoryError("CUDA out of memory.")

    handle = model.register_forward_pre_hook(full)
    memory = MemoryLimit(model.device, 2000)
    ours = shared(model, prompts, memory)
    handle.remove()
    assert 1 <= len(failed) <= 4
    assert memory.tokens < 600  # of 2,000
    assert (ours - plain(model, prompts)).abs().max() < 1e-3


def test_a_prompt_that_does_not_fit_alone_is_one_line() -> None:
    model = model_of(CONFIGS["llama"])

    def full(_: object, inputs: tuple[torch.Tensor]) -> None:
        raise RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes")

    model.register_forward_pre_hook(full)
    with pytest.raises(InputError, match="one text of 150 tokens does not fit in CPU memory"):
        shared(model, judge_like_prompts())


def test_another_error_is_not_taken_for_a_lack_of_memory() -> None:
    model = model_of(CONFIGS["llama"])
    model.register_forward_pre_hook(lambda *_: (_ for _ in ()).throw(RuntimeError("a bug")))
    with pytest.raises(RuntimeError, match="a bug"):
        shared(model, judge_like_prompts())
