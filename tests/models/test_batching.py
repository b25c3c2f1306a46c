import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from medjudge.models.batching import MemoryLimit, batches_by_length, cut_middle, padded


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


def test_a_limit_is_learnt_once() -> None:
    memory = MemoryLimit(torch.device("cpu"), 1000)
    tried: list[int] = []

    def forward(batch: list[int]) -> None:
        tried.append(len(batch))
        if len(batch) >= 30:
            raise torch.OutOfMemoryError("CUDA out of memory.")

    done = [index for batch, _ in memory.run(range(500), [10] * 500, forward) for index in batch]
    assert sorted(done) == list(range(500))
    assert sum(count >= 30 for count in tried) == 2  # 100, 50, and 25 from then on
    assert memory.tokens == 250


def test_encoders_are_padded_behind_and_causal_models_before() -> None:
    # A text may hold the padding token itself: the mask follows from the lengths.
    right = padded([[5, 1, 7], [8]], 1, "right")
    assert right.ids.tolist() == [[5, 1, 7], [8, 1, 1]]
    assert right.mask.tolist() == [[1, 1, 1], [1, 0, 0]]
    left = padded([[5, 1, 7], [8]], 1, "left")
    assert left.ids.tolist() == [[5, 1, 7], [1, 1, 8]]
    assert left.mask.tolist() == [[1, 1, 1], [0, 0, 1]]
    assert {tensor.dtype for tensor in (*right, *left)} == {torch.long}
