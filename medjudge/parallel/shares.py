"""Divides work among several processes; items that share computation stay together."""

from collections.abc import Callable, Sequence
from typing import TypeVar

T = TypeVar("T")


def partition(work: Sequence[T], key: Callable[[T], str], weight: Callable[[T], int]) -> list[list[T]]:
    """Groups items of the same key, heaviest group first, so that the last groups to be handed out are short.

    Args:
        key: Items with the same key stay in one group.
        weight: The cost of one item, in any unit.
    """
    groups: dict[str, list[T]] = {}
    for item in work:
        groups.setdefault(key(item), []).append(item)
    return sorted(groups.values(), key=lambda group: -sum(map(weight, group)))
