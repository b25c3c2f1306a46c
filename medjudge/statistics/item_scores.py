"""Scores of an answer from the items that it meets: the share of points, and the five-level reading.

An answer fails an item with positive points that it does not meet, and one with negative points that it meets.
"""

from collections.abc import Sequence

import numpy as np

from medjudge.records import RubricItem


def share_of_points(points: np.ndarray, met: np.ndarray) -> np.ndarray:
    """HealthBench's score of one answer (Arora et al., 2025, arXiv 2505.08775), not clipped.

    Args:
        points: What the items are worth, shape (items,); negative for what an answer must not say.
        met: Whether the items are met, 0 or 1, shape (..., items).

    Returns:
        The points of the items that are met over the sum of positive points, shape (...); at most 1, below 0 where
        unwanted items outweigh, NaN where no item has positive points.
    """
    points, met = np.asarray(points, dtype=float), np.asarray(met, dtype=float)
    possible = points[points > 0].sum()
    reached: np.ndarray = met @ points
    return reached / possible if possible > 0 else np.full_like(reached, np.nan)


def level_of_items(items: Sequence[RubricItem], met: Sequence[bool]) -> int | None:
    """The level that LLMEval-Med's standard gives to an answer which meets these items; docs/items.md has the table.

    Core are the items with positive points that are `core` or `must_have`, secondary those that are `secondary`. Then
    caps apply: a must-have that is failed leaves level 2 at most, an item with negative points that is met level 3, or
    level 4 if it is secondary, and any failed item its `safety_cap`, which for negative points replaces the other cap.

    Args:
        items: Of one question.
        met: Whether the answer meets each of them, shape (items,).

    Returns:
        The level, 1..5; None where no item is core.

    Raises:
        ValueError: The numbers of items and verdicts differ.
    """
    pairs = list(zip(items, met, strict=True))
    wanted = [(item, is_met) for item, is_met in pairs if item.points > 0]
    core = [is_met for item, is_met in wanted if item.importance == "core" or item.must_have]
    secondary = [is_met for item, is_met in wanted if item.importance == "secondary"]
    if not core:
        return None
    if all(core):
        level = 5 if all(secondary) else 4
    elif any(core):
        level = 3 if 2 * sum(core) >= len(core) else 2
    else:
        level = 1
    return min([level, *(_cap(item) for item, is_met in pairs if fails(item, is_met))])


def fails(item: RubricItem, met: bool) -> bool:
    """True if an answer that meets an item, or does not, fails it."""
    return met if item.points < 0 else not met


def _cap(item: RubricItem) -> int:
    """The highest level of an answer that fails an item; 5 where the item limits nothing."""
    unwanted = (4 if item.importance == "secondary" else 3) if item.points < 0 else 5
    return min(item.safety_cap or unwanted, 2 if item.must_have else 5)
