"""Coverage of 95 % intervals of rubric items in simulated studies.

    python eval/statistics/item_coverage.py

Agreement, kappa and macro-F1 of verdicts on items, and the mean share of points. The result is
eval/results/item-coverage.json.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from eval.lib.study import record
from eval.statistics.interval_coverage import coverage_of, ends_of, over_designs
from medjudge.statistics.estimates import Estimate, mean_interval
from medjudge.statistics.item_scores import share_of_points
from medjudge.statistics.labels import met_agreement

_RESAMPLES = 1000
_TRUTH_FROM = 100_000
"""Conversations of the one large study that gives the true values."""


class ItemDesign(NamedTuple):
    """A study of one theme: `conversations` with one answer each, `items` of the theme in each.

    `met` is the mean probability that physicians find an item met; `between` is the standard deviation over
    conversations of its log odds, so that the items of an answer are not independent. The judge agrees with a
    physicians' verdict of met with probability `sees_met`, of not met with `sees_unmet`.
    """

    conversations: int
    items: int = 10
    met: float = 0.65
    between: float = 1.0
    sees_met: float = 0.85
    sees_unmet: float = 0.8


class SimulatedItems(NamedTuple):
    """Verdicts of a study, one row each, shape (n,): two raters, and the conversation."""

    judge: np.ndarray
    physician: np.ndarray
    conversation: np.ndarray


def simulated_items(design: ItemDesign, generator: np.random.Generator) -> SimulatedItems:
    """Draws a study of items."""
    odds = np.log(design.met / (1 - design.met)) + design.between * generator.normal(size=design.conversations)
    conversation = np.repeat(np.arange(design.conversations), design.items)
    physician = generator.random(len(conversation)) < 1 / (1 + np.exp(-odds[conversation]))
    right = generator.random(len(conversation)) < np.where(physician, design.sees_met, design.sees_unmet)
    return SimulatedItems(np.where(right, physician, ~physician), physician, conversation)


def item_coverage(studies: int = 400, seed: int = 0, designs: Iterable[ItemDesign] | None = None) -> dict[str, Any]:
    """Coverage of the intervals of agreement on items, and of the mean share of points.

    Args:
        studies: Simulated studies for each design.
        seed: Fixes the draws; each design has its own.
        designs: Four unless given.
    """
    part = over_designs(designs or item_designs(), studies, seed, lambda design, draw: _item_row(design, studies, draw))
    return {**part, "resamples": _RESAMPLES}


def item_designs() -> Iterator[ItemDesign]:
    """From 20 conversations on; in the last, a theme has one item in each answer."""
    yield ItemDesign(100)
    yield ItemDesign(50, met=0.85)
    yield ItemDesign(20)
    yield ItemDesign(100, items=1)


def _item_row(design: ItemDesign, studies: int, generator: np.random.Generator) -> dict[str, Any]:
    points = _points(design.items)
    large = simulated_items(design._replace(conversations=_TRUTH_FROM), generator)
    truth = {name: float(found["value"] or 0) for name, found in _agreements(large, 1, 0).items()}
    truth["share_of_points"] = float(_shares(large, points).mean())
    ends: dict[str, list[tuple[float, float]]] = {name: [] for name in truth}
    for study in range(studies):
        for name, interval in _item_intervals(simulated_items(design, generator), points, study).items():
            ends[name].append(interval)
    return {"design": design._asdict(), **{name: coverage_of(ends[name], exact) for name, exact in truth.items()}}


def _item_intervals(drawn: SimulatedItems, points: np.ndarray, seed: int) -> dict[str, tuple[float, float]]:
    ends = {name: ends_of(found) for name, found in _agreements(drawn, _RESAMPLES, seed).items()}
    shares = _shares(drawn, points)
    ends["share_of_points"] = mean_interval(shares, np.arange(len(shares)), resamples=_RESAMPLES, seed=seed)[1:]
    return ends


def _agreements(drawn: SimulatedItems, resamples: int, seed: int) -> dict[str, Estimate]:
    return met_agreement(drawn.judge, drawn.physician, drawn.conversation, resamples=resamples, seed=seed)


def _points(items: int) -> np.ndarray:
    """Points as HealthBench has them: 1 to 10, and every fourth item negative."""
    number = np.arange(items)
    return np.where(number % 4 == 3, -(1 + number % 10), 1 + number % 10).astype(float)


def _shares(drawn: SimulatedItems, points: np.ndarray) -> np.ndarray:
    """The share of points of each answer by the judge's verdicts, shape (conversations,)."""
    return share_of_points(points, drawn.judge.reshape(-1, len(points)))


def main() -> None:
    """Simulates and writes the result."""
    start = time.monotonic()
    results = {"command": "python eval/statistics/item_coverage.py", "items": item_coverage()}
    record("item-coverage", {**results, "seconds": round(time.monotonic() - start)})


if __name__ == "__main__":
    main()
