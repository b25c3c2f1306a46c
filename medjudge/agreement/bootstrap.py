"""Bootstrap over conversations: whole clusters are drawn, because the turns of one conversation are not independent."""

import numpy as np


def resampled_weights(clusters: int, resamples: int, seed: int) -> np.ndarray:
    """How often each cluster is drawn in each resample (Efron, 1979; Davison and Hinkley, 1997, section 3.8).

    Args:
        clusters: The number of clusters.
        resamples: The number of resamples.
        seed: Fixes the draws.

    Returns:
        Counts, shape (resamples, clusters); each row adds up to `clusters`.
    """
    generator = np.random.default_rng(seed)
    return generator.multinomial(clusters, np.full(clusters, 1 / clusters), size=resamples).astype(float)


def percentile_interval(values: np.ndarray, confidence: float = 0.95) -> tuple[float, float]:
    """The percentile interval of resampled values; resamples in which the measure is undefined are left out.

    Args:
        values: Shape (resamples,), NaN where undefined.

    Returns:
        Low and high; NaN where fewer than half of the resamples are defined.
    """
    defined = values[np.isfinite(values)]
    if len(defined) < len(values) / 2 or len(defined) == 0:
        return float("nan"), float("nan")
    tail = (1 - confidence) / 2
    low, high = np.quantile(defined, [tail, 1 - tail])
    return float(low), float(high)
