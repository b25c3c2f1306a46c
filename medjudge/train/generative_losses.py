"""Losses of a generative judge: on its words, on the distribution over five levels, on the level it expects."""

import torch
from torch.nn import functional


def language_loss(logits: torch.Tensor, token: torch.Tensor, line: torch.Tensor, lines: int) -> torch.Tensor:
    """The mean negative log likelihood of each line's own words.

    The mean is over a line, not over the batch: a long rationale does not outweigh a short one, and a line without a
    rationale counts as much as one with a rationale.

    Args:
        logits: Next-token logits, shape (tokens, vocabulary).
        token: The token that follows, shape (tokens,).
        line: The line that each token belongs to, 0..lines-1, shape (tokens,).
        lines: The number of lines.

    Returns:
        Shape (lines,), nats; 0 for a line without tokens.
    """
    each = functional.cross_entropy(logits.float(), token, reduction="none")
    total = torch.zeros(lines, device=each.device).index_add(0, line, each)
    return total / torch.bincount(line, minlength=lines).clamp_min(1)


def score_loss(levels: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the soft label with the probabilities that the five score tokens have in the whole vocabulary.

    It is the cross-entropy within the five levels plus the negative log probability of saying any level at all: for
    one certain level it is the language loss of its token.

    Args:
        levels: Log probabilities of the five score tokens in the whole vocabulary, level 1 first, shape (lines, 5).
        target: Soft labels, shape (lines, 5), rows adding up to 1.

    Returns:
        Shape (lines,), nats.
    """
    return -(target * levels).sum(dim=1)


def regression_loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Squared error of the expected level, sum over k of k p(k) (regression-aware, TRACT, arXiv 2503.04381).

    p is the distribution within the five levels, as the judge reads it, and the target the mean of the soft label. Its
    gradient is most of an untuned model's, which is clipped: `configs/judges/gemma3-270m-lora.yaml` gives it a tenth.

    Args:
        logits: Of the five score tokens, or their log probabilities, level 1 first, shape (lines, 5).
        target: Soft labels, shape (lines, 5), rows adding up to 1.

    Returns:
        Shape (lines,), squared levels, 0 to 16.
    """
    levels = torch.arange(1, 6, dtype=torch.float32, device=logits.device)
    return (logits.float().softmax(dim=1) @ levels - target @ levels).square()
