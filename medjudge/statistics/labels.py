"""Agreement of two raters on pairs (1: the first of two answers is better, 0: a tie, -1: the second is) and on items.

Both raters' verdicts are on the same pairs or items, shape (n,); `cluster`, shape (n,), is the question or conversation
of each, which intervals resample. Pairs may also come from distributions over the five levels, as if the levels were
drawn independently.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from typing_extensions import Unpack

from medjudge.statistics.bootstrap import Resampling, Sums, dense_tally, tally
from medjudge.statistics.estimates import Estimate, estimates
from medjudge.statistics.measures import divided, f1, kappa


def both_orders(forward: np.ndarray, backward: np.ndarray) -> np.ndarray:
    """The verdict of two orders: theirs where they agree, else a tie; shapes (n,), (n,) -> (n,)."""
    return np.where(forward == backward, forward, 0)


def majority(verdicts: Sequence[int]) -> int:
    """The verdict of more than half of the raters, else a tie."""
    verdict, count = Counter(verdicts).most_common(1)[0]
    return verdict if 2 * count > len(verdicts) else 0


def pair_probabilities(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """The probabilities that the first level is higher, that both are equal, and that the second is higher.

    Args:
        first: Probabilities of the levels, lowest first, shape (..., levels).
        second: The same of the other answer, shape (..., levels).

    Returns:
        Shape (..., 3); they add up to 1.
    """
    joint = np.asarray(first)[..., :, None] * np.asarray(second)[..., None, :]
    higher = np.tril(joint, -1).sum(axis=(-2, -1))
    equal = np.trace(joint, axis1=-2, axis2=-1)
    lower = np.triu(joint, 1).sum(axis=(-2, -1))
    return np.stack([higher, equal, lower], axis=-1)


def likeliest(probabilities: np.ndarray) -> np.ndarray:
    """The verdict of (first, tie, second) probabilities, (..., 3) -> (...): 1, 0 or -1; a tie unless one is likelier.

    An equality of the first's and the second's probability is a tie, whatever the probability of a tie is.
    """
    first, tie, second = np.moveaxis(np.asarray(probabilities), -1, 0)
    decided = np.maximum(first, second) > np.maximum(tie, np.minimum(first, second)) + 1e-9
    return np.where(decided, np.sign(first - second), 0).astype(int)


def swaps(
    forward: np.ndarray, backward: np.ndarray, cluster: np.ndarray, **how: Unpack[Resampling]
) -> dict[str, Estimate]:
    """Swap consistency and position bias, with their intervals.

    Args:
        forward: Verdicts with the first answer shown first.
        backward: Verdicts with the second answer shown first; 1 is still the first answer.

    Returns:
        `consistency`, the share of pairs with the same verdict in both orders, and `shown_first`, of all verdicts that
        are no ties the share that prefers the answer shown first: 0.5 without position bias (Zheng et al., 2023, arXiv
        2306.05685).
    """
    first = (forward == 1).astype(int) + (backward == -1)  # preferred what was shown first
    second = (forward == -1).astype(int) + (backward == 1)
    table = np.column_stack([forward == backward, np.ones(len(forward)), first, second]).astype(float)

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        equal, n, shown_first, shown_second = sums["counts"]
        return {"consistency": divided(equal, n), "shown_first": divided(shown_first, shown_first + shown_second)}

    return estimates({"counts": dense_tally(table)}, cluster, statistics, ("consistency", "shown_first"), **how)


def verdict_agreement(
    judge: np.ndarray, physician: np.ndarray, cluster: np.ndarray, **how: Unpack[Resampling]
) -> dict[str, Estimate]:
    """Agreement of two raters on pairs, with intervals.

    Returns:
        `agreement`, the share of equal verdicts; `kappa`, Cohen's (1960), unweighted; `decided`, the share of equal
        verdicts among the pairs on which neither calls a tie (setup S2 of Zheng et al.).
    """

    def decided(counts: np.ndarray) -> np.ndarray:
        equal, opposite = counts[0, 0] + counts[2, 2], counts[0, 2] + counts[2, 0]
        return divided(equal, equal + opposite)

    return _agreement(judge + 1, physician + 1, 3, {"decided": decided}, cluster, how)


def met_agreement(
    judge: np.ndarray, physician: np.ndarray, cluster: np.ndarray, **how: Unpack[Resampling]
) -> dict[str, Estimate]:
    """Agreement of two raters on whether items are met, with intervals.

    Returns:
        `agreement` and `kappa` as for pairs, and `macro_f1`, the mean of the F1 scores of met and of not met, the
        measure of HealthBench's meta-evaluation (Arora et al., 2025, arXiv 2505.08775); a verdict that neither rater
        gave is left out of the mean.
    """

    def macro_f1(counts: np.ndarray) -> np.ndarray:
        scores = np.stack([f1(counts, label) for label in (0, 1)])
        return divided(np.nansum(scores, axis=0), np.isfinite(scores).sum(axis=0))

    return _agreement(judge.astype(int), physician.astype(int), 2, {"macro_f1": macro_f1}, cluster, how)


def _agreement(
    first: np.ndarray,
    second: np.ndarray,
    labels: int,
    further: Mapping[str, Callable[[np.ndarray], np.ndarray]],
    cluster: np.ndarray,
    how: Resampling,
) -> dict[str, Estimate]:
    """Agreement, Cohen's kappa and further measures of the table of counts of labels 0, 1, …"""

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        counts = sums["labels"]
        measures = {
            "agreement": divided(np.trace(counts), counts.sum(axis=(0, 1))),
            "kappa": kappa(counts, 1 - np.eye(labels)),
        }
        return measures | {name: measure(counts) for name, measure in further.items()}

    counted = {"labels": tally(first * labels + second, (labels, labels))}
    return estimates(counted, cluster, statistics, ("agreement", "decided"), **how)
