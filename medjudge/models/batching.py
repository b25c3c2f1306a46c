"""Cuts texts to a model's window, and groups sequences into batches that fit in memory."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, NamedTuple, TypeVar

import numpy as np
import torch
from torch.nn.utils.rnn import pad_sequence

from medjudge.errors import InputError
from medjudge.models.hardware import is_out_of_memory, return_freed_memory

T = TypeVar("T")
_BATCH_OVERHEAD = 128
"""The fixed cost of a batch, in tokens; the fastest of 64, 128 and 256 for all-MiniLM-L6-v2 with LoRA on 2 cores."""


class Shortened(NamedTuple):
    """A token sequence without its middle, and how many tokens were left out."""

    tokens: list[int]
    left_out: int


def cut_middle(tokens: Sequence[int], limit: int) -> Shortened:
    """Keeps the beginning and the end of a token sequence; of an odd number the beginning gets one more.

    Args:
        tokens: Any number of token ids.
        limit: The most tokens to keep, at least 0.
    """
    tokens = list(tokens)
    if len(tokens) <= limit:
        return Shortened(tokens, 0)
    head = (limit + 1) // 2
    tail = limit - head
    return Shortened(tokens[:head] + tokens[len(tokens) - tail :], len(tokens) - limit)


def batches_by_length(lengths: Sequence[int], batch_tokens: int, overhead: int = _BATCH_OVERHEAD) -> list[list[int]]:
    """Groups sequences into batches of least cost: their tokens, padding included, plus a fixed cost per batch.

    Args:
        lengths: The length of each sequence, at least 1.
        batch_tokens: The most tokens of a batch, padding included. A longer sequence gets a batch of its own.
        overhead: The fixed cost of a batch, in tokens.

    Returns:
        The indices of the sequences of each batch, longest first.
    """
    # Longest first: if memory runs out, it does so in the first batch.
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    size = np.array([lengths[index] for index in order], dtype=np.int64)
    least_cost = np.zeros(len(order) + 1)  # of the first n sequences
    begins = np.zeros(len(order), dtype=np.int64)  # the first sequence of the batch that ends with each sequence
    first = 0
    for last in range(len(order)):
        while first < last and size[first] * (last + 1 - first) > batch_tokens:
            first += 1
        cost = least_cost[first : last + 1] + size[first : last + 1] * np.arange(last + 1 - first, 0, -1)
        begins[last] = first + int(cost.argmin())
        least_cost[last + 1] = cost.min() + overhead
    batches: list[list[int]] = []
    end = len(order)
    while end:
        begin = int(begins[end - 1])
        batches.insert(0, order[begin:end])
        end = begin
    return batches


class MemoryLimit:
    """The most tokens, padding included, of one forward pass; adapts to the memory while batches are run.

    The limit doubles on a GPU as long as twice the memory in use would fit, and halves when memory runs out.

    Args:
        device: The device of the model, which must be loaded already.
        tokens: The initial limit. It stays the limit on a CPU, where larger batches are no faster.
        most: The limit is never raised above this.
    """

    def __init__(self, device: torch.device, tokens: int = 8192, most: int = 65_536) -> None:
        self.device = device
        self.tokens = tokens
        self.most = most
        self.held = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0

    def run(
        self, indices: Sequence[int], lengths: Sequence[int], forward: Callable[[list[int]], T]
    ) -> Iterator[tuple[list[int], T]]:
        """Runs sequences in batches of similar length; a batch that does not fit in memory is run in smaller ones.

        Args:
            indices: The sequences to run.
            lengths: The lengths of all sequences, in tokens.
            forward: Runs one batch, given its indices.

        Yields:
            The indices of a batch, and what `forward` returned for it.

        Raises:
            InputError: A single sequence does not fit into memory.
        """

        def planned(waiting: Sequence[int]) -> list[list[int]]:
            batches = batches_by_length([lengths[index] for index in waiting], self.tokens)
            return [[waiting[position] for position in batch] for batch in batches]

        yield from self.run_planned(
            indices, planned, lambda batch: len(batch) * max(lengths[index] for index in batch), forward
        )

    def run_planned(
        self,
        indices: Sequence[int],
        planned: Callable[[list[int]], list[list[int]]],
        size: Callable[[list[int]], int],
        forward: Callable[[list[int]], T],
    ) -> Iterator[tuple[list[int], T]]:
        """As `run`, with batches that the caller plans.

        Args:
            planned: Groups the sequences that wait into batches, each of at most `tokens` where it has several.
            size: The tokens of a batch.
        """
        waiting = deque(planned(list(indices)))
        while waiting:
            batch = waiting.popleft()
            tokens = size(batch)
            before = self.tokens
            try:
                result = forward(batch)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(batch) == 1:
                    raise InputError(
                        f"out of memory: one text of {tokens} tokens does not fit in {self.device.type.upper()} memory "
                        "beside the model; use a smaller model or a smaller max_length"
                    ) from None
                self.tokens = self.most = tokens // 2
                waiting.appendleft(batch)
            else:
                yield batch, result
                del result
                self._grow(tokens)
                if self.device.type == "cpu":
                    return_freed_memory()
            if self.tokens != before:
                waiting = deque(planned([index for batch in waiting for index in batch]))
                # Not in the handler: its traceback keeps the tensors of the failed pass alive.
                if self.tokens < before and self.device.type == "cuda":
                    torch.cuda.empty_cache()

    def _grow(self, tokens: int) -> None:
        """Doubles the limit after a batch near it, if the GPU has room for twice the memory in use."""
        if self.device.type != "cuda" or tokens < self.tokens / 2 or self.tokens * 2 > self.most:
            return
        free, _ = torch.cuda.mem_get_info(self.device)
        reserved = torch.cuda.memory_reserved(self.device)  # roughly the peak so far
        if reserved - self.held < 0.8 * free:
            self.tokens *= 2


class Padded(NamedTuple):
    """Token ids and attention mask (1 for a token, 0 for padding), both int64 of shape (sequences, longest)."""

    ids: torch.Tensor
    mask: torch.Tensor


def padded(
    sequences: Sequence[Sequence[int]],
    pad_id: int,
    side: Literal["left", "right"],
    device: torch.device = torch.device("cpu"),
) -> Padded:
    """Pads sequences to the longest: at the end for encoders, at the start for causal models.

    Padded on the left, the last column is the last token of every row.
    """
    rows = [torch.tensor(sequence, dtype=torch.long) for sequence in sequences]
    ids = pad_sequence(rows, batch_first=True, padding_value=pad_id, padding_side=side)
    mask = pad_sequence([torch.ones_like(row) for row in rows], batch_first=True, padding_side=side)
    return Padded(ids.to(device), mask.to(device))
