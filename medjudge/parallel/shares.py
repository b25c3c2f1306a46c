"""Cuts work into pieces for several processes; what shares computation stays in one piece."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def pieces(work: Sequence[T], belongs: Callable[[T], str], weight: Callable[[T], int]) -> list[list[T]]:
    """Everything that belongs together, heaviest first: the last pieces to be dealt out are the short ones.

    Args:
        belongs: The name of the piece that one item belongs to.
        weight: Of one item; any unit.
    """
    found: dict[str, list[T]] = {}
    for one in work:
        found.setdefault(belongs(one), []).append(one)
    return sorted(found.values(), key=lambda piece: -sum(map(weight, piece)))
