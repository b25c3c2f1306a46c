from collections.abc import Callable
from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from medjudge.models.batching import MemoryLimit, batches_by_length, cut_middle, pad_left, pad_right


@settings(deadline=None)
@given(st.lists(st.integers(0, 99), max_size=60), st.integers(0, 70))
def test_a_long_text_loses_its_middle_and_the_loss_is_counted(tokens: list[int], limit: int) -> None:
    kept, left_out = cut_middle(tokens, limit)
    assert len(kept) + left_out == len(tokens)
    assert len(kept) <= max(limit, 0)
    head = (len(kept) + 1) // 2
    assert kept[:head] == tokens[:head]
    assert kept[head:] == tokens[len(tokens) - (len(kept) - head) :]


@settings(deadline=None)
@given(st.lists(st.integers(1, 300), min_size=1, max_size=80), st.integers(50, 1000))
def test_batches_hold_everything_once_within_the_budget(lengths: list[int], budget: int) -> None:
    batches = batches_by_length(lengths, budget)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[index] for index in batch) <= budget


def test_a_short_text_is_not_padded_to_a_long_one_and_like_texts_share_a_batch() -> None:
    assert batches_by_length([500, 20, 490, 21], 4000) == [[0, 2], [3, 1]]
    assert batches_by_length([30, 20, 25, 21], 4000) == [[0, 2, 3, 1]]


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(1, 40), min_size=1, max_size=9), st.integers(20, 400))
def test_no_other_division_of_the_sorted_texts_costs_less(lengths: list[int], budget: int) -> None:
    def cost(batches: list[list[int]]) -> int:
        return sum(128 + len(batch) * max(batch) for batch in batches)

    ordered = sorted(lengths, reverse=True)
    divisions = [_divided(ordered, cuts) for cuts in product((False, True), repeat=len(ordered) - 1)]
    least = min(
        cost(division)
        for division in divisions
        if all(len(batch) == 1 or len(batch) * max(batch) <= budget for batch in division)
    )
    assert cost([[lengths[index] for index in batch] for batch in batches_by_length(lengths, budget)]) == least


def _divided(ordered: list[int], cuts: tuple[bool, ...]) -> list[list[int]]:
    batches = [[ordered[0]]]
    for length, cut in zip(ordered[1:], cuts, strict=True):
        if cut:
            batches.append([])
        batches[-1].append(length)
    return batches


def test_less_than_a_twentieth_of_a_forward_pass_is_padding() -> None:
    draw = np.random.default_rng(0)
    lengths = draw.lognormal(4.6, 0.9, 512).clip(4, 512).astype(int).tolist()
    batches = batches_by_length(lengths, 8192)
    padded_tokens = sum(len(batch) * max(lengths[index] for index in batch) for batch in batches)
    assert padded_tokens < 1.05 * sum(lengths)
    assert len(batches) < 40


@pytest.fixture
def out_of_memory_from() -> Callable[[int], Callable[[list[int]], list[int]]]:
    def build(limit: int) -> Callable[[list[int]], list[int]]:
        def forward(batch: list[int]) -> list[int]:
            if len(batch) >= limit:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return batch

        return forward

    return build


def test_a_limit_is_learnt_once(out_of_memory_from) -> None:
    memory = MemoryLimit(torch.device("cpu"), 1000)
    tried: list[int] = []
    forward = out_of_memory_from(30)

    def counted(batch: list[int]) -> list[int]:
        tried.append(len(batch))
        return forward(batch)

    assert sorted(index for batch, _ in memory.run(range(500), [10] * 500, counted) for index in batch) == list(
        range(500)
    )
    assert sum(count >= 30 for count in tried) == 2  # 100, 50, and 25 from then on
    assert memory.tokens == 250


def test_encoders_are_padded_behind_and_causal_models_before() -> None:
    right = pad_right([[5, 6, 7], [8]], pad_id=1)
    assert right.ids.tolist() == [[5, 6, 7], [8, 1, 1]]
    assert right.mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    left = pad_left([[5, 6, 7], [8]], pad_id=1, device=torch.device("cpu"))
    assert left.ids.tolist() == [[5, 6, 7], [1, 1, 8]]
    assert left.mask.tolist() == [[1, 1, 1], [0, 0, 1]]
    assert {tensor.dtype for tensor in (*right, *left)} == {torch.long}


def test_a_sequence_of_padding_tokens_is_not_masked() -> None:
    """The mask follows from the lengths: a text may hold the padding token itself."""
    assert pad_right([[1, 1], [1]], pad_id=1).mask.tolist() == [[1, 1], [1, 0]]
    assert pad_left([[1, 1], [1]], pad_id=1, device=torch.device("cpu")).mask.tolist() == [[1, 1], [0, 1]]
