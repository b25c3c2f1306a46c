"""Part 4: what a user gets from few scores of people: errors of the models' usability rates and of their order.

Four ways to rates: people alone, the judge alone, the judge corrected by the same scores (prediction-powered), and the
judge with its least certain answers given to people.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from real_cells import Cell, Cells
from real_material import FEW, SEEDS, Material, drawn
from scipy.stats import spearmanr

from medjudge.scale import USABLE_FROM
from medjudge.statistics.conformal import most_uncertain
from medjudge.statistics.prediction_powered import physicians_only_rate, prediction_powered_rate

DEFERRED = (0.05, 0.1, 0.2)
Rates = Mapping[str, float]


def few_table(cells: Cells) -> dict[str, Any]:
    """By number of scores and way: mean over three draws of the rates' error and of the order's correlation."""
    material = cells.material
    table: dict[str, Any] = {}
    for count in FEW:
        found: dict[str, list[dict[str, float]]] = {}
        for seed in SEEDS:
            usable = cells.probabilities(Cell("questions", "both", count, seed))[:, USABLE_FROM - 1 :].sum(axis=1)
            for name, rates in ways(material, usable.clip(0, 1), count, seed).items():
                found.setdefault(name, []).append(errors(material, rates))
        table[str(count)] = {
            name: {key: round(float(np.mean([row[key] for row in rows])), 4) for key in rows[0]}
            for name, rows in found.items()
        }
    table["gpt-4"] = errors(material, by_model(material, (material.expected >= USABLE_FROM).astype(float)))
    return table


def ways(material: Material, usable: np.ndarray, count: int, seed: int) -> dict[str, dict[str, float]]:
    """Each model's usability rate by each way.

    Args:
        usable: The judge's P(usable) of every answer, on questions that it did not see, (n,).
        count: How many answers people scored: those that the judge learned from, but for its own fold's.
        seed: Of the draw.
    """
    everything = np.arange(len(usable))
    called = (usable >= 0.5).astype(float)
    scored = drawn(everything, count, seed)
    people = np.full(len(usable), np.nan)
    people[scored] = material.usable[scored]
    found = {
        "people alone": per_model(
            material, lambda rows: physicians_only_rate(people[rows], _clusters(material, rows)).value
        ),
        "judge alone": by_model(material, called),
        "judge's probabilities": by_model(material, usable),
        "prediction-powered": per_model(
            material,
            lambda rows: prediction_powered_rate(usable[rows], people[rows], _clusters(material, rows)).value,
        ),
    }
    for share in DEFERRED:
        answered = called.copy()
        deferred = most_uncertain(usable, share)
        answered[deferred] = material.usable[deferred]
        found[f"judge, {share:.0%} to people"] = by_model(material, answered)
    return found


def _clusters(material: Material, rows: np.ndarray) -> np.ndarray:
    return material.conversation[rows].astype(str)


def per_model(material: Material, rate: Callable[[np.ndarray], float]) -> dict[str, float]:
    """A rate from the rows of each model."""
    return {str(name): rate(np.flatnonzero(material.model == name)) for name in np.unique(material.model.astype(str))}


def by_model(material: Material, usable: np.ndarray) -> dict[str, float]:
    """The mean of each model's answers."""
    return per_model(material, lambda rows: float(usable[rows].mean()))


def errors(material: Material, rates: Rates) -> dict[str, float]:
    """How far the rates are from those by all of people's scores, in points, and how alike the order is.

    A model without a score takes the mean of the others. Rates that are all equal have no order: 0.
    """
    truth = by_model(material, material.usable.astype(float))
    values = np.array([rates[name] for name in truth], float)
    values = np.where(np.isnan(values), np.nanmean(values), values)
    wanted = np.array(list(truth.values()))
    off = 100 * (values - wanted)
    ordered = np.ptp(values) > 0 and np.ptp(wanted) > 0
    return {
        "mean_error": round(float(np.abs(off).mean()), 3),
        "largest_error": round(float(np.abs(off).max()), 3),
        "bias": round(float(off.mean()), 3),
        "order_spearman": round(float(spearmanr(values, wanted).statistic), 4) if ordered else 0.0,
    }
