"""Has the agreement of a judge with physicians changed? A permutation test on old and new scores."""

from typing import NamedTuple

import numpy as np

from medjudge.statistics.measures import divided

RESAMPLES = 4_000


class Scored(NamedTuple):
    """Answers of one study: a value each (right or wrong, or judge minus physician), its stratum and conversation.

    All have shape (n,).
    """

    value: np.ndarray
    stratum: np.ndarray
    conversation: np.ndarray


class Change(NamedTuple):
    """New minus old, and how often chance alone makes it so.

    Attributes:
        difference: The mean difference over the strata that both studies have; NaN where there is none.
        lower: The p-value of a fall at least this large.
        either: The p-value of a change at least this large in either direction.
        paired: The number of conversations that both studies have.
        strata: The strata that both have.
    """

    difference: float
    lower: float
    either: float
    paired: int
    strata: tuple[str, ...]


def change(old: Scored, new: Scored, resamples: int = RESAMPLES, seed: int = 0) -> Change:
    """Compares the means of two studies by exchanging whole conversations between them, within strata.

    A conversation of both studies swaps its two sides; the others change places (Good, 2005, chapter 3). If nothing has
    changed, all these exchanges are equally likely, so an alarm at a p-value of alpha is false with probability alpha
    at most, however few conversations there are. The difference is the mean of the strata's differences, weighted by
    n_old n_new / (n_old + n_new) (Cochran, 1954).

    Args:
        resamples: The number of exchanges.
        seed: Of the exchanges.
    """
    strata = sorted({str(name) for name in old.stratum} & {str(name) for name in new.stratum})
    generator = np.random.default_rng(seed)
    top, bottom, paired = np.zeros(resamples + 1), np.zeros(resamples + 1), 0
    for name in strata:
        sides = _by_conversation(_only(old, name), _only(new, name))
        exchanged = _exchanged(sides, resamples, generator)
        counts, sums = exchanged[..., 0], exchanged[..., 1]
        weight = divided(counts[:, 0] * counts[:, 1], counts.sum(axis=1))
        means = divided(sums, counts)
        top += np.nan_to_num(weight * (means[:, 1] - means[:, 0]))
        bottom += np.nan_to_num(weight)
        paired += int((sides[:, :, 0] > 0).all(axis=1).sum())
    differences = divided(top, bottom)
    here, others = differences[0], differences[1:]
    if not np.isfinite(here):
        return Change(float("nan"), float("nan"), float("nan"), paired, tuple(strata))
    lower = (1 + (others <= here + 1e-12).sum()) / (resamples + 1)
    either = (1 + (np.abs(others) >= abs(here) - 1e-12).sum()) / (resamples + 1)
    return Change(float(here), float(lower), float(either), paired, tuple(strata))


def _only(scored: Scored, stratum: str) -> Scored:
    rows = scored.stratum.astype(str) == stratum
    return Scored(*(column[rows] for column in scored))


def _by_conversation(old: Scored, new: Scored) -> np.ndarray:
    """Answers and their sum of each conversation on either side, shape (conversations, 2, 2)."""
    names, place = np.unique(np.concatenate([old.conversation, new.conversation]).astype(str), return_inverse=True)
    split = len(old.conversation)
    sides = np.zeros((len(names), 2, 2))
    for side, (places, value) in enumerate(((place[:split], old.value), (place[split:], new.value))):
        sides[:, side, 0] = np.bincount(places, minlength=len(names))
        sides[:, side, 1] = np.bincount(places, value, minlength=len(names))
    return sides


def _exchanged(sides: np.ndarray, resamples: int, generator: np.random.Generator) -> np.ndarray:
    """Totals of both sides, shape (1 + resamples, 2, 2): as they are, and after each exchange."""
    both = (sides[:, :, 0] > 0).all(axis=1)
    pairs, single = sides[both], sides[~both]
    totals = np.zeros((resamples + 1, 2, 2))
    totals[0] = sides.sum(axis=0)
    if len(pairs):
        swap = generator.random((resamples, len(pairs))) < 0.5
        apart = pairs[:, 1] - pairs[:, 0]
        moved = np.einsum("rp,pv->rv", swap, apart)
        totals[1:, 0] += pairs[:, 0].sum(axis=0) + moved
        totals[1:, 1] += pairs[:, 1].sum(axis=0) - moved
    if len(single):
        values = single.sum(axis=1)  # one side is empty
        on_new = single[:, 1, 0] > 0
        places = generator.permuted(np.tile(on_new, (resamples, 1)), axis=1)
        to_new = places @ values
        totals[1:, 1] += to_new
        totals[1:, 0] += values.sum(axis=0) - to_new
    return totals
