"""Fits texts into a model's window and sequences into batches."""

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import numpy as np
import torch

from medjudge.errors import InputError
from medjudge.models.hardware import is_out_of_memory

T = TypeVar("T")
_BATCH_FEE = 128
"""What starting a batch costs, in tokens; of 64, 128 and 256 the fastest for all-MiniLM-L6-v2 with LoRA on 2 cores."""


def cut_middle(tokens: Sequence[int], limit: int) -> tuple[list[int], int]:
    """Keeps the beginning and the end of a token sequence.

    Args:
        tokens: Any number of token ids.
        limit: The most tokens to keep, at least 0.

    Returns:
        The tokens kept (the beginning gets the odd one), and how many were left out.
    """
    tokens = list(tokens)
    if len(tokens) <= limit:
        return tokens, 0
    head = (limit + 1) // 2
    tail = limit - head
    return tokens[:head] + tokens[len(tokens) - tail :], len(tokens) - limit


def batches_by_length(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Groups indices, longest first, into the batches that cost least: tokens with padding, and a fee for each batch.

    Args:
        lengths: Of the sequences, each at least 1.
        batch_tokens: The most tokens of a batch, padding included. A single longer sequence is a batch of its own.
    """
    # Longest first: memory runs out at once or never.
    order = sorted(range(len(lengths)), key=lambda index: -lengths[index])
    size = np.array([lengths[index] for index in order], dtype=np.int64)
    cheapest = np.zeros(len(order) + 1)  # of the first n sequences
    begins = np.zeros(len(order), dtype=np.int64)  # where the batch that ends with a sequence begins
    first = 0
    for last in range(len(order)):
        while first < last and size[first] * (last + 1 - first) > batch_tokens:
            first += 1
        cost = cheapest[first : last + 1] + size[first : last + 1] * np.arange(last + 1 - first, 0, -1)
        begins[last] = first + int(cost.argmin())
        cheapest[last + 1] = cost.min() + _BATCH_FEE
    batches: list[list[int]] = []
    end = len(order)
    while end:
        begin = int(begins[end - 1])
        batches.insert(0, order[begin:end])
        end = begin
    return batches


class MemoryLimit:
    """How many tokens, padding included, one forward pass may hold: it finds itself while batches are run.

    It doubles on a GPU while what was needed would fit twice, and halves where memory runs out.

    Args:
        device: Where the batches run, with the model there already.
        tokens: What to begin with.
        most: What is not gone beyond; a CPU is as fast with the number that it begins with.
    """

    def __init__(self, device: torch.device, tokens: int = 8192, most: int = 65_536) -> None:
        self.device = device
        self.tokens = tokens
        self.most = most
        self.held = torch.cuda.memory_allocated(device) if device.type == "cuda" else 0

    def run(
        self, indices: Sequence[int], lengths: Sequence[int], forward: Callable[[list[int]], T]
    ) -> Iterator[tuple[list[int], T]]:
        """Runs sequences in batches of like length; where one does not fit, its halves.

        Args:
            indices: Which of the sequences.
            lengths: Of all of them, in tokens.
            forward: Runs one batch of them.

        Raises:
            InputError: A single sequence does not fit into memory.
        """
        waiting = deque(self._planned(indices, lengths))
        while waiting:
            batch = waiting.popleft()
            tokens = len(batch) * max(lengths[index] for index in batch)
            before = self.tokens
            try:
                found = forward(batch)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(batch) == 1:
                    raise InputError(
                        f"out of memory: one text of {tokens} tokens does not fit the memory of the "
                        f"{self.device.type.upper()} beside the model; take a smaller model or a smaller max_length"
                    ) from None
                self.tokens = self.most = tokens // 2
                waiting.appendleft(batch)
            else:
                yield batch, found
                del found
                self._grow(tokens)
            if self.tokens != before:
                waiting = deque(self._planned([index for batch in waiting for index in batch], lengths))
                # Outside of the handler, whose traceback holds the tensors of the pass that failed.
                if self.tokens < before and self.device.type == "cuda":
                    torch.cuda.empty_cache()

    def _planned(self, indices: Sequence[int], lengths: Sequence[int]) -> list[list[int]]:
        batches = batches_by_length([lengths[index] for index in indices], self.tokens)
        return [[indices[place] for place in batch] for batch in batches]

    def _grow(self, tokens: int) -> None:
        """Doubles after a batch that filled what is allowed, where the GPU has room for twice what was needed."""
        if self.device.type != "cuda" or tokens < self.tokens / 2 or self.tokens * 2 > self.most:
            return
        free, _ = torch.cuda.mem_get_info(self.device)
        reserved = torch.cuda.memory_reserved(self.device)  # the highest that was needed so far, by and large
        if reserved - self.held < 0.8 * free:
            self.tokens *= 2
