"""How far two raters agree on whether items are met."""

from typing import NamedTuple

import numpy as np

from medjudge.statistics.bootstrap import RESAMPLES, Method, Sums, bootstrap, tally
from medjudge.statistics.estimates import Estimate, estimate
from medjudge.statistics.measures import divided


class MetAgreement(NamedTuple):
    """Agreement of two raters on items.

    Attributes:
        agreement: The share of items with the same verdict.
        kappa: Cohen's kappa (1960) of met and not met.
        macro_f1: The mean of the F1 scores of met and of not met, the measure of HealthBench's meta-evaluation
            (Arora et al., 2025, arXiv 2505.08775); a verdict that neither rater gave is left out of the mean.
    """

    agreement: Estimate
    kappa: Estimate
    macro_f1: Estimate


def met_agreement(
    judge: np.ndarray,
    physician: np.ndarray,
    cluster: np.ndarray,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: Method = "bca",
) -> MetAgreement:
    """Agreement on the same items of the same answers, with intervals over conversations.

    Args:
        judge: Whether each item is met, shape (n,).
        physician: The other rater's verdicts, shape (n,).
        cluster: The conversation of each verdict, shape (n,).

    Raises:
        ValueError: The shapes differ.
    """
    judge, physician = np.asarray(judge, dtype=bool), np.asarray(physician, dtype=bool)
    if judge.shape != physician.shape or judge.ndim != 1:
        raise ValueError(f"judge {judge.shape} and physician {physician.shape} must be of one length")
    counted = {"verdicts": tally(2 * judge.astype(int) + physician, (2, 2))}
    intervals = bootstrap(counted, cluster, _measures, resamples, seed, method)
    conversations = len(np.unique(cluster))
    return MetAgreement(
        estimate(intervals["agreement"], conversations),
        estimate(intervals["kappa"]),
        estimate(intervals["macro_f1"]),
    )


def _measures(sums: Sums) -> dict[str, np.ndarray]:
    counts = sums["verdicts"]
    n = counts.sum(axis=(0, 1))
    observed = divided(counts[0, 0] + counts[1, 1], n)
    by_chance = divided((counts.sum(axis=0) * counts.sum(axis=1)).sum(axis=0), n**2)
    given = np.stack([counts[k].sum(axis=0) + counts[:, k].sum(axis=0) for k in (0, 1)])
    f1 = np.stack([divided(2 * counts[k, k], given[k]) for k in (0, 1)])
    occurs = given > 0
    return {
        "agreement": observed,
        "kappa": divided(observed - by_chance, 1 - by_chance),
        "macro_f1": divided(np.where(occurs, f1, 0).sum(axis=0), occurs.sum(axis=0)),
    }
