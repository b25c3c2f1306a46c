"""Fits texts into a model's window: a text that is too long loses its middle."""

from collections.abc import Sequence


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
