"""Fits texts into a model's window and sequences into batches."""

from collections.abc import Sequence

import torch


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


def padded(sequences: Sequence[Sequence[int]], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Pads on the right to the longest: ids and mask, both (batch, length)."""
    longest = max(len(sequence) for sequence in sequences)
    ids = torch.full((len(sequences), longest), pad_id, dtype=torch.long)
    mask = torch.zeros((len(sequences), longest), dtype=torch.long)
    for row, sequence in enumerate(sequences):
        ids[row, : len(sequence)] = torch.tensor(sequence, dtype=torch.long)
        mask[row, : len(sequence)] = 1
    return ids, mask


def batches_by_length(lengths: Sequence[int], batch_tokens: int) -> list[list[int]]:
    """Groups indices so that neighbours have like lengths and no batch holds more than `batch_tokens` with padding.

    A single sequence longer than the budget makes a batch of its own.
    """
    batches: list[list[int]] = []
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        # Longest first: the first of a batch sets its padded length, and memory runs out at once or never.
        if batches and (len(batches[-1]) + 1) * lengths[batches[-1][0]] <= batch_tokens:
            batches[-1].append(index)
        else:
            batches.append([index])
    return batches
