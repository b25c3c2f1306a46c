"""Compares two judges with the same physicians on the same answers: both agreements, and the paired difference."""

from typing import NamedTuple

import numpy as np
from typing_extensions import Unpack

from medjudge.scale import LEVELS
from medjudge.statistics.bootstrap import Interval, Resampling, Sums, bootstrap, tally
from medjudge.statistics.estimates import Estimate, difference_ends, estimate
from medjudge.statistics.measures import bias, cohen_kappa, quadratic_kappa, usable_agreement

_MEASURES = {
    "usable_agreement": usable_agreement,
    "cohen_kappa": cohen_kappa,
    "quadratic_kappa": quadratic_kappa,
    "bias": bias,
}
_SIDES = ("first", "second", "difference")


class Compared(NamedTuple):
    """Estimates by measure: of each judge, and of first minus second."""

    first: dict[str, Estimate]
    second: dict[str, Estimate]
    difference: dict[str, Estimate]


def compare(
    first: np.ndarray,
    second: np.ndarray,
    physician: np.ndarray,
    clusters: np.ndarray,
    **how: Unpack[Resampling],
) -> Compared:
    """Compares two judges. The same resamples serve both, so differences in difficulty cancel out.

    Args:
        first: Levels 1-5, shape (n,), integers.
        second: Levels of the same answers by the other judge, shape (n,).
        physician: The physicians' levels of the same answers, shape (n,).
        clusters: The conversation of each answer, shape (n,).
    """
    tallies = {
        side: tally((judge - 1) * LEVELS + physician - 1, (LEVELS, LEVELS))
        for side, judge in (("first", first), ("second", second))
    }

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        values = {(side, name): measure(sums[side]) for side in tallies for name, measure in _MEASURES.items()}
        for name in _MEASURES:
            values["difference", name] = values["first", name] - values["second", name]
        return {f"{side} {name}": value for (side, name), value in values.items()}

    intervals = bootstrap(tallies, clusters, statistics, **how)
    n = len(np.unique(clusters))
    return Compared(
        *({name: _estimate(intervals[f"{side} {name}"], name, side, n) for name in _MEASURES} for side in _SIDES)
    )


def _estimate(interval: Interval, measure: str, side: str, clusters: int) -> Estimate:
    if measure != "usable_agreement":
        return estimate(interval, clusters)
    if side == "difference":
        interval = Interval(interval.value, *difference_ends(interval.low, interval.high, interval.value, clusters))
    return estimate(interval, clusters, share=True)
