"""Bootstrap over conversations: whole clusters are drawn, because the turns of a conversation are not independent.

Not rows are resampled, but counts that add up over conversations (confusion matrices, coincidences, sums).
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Literal, NamedTuple

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri
from typing_extensions import TypedDict

Sums = Mapping[str, np.ndarray]
"""Name -> sums over all drawn conversations, shape (*shape of one table, resamples)."""
Statistics = Callable[[Sums], dict[str, np.ndarray]]
"""From sums to one value per resample: name -> shape (resamples,), NaN if undefined."""
Method = Literal["percentile", "bca"]

RESAMPLES = 10_000
_TAIL = (1 - 0.95) / 2
_MAX_NUMBERS = 4_000_000
"""The most numbers in one array: 32 MB."""


class Resampling(TypedDict, total=False):
    """The settings of a bootstrap: the keywords of `bootstrap`, which every estimate passes on."""

    resamples: int
    seed: int
    method: Method


def by_percentile(how: Resampling) -> Resampling:
    """The same draws with percentile intervals, for statistics that a correction of bias cannot help."""
    return {**how, "method": "percentile"}


def interval_text(resamples: int, method: Method = "bca") -> str:
    """The method of the intervals, for people."""
    name = {"percentile": "percentile", "bca": "bias-corrected and accelerated"}[method]
    return f"95 %, {name} bootstrap over conversations, {resamples} resamples"


class Interval(NamedTuple):
    """A value with its interval; NaN if undefined."""

    value: float
    low: float
    high: float


class Tally(NamedTuple):
    """Entries of a table of counts: answer `answer[k]` adds `amount[k]` to cell `cell[k]`.

    `cell` indexes the flattened table of shape `shape`.
    """

    answer: np.ndarray
    cell: np.ndarray
    amount: np.ndarray
    shape: tuple[int, ...]


def tally(cell: np.ndarray, shape: tuple[int, ...], amount: np.ndarray | None = None) -> Tally:
    """The tally in which each answer adds to one cell, shape (n,); 1 unless amounts are given."""
    return Tally(np.arange(len(cell)), cell, np.ones(len(cell)) if amount is None else amount, shape)


def dense_tally(table: np.ndarray) -> Tally:
    """The tally in which each answer adds a whole table, shape (n, *shape)."""
    flat = table.reshape(len(table), -1)
    answer, cell = np.nonzero(flat)
    return Tally(answer, cell, flat[answer, cell], table.shape[1:])


def bootstrap(
    tallies: Mapping[str, Tally],
    cluster: np.ndarray,
    statistics: Statistics,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: Method = "bca",
) -> dict[str, Interval]:
    """Values and intervals of statistics under resampling of clusters (Davison and Hinkley, 1997, section 3.8).

    Args:
        tallies: Name -> counts by answer, over n answers.
        cluster: The conversation of each answer, shape (n,).
        statistics: Computes values from sums. Differences in it are paired: one draw serves all tallies.
        resamples: The number of resamples.
        seed: The seed of the draws.
        method: `percentile`, or `bca`: bias-corrected and accelerated (Efron, 1987).

    Returns:
        Name -> value and interval. An interval is NaN if fewer than half of the resamples are defined.
    """
    clusters, member = np.unique(cluster, return_inverse=True)
    tables = {
        name: csr_array((amount, (cell, member[answer])), shape=(math.prod(shape), len(clusters)))
        for name, (answer, cell, amount, shape) in tallies.items()
    }
    most_cells = max(table.shape[0] for table in tables.values())

    def values(sums: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """The statistics of flattened sums, each of shape (cells, resamples)."""
        return statistics({name: flat.reshape(*tallies[name].shape, -1) for name, flat in sums.items()})

    whole = {name: np.asarray(table.sum(axis=1)).reshape(-1, 1) for name, table in tables.items()}
    point = {name: float(value[0]) for name, value in values(whole).items()}
    draws = _weights(len(clusters), resamples, seed, max(1, _MAX_NUMBERS // max(len(clusters), most_cells)))
    drawn = _collected(values({name: table @ weights for name, table in tables.items()}) for weights in draws)
    if method == "percentile":
        return {name: Interval(point[name], *percentile(drawn[name])) for name in point}
    columns, chunk = {name: table.tocsc() for name, table in tables.items()}, max(1, _MAX_NUMBERS // most_cells)
    left_out = _collected(
        values({name: whole[name] - table[:, start : start + chunk].toarray() for name, table in columns.items()})
        for start in range(0, len(clusters), chunk)
    )
    return {name: Interval(point[name], *bca(drawn[name], point[name], left_out[name])) for name in point}


def percentile(drawn: np.ndarray, low: float = _TAIL, high: float = 1 - _TAIL) -> tuple[float, float]:
    """The interval between two quantiles, of 95 % unless given, over the resamples in which the statistic is defined.

    Args:
        drawn: Resampled values, shape (resamples,), NaN if undefined.

    Returns:
        Low and high; NaN if fewer than half of the resamples are defined.
    """
    defined = drawn[np.isfinite(drawn)]
    if len(defined) < len(drawn) / 2 or len(defined) == 0:
        return float("nan"), float("nan")
    first, second = np.quantile(defined, [low, high])
    return float(first), float(second)


def bca(drawn: np.ndarray, point: float, left_out: np.ndarray) -> tuple[float, float]:
    """The 95 % bias-corrected and accelerated interval (Efron, 1987; Davison and Hinkley, 1997, section 5.3.2).

    Args:
        drawn: Resampled values, shape (resamples,), NaN if undefined.
        point: The statistic of the whole sample.
        left_out: The statistic without each cluster in turn, shape (clusters,).

    Returns:
        Low and high; the percentile interval if bias or acceleration cannot be estimated.
    """
    defined = drawn[np.isfinite(drawn)]
    influence = np.nanmean(left_out) - left_out[np.isfinite(left_out)] if np.isfinite(left_out).any() else np.zeros(1)
    spread = (influence**2).sum()
    # Ties with the point count half: on few answers many resamples repeat it exactly.
    below = ((defined < point).mean() + (defined <= point).mean()) / 2 if len(defined) else np.nan
    if not (0 < below < 1) or spread == 0:
        return percentile(drawn)
    shift = ndtri(below)
    acceleration = (influence**3).sum() / (6 * spread**1.5)
    moved = shift + ndtri([_TAIL, 1 - _TAIL])
    return percentile(drawn, *ndtr(shift + moved / (1 - acceleration * moved)))


def _weights(clusters: int, resamples: int, seed: int, most: int) -> Iterator[np.ndarray]:
    """The count of draws of each cluster, for at most so many resamples at a time, shape (clusters, chunk)."""
    generator = np.random.default_rng(seed)
    for start in range(0, resamples, most):
        chunk = min(most, resamples - start)
        drawn = generator.integers(0, clusters, size=(chunk, clusters), dtype=np.int64)
        drawn += clusters * np.arange(chunk)[:, None]
        counts = np.bincount(drawn.ravel(), minlength=chunk * clusters).reshape(chunk, clusters)
        yield np.ascontiguousarray(counts.T, dtype=float)


def _collected(parts: Iterator[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    collected = list(parts)
    return {name: np.concatenate([part[name] for part in collected]) for name in collected[0]}
