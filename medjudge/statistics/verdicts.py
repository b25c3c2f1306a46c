"""Verdicts on pairs: whether they survive a swap of the two answers, and how far two raters agree on them.

A verdict is 1 where the first of two answers is better, 0 for a tie, -1 where the second is.
"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from medjudge.statistics.bootstrap import RESAMPLES, Method, Sums, bootstrap, dense_tally, tally
from medjudge.statistics.estimates import Estimate, estimate
from medjudge.statistics.measures import divided


class Swaps(NamedTuple):
    """What a change of the order changes.

    Attributes:
        consistency: The share of pairs with the same verdict in both orders.
        shown_first: Of all verdicts that are no ties, the share that prefers the answer shown first; each pair is
            judged in both orders, so 0.5 without position bias (Zheng et al., 2023, arXiv 2306.05685).
    """

    consistency: Estimate
    shown_first: Estimate


class VerdictAgreement(NamedTuple):
    """Agreement of two raters on pairs.

    Attributes:
        agreement: The share of pairs with the same verdict of the three.
        kappa: Cohen's kappa (1960) of the three verdicts, unweighted.
        decided: The share of equal verdicts among the pairs on which neither calls a tie (setup S2 of Zheng et al.).
    """

    agreement: Estimate
    kappa: Estimate
    decided: Estimate


def both_orders(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """The verdict of two orders: theirs where they agree, else a tie; shapes (n,), (n,) -> (n,)."""
    return np.where(forward == backward, forward, 0)


def majority(verdicts: Sequence[int]) -> int:
    """The verdict of more than half of the raters, else a tie."""
    verdict, count = Counter(verdicts).most_common(1)[0]
    return verdict if 2 * count > len(verdicts) else 0


def swaps(
    forward: np.ndarray,
    backward: np.ndarray,
    cluster: np.ndarray,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: Method = "bca",
) -> Swaps:
    """Swap consistency and position bias, with intervals over questions.

    Args:
        forward: Verdicts with the first answer shown first, shape (n,).
        backward: Verdicts on the same pairs with the second answer shown first; 1 is still the first answer.
        cluster: The question or conversation of each pair, shape (n,).
    """
    same = forward == backward
    table = np.column_stack(
        [
            same,
            np.ones(len(forward)),
            (forward == 1).astype(int) + (backward == -1),  # preferred what was shown first
            (forward == -1).astype(int) + (backward == 1),
        ]
    ).astype(float)

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        equal, n, shown_first, shown_second = sums["counts"]
        return {"consistency": divided(equal, n), "shown_first": divided(shown_first, shown_first + shown_second)}

    intervals = bootstrap({"counts": dense_tally(table)}, cluster, statistics, resamples, seed, method)
    questions = len(np.unique(cluster))
    return Swaps(estimate(intervals["consistency"], questions), estimate(intervals["shown_first"], questions))


def verdict_agreement(
    judge: np.ndarray,
    physician: np.ndarray,
    cluster: np.ndarray,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: Method = "bca",
) -> VerdictAgreement:
    """Agreement of two raters on the same pairs, with intervals over questions.

    Args:
        judge: Verdicts, shape (n,).
        physician: Verdicts on the same pairs, shape (n,).
        cluster: The question or conversation of each pair, shape (n,).

    Raises:
        ValueError: The shapes differ, or a verdict is none of 1, 0 and -1.
    """
    judge, physician = np.asarray(judge), np.asarray(physician)
    if judge.shape != physician.shape or judge.ndim != 1:
        raise ValueError(f"judge {judge.shape} and physician {physician.shape} must be of one length")
    for verdicts in (judge, physician):
        if not np.isin(verdicts, (-1, 0, 1)).all():
            raise ValueError("a verdict is 1, 0 or -1")
    counted = {"verdicts": tally((judge + 1) * 3 + physician + 1, (3, 3))}
    intervals = bootstrap(counted, cluster, _agreement, resamples, seed, method)
    questions = len(np.unique(cluster))
    return VerdictAgreement(
        estimate(intervals["agreement"], questions),
        estimate(intervals["kappa"]),
        estimate(intervals["decided"], questions),
    )


def _agreement(sums: Sums) -> dict[str, np.ndarray]:
    counts = sums["verdicts"]
    n = counts.sum(axis=(0, 1))
    observed = divided(counts[0, 0] + counts[1, 1] + counts[2, 2], n)
    by_chance = divided((counts.sum(axis=0) * counts.sum(axis=1)).sum(axis=0), n**2)
    equal, opposite = counts[0, 0] + counts[2, 2], counts[0, 2] + counts[2, 0]
    return {
        "agreement": observed,
        "kappa": divided(observed - by_chance, 1 - by_chance),
        "decided": divided(equal, equal + opposite),
    }
