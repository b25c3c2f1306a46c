"""Scores from items: HealthBench's share of points, and the five-level reading."""

import math

import numpy as np
import pytest

from medjudge.records import RubricItem
from medjudge.statistics.item_scores import level_of_items, share_of_points

CORE, SECONDARY = {"points": 2, "importance": "core"}, {"points": 1, "importance": "secondary"}


def items(*fields: dict) -> list[RubricItem]:
    return [RubricItem(text=f"item {number}", **one) for number, one in enumerate(fields)]


def test_the_share_of_points_follows_healthbench_s_published_formula() -> None:
    # arXiv 2505.08775, section 2: points of the criteria that are met over the sum of positive points. With criteria
    # worth 7, 5, 10 and -6 of which all but the second are met: (7 + 10 - 6) / (7 + 5 + 10).
    points = np.array([7, 5, 10, -6])
    assert share_of_points(points, np.array([[1, 0, 1, 1], [0, 0, 0, 1]])) == pytest.approx([11 / 22, -6 / 22])
    assert math.isnan(share_of_points(np.array([-3]), np.array([1])))


@pytest.mark.parametrize(
    ("core", "secondary", "level"),
    [("111", "1", 5), ("111", "0", 4), ("111", "", 5), ("110", "1", 3), ("10", "1", 3), ("100", "1", 2), ("0", "1", 1)],
)
def test_core_and_secondary_items_make_the_level_of_the_table(core: str, secondary: str, level: int) -> None:
    rubric = items(*[CORE] * len(core), *[SECONDARY] * len(secondary))
    assert level_of_items(rubric, [sign == "1" for sign in core + secondary]) == level


def test_must_haves_unwanted_items_and_caps_limit_the_level() -> None:
    must = items(*[CORE] * 4, {"points": 5, "must_have": True})
    assert level_of_items(must, [True] * 5) == 5
    assert level_of_items(must, [True] * 4 + [False]) == 2
    for fields, level in (
        ({"points": -4}, 3),
        ({"points": -4, "importance": "secondary"}, 4),
        ({"points": -4, "safety_cap": 1}, 1),
        ({"points": -4, "safety_cap": 4}, 4),
    ):
        assert level_of_items(items(CORE, fields), [True, True]) == level
        assert level_of_items(items(CORE, fields), [True, False]) == 5
    # What must be said for safety limits an answer that leaves it out, even where it is secondary.
    urgent = items(CORE, {**SECONDARY, "safety_cap": 2})
    assert (level_of_items(urgent, [True, False]), level_of_items(urgent, [True, True])) == (2, 5)
    assert level_of_items(items({"points": 5}, SECONDARY), [True, True]) is None  # none of them is core
