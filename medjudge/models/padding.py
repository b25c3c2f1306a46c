"""Pads token sequences to one length, as tensors."""

from collections.abc import Sequence
from typing import NamedTuple

import torch


class Padded(NamedTuple):
    """Token ids and attention mask (1 for a token, 0 for padding), both int64 of shape (sequences, longest)."""

    ids: torch.Tensor
    mask: torch.Tensor


def pad_right(sequences: Sequence[Sequence[int]], pad_id: int) -> Padded:
    """Pads at the end of each sequence, for encoders."""
    longest = max(map(len, sequences))
    gaps = [longest - len(sequence) for sequence in sequences]
    rows = zip(sequences, gaps, strict=True)
    return Padded(
        torch.tensor([[*sequence, *[pad_id] * gap] for sequence, gap in rows], dtype=torch.long),
        torch.tensor([[1] * (longest - gap) + [0] * gap for gap in gaps], dtype=torch.long),
    )


def pad_left(sequences: Sequence[Sequence[int]], pad_id: int, device: torch.device) -> Padded:
    """Pads at the start of each sequence, for causal models: the last column is the last token of every row."""
    longest = max(map(len, sequences))
    gaps = [longest - len(sequence) for sequence in sequences]
    rows = zip(sequences, gaps, strict=True)
    return Padded(
        torch.tensor([[*[pad_id] * gap, *sequence] for sequence, gap in rows], dtype=torch.long, device=device),
        torch.tensor([[0] * gap + [1] * (longest - gap) for gap in gaps], dtype=torch.long, device=device),
    )
