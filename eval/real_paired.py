"""Two judges against the same people: measures of each, their difference, and intervals over conversations."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.stats import rankdata

from medjudge.scale import USABLE_FROM
from medjudge.statistics.bootstrap import Sums, Tally, bootstrap, tally
from medjudge.statistics.correlations import spearman
from medjudge.statistics.estimates import estimate
from medjudge.statistics.measures import cohen_kappa, divided, quadratic_kappa, usable_agreement

RESAMPLES = 1000
MARGIN = 0.02
"""The loss of usable agreement that would not matter."""
_BINS = 20
_LEVELS = 5


def levels_of(probabilities: np.ndarray) -> np.ndarray:
    """Median levels, (n, 5) -> (n,), integers 1 to 5."""
    above = 1 - probabilities.cumsum(axis=1)[:, :4]
    levels: np.ndarray = 1 + (above >= 0.5 - 1e-9).sum(axis=1)
    return levels


def area(counts: np.ndarray) -> np.ndarray:
    """The area under the curve of usable by people, from counts of shape (values, levels, ...)."""
    no, yes = counts[:, : USABLE_FROM - 1].sum(axis=1), counts[:, USABLE_FROM - 1 :].sum(axis=1)
    below = np.cumsum(no, axis=0) - no / 2
    return divided((yes * below).sum(axis=0), yes.sum(axis=0) * no.sum(axis=0))


def measures(levels: np.ndarray, scores: np.ndarray) -> dict[str, np.ndarray]:
    """From counts by level, (5, 5, ...), and by score, (values, 5, ...)."""
    return {
        "usable_agreement": usable_agreement(levels),
        "cohen_kappa": cohen_kappa(levels),
        "quadratic_kappa": quadratic_kappa(levels),
        "spearman": spearman(scores),
        "auc": area(scores),
    }


def against_teacher(
    judged: Sequence[np.ndarray], teacher: np.ndarray, people: np.ndarray, conversation: np.ndarray
) -> dict[str, Any]:
    """Measures of a judge, means over its seeds, beside the teacher's; the resamples of all are the same.

    Args:
        judged: Probabilities of the five levels by each seed, (n, 5) each.
        teacher: Its scores, (n,).
        people: Their levels, (n,).
        conversation: (n,).
    """
    tables: dict[str, Tally] = {}
    for seed, probabilities in enumerate(judged):
        tables |= _of_judge(f"judge{seed}", probabilities, people)
    tables |= _tables("teacher", np.rint(teacher).astype(int), np.unique(teacher, return_inverse=True)[1], people)

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        judge = _mean(sums, "judge", len(judged))
        found: dict[str, np.ndarray] = {}
        for name, theirs in measures(sums["teacher levels"], sums["teacher scores"]).items():
            found |= {f"judge {name}": judge[name], f"difference {name}": judge[name] - theirs}
            found[f"teacher {name}"] = theirs
        share = divided(found["judge cohen_kappa"], found["teacher cohen_kappa"])
        return {**found, "share cohen_kappa": share}

    intervals = bootstrap(tables, conversation, statistics, RESAMPLES, 0, "percentile")
    table: dict[str, Any] = {"judge": {}, "teacher": {}, "difference": {}, "share": {}}
    for name, interval in intervals.items():
        side, measure = name.split(" ")
        table[side][measure] = estimate(interval)
    low = table["difference"]["usable_agreement"]["low"]
    return {
        "judge": table["judge"],
        "difference from gpt-4": table["difference"],
        "share of gpt-4's kappa": table["share"]["cohen_kappa"],
        "non-inferior at 2 points": bool(low is not None and low >= -MARGIN),
        "by seed": [
            {name: round(float(value), 4) for name, value in _whole(tables, f"judge{seed}").items()}
            for seed in range(len(judged))
        ],
    }


def between(
    judged: Sequence[np.ndarray], others: Sequence[np.ndarray], people: np.ndarray, conversation: np.ndarray
) -> dict[str, Any]:
    """Means over seeds of a judge's measures, and of its differences from another judge with intervals.

    Args:
        judged: Probabilities of the five levels by each seed, (n, 5) each.
        others: Those of the other judge with the same seeds.
        people: Their levels, (n,).
        conversation: (n,).
    """
    tables: dict[str, Tally] = {}
    for side, rows in (("judge", judged), ("other", others)):
        for seed, probabilities in enumerate(rows):
            tables |= _of_judge(f"{side}{seed}", probabilities, people)

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        ours, theirs = (_mean(sums, side, len(judged)) for side in ("judge", "other"))
        return {f"judge {name}": ours[name] for name in ours} | {
            f"difference {name}": ours[name] - theirs[name] for name in ours
        }

    intervals = bootstrap(tables, conversation, statistics, RESAMPLES, 0, "percentile")
    table: dict[str, Any] = {"judge": {}, "difference": {}}
    for name, interval in intervals.items():
        side, measure = name.split(" ")
        table[side][measure] = estimate(interval)
    return table


def _mean(sums: Sums, side: str, seeds: int) -> dict[str, np.ndarray]:
    each = [measures(sums[f"{side}{seed} levels"], sums[f"{side}{seed} scores"]) for seed in range(seeds)]
    return {name: np.mean([row[name] for row in each], axis=0) for name in each[0]}


def _of_judge(name: str, probabilities: np.ndarray, people: np.ndarray) -> dict[str, Tally]:
    return _tables(name, levels_of(probabilities), _binned(probabilities @ np.arange(1, 6)), people)


def _tables(name: str, levels: np.ndarray, scores: np.ndarray, people: np.ndarray) -> dict[str, Tally]:
    rows = int(scores.max()) + 1
    return {
        f"{name} levels": tally((levels - 1) * _LEVELS + people - 1, (_LEVELS, _LEVELS)),
        f"{name} scores": tally(scores * _LEVELS + people - 1, (rows, _LEVELS)),
    }


def _binned(expected: np.ndarray) -> np.ndarray:
    """The bin of each answer by its expected score: `_BINS` of equal size, so that counts add up over questions."""
    bins: np.ndarray = ((rankdata(expected) - 1) * _BINS).astype(int) // len(expected)
    return bins


def _whole(tables: dict[str, Tally], name: str) -> dict[str, np.ndarray]:
    def counts(kind: str) -> np.ndarray:
        entries = tables[f"{name} {kind}"]
        flat = np.bincount(entries.cell, entries.amount, int(np.prod(entries.shape)))
        return flat.reshape(*entries.shape, 1)

    return {key: value[0] for key, value in measures(counts("levels"), counts("scores")).items()}
