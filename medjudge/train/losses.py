"""Losses for judges."""

import torch
from torch.nn import functional


def cumulative_loss(cumulative: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy of each of the four questions "is the level above k?" (Cao, Mirjalili and Raschka, 2020).

    Confusing 1 with 5 costs four questions, confusing 4 with 5 one, which is what an ordinal scale means.

    Args:
        cumulative: Logits of level > 1, > 2, > 3, > 4, shape (batch, 4).
        target: Soft labels, level 1 first, shape (batch, 5), rows adding up to 1.
        weight: Shape (batch,), positive.

    Returns:
        The weighted mean over the batch, a scalar.
    """
    above = target.flip(1).cumsum(1).flip(1)[:, 1:]
    each = functional.binary_cross_entropy_with_logits(cumulative, above.to(cumulative.dtype), reduction="none").sum(1)
    return (each * weight).sum() / weight.sum()


def expected_level_loss(cumulative: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Squared error of the expected level, 1 + sum over k of P(level > k); the baseline of `cumulative_loss`.

    Args:
        cumulative: Logits of level > 1, > 2, > 3, > 4, shape (batch, 4).
        target: Soft labels, level 1 first, shape (batch, 5), rows adding up to 1.
        weight: Shape (batch,), positive.

    Returns:
        The weighted mean over the batch, a scalar.
    """
    expected = 1 + torch.sigmoid(cumulative).sum(dim=1)
    target_level = target @ torch.arange(1, 6, dtype=target.dtype, device=target.device)
    return ((expected - target_level).square() * weight).sum() / weight.sum()


def verdict_loss(logits: torch.Tensor, target: torch.Tensor, row: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the verdicts on points: the mean over an answer's labelled points, then over the answers.

    Args:
        logits: Of met, open and contradicted, shape (points, 3).
        target: Soft labels, shape (points, 3); all 0 for a point without a label.
        row: The answer of each point, shape (points,).
        weight: Of the answers, shape (batch,), positive.

    Returns:
        The weighted mean over the batch, a scalar; an answer without a labelled point counts as 0.
    """
    target = target.to(logits.dtype)
    none = logits.new_zeros(len(weight))
    total = none.index_add(0, row, -(target * functional.log_softmax(logits, dim=1)).sum(dim=1))
    labelled = none.index_add(0, row, target.sum(dim=1))
    return (total / labelled.clamp_min(1) * weight).sum() / weight.sum()
