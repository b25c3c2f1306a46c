"""Random draws with weights."""

from random import Random
from typing import TypeVar

_Key = TypeVar("_Key")


def in_random_order(weights: dict[_Key, float], draw: Random) -> list[_Key]:
    """The keys in random order, those of more weight rather first (Efraimidis and Spirakis, 2006)."""
    return sorted(weights, key=lambda key: draw.random() ** (1 / weights[key]), reverse=True)
