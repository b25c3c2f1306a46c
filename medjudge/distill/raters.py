"""Several physicians: each rater's bias and noise, and from them soft labels of the level behind their scores."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypedDict

import numpy as np
from scipy.stats import norm

from medjudge.records import AnswerKey
from medjudge.scale import LEVELS

FEWEST_SHARED = 20
"""Answers that a rater must share with others before bias and noise say something of that rater."""

_BIASES = np.round(np.arange(-2, 2.01, 0.05), 2)
_NOISES = np.geomspace(0.2, 3, 28)
_PRIOR_BIAS, _PRIOR_NOISE, _PRIOR_LOG_NOISE = 0.3, 0.6, 0.5
"""Before any score: a bias of 0 with standard deviation 0.3 levels; a noise of 0.6 levels, e^0.5 up or down."""
_ITERATIONS = 500


class RaterReport(TypedDict):
    """A rater's answers, how many of them others scored, too, and `RaterModel`'s numbers; null if not fitted."""

    n: int
    shared: int
    bias: float | None
    noise: float | None
    reliability: float | None


class RatersReport(TypedDict):
    """Whether the raters were told apart, answers with several scores, and each rater."""

    fitted: bool
    several: int
    raters: dict[str, RaterReport]


class RaterLabels(NamedTuple):
    """Probabilities (5,) by answer, and the report on the raters."""

    by_answer: dict[AnswerKey, np.ndarray]
    report: RatersReport


class RaterModel(NamedTuple):
    """One row per answer, one value per rater.

    `labels` (n, 5) are the probabilities of the level behind the scores; NaN in a row without a score. `bias` is how
    far a rater scores above it, in levels; `noise` the standard deviation around that; `reliability` the probability
    that the rater gives that level itself. `prevalence` (5,) is the share of each level.
    """

    labels: np.ndarray
    bias: np.ndarray
    noise: np.ndarray
    reliability: np.ndarray
    prevalence: np.ndarray


def fit_raters(levels: np.ndarray) -> RaterModel:
    """Fits the raters of an ordinal scale by expectation-maximisation.

    The latent level is a class, as in Dawid and Skene (Applied Statistics 28, 1979). A rater is no full confusion
    matrix of 20 numbers but a bias and a noise: a normal around the level, cut into the five scores (after
    Lakshminarayanan and Teh, arXiv 1305.0015). Both have priors, so that two raters with 20 answers stay near unbiased
    ones of equal noise. The maximisation searches a grid of these two numbers, so it always finds the best pair.

    Args:
        levels: 1-5, shape (n, raters), NaN where a rater did not score.
    """
    scored = np.isfinite(levels)
    # One-hot scores, zero where there is none: every sum below runs over what was scored.
    scores = np.eye(LEVELS)[np.where(scored, levels, 1).astype(int) - 1] * scored[..., None]
    table, prior = _grid()
    flat = table.reshape(len(table), -1)
    labels = (scores.sum(axis=1) + 0.1) / (scores.sum(axis=1) + 0.1).sum(axis=1, keepdims=True)
    prevalence, chosen = np.empty(LEVELS), np.empty(0, dtype=int)
    for _ in range(_ITERATIONS):
        counts = np.einsum("nt,nrl->rtl", labels, scores).reshape(levels.shape[1], -1)
        chosen = np.argmax(counts @ flat.T + prior, axis=1)
        prevalence = labels[scored.any(axis=1)].sum(axis=0) + 1
        prevalence /= prevalence.sum()
        log_likelihood = np.einsum("nrl,rtl->nt", scores, table[chosen]) + np.log(prevalence)
        new = np.exp(log_likelihood - log_likelihood.max(axis=1, keepdims=True))
        new /= new.sum(axis=1, keepdims=True)
        moved = np.abs(new - labels).max(initial=0)
        labels = new
        if moved < 1e-6:
            break
    labels[~scored.any(axis=1)] = np.nan
    right = np.exp(np.diagonal(table[chosen], axis1=1, axis2=2))
    bias, noise = np.divmod(chosen, len(_NOISES))
    return RaterModel(labels, _BIASES[bias], _NOISES[noise], right @ prevalence, prevalence)


def rater_labels(scores: Mapping[AnswerKey, Mapping[str, int]]) -> RaterLabels:
    """Soft labels of answers that physicians scored, and a report on the raters.

    Where fewer than 20 answers have several scores, raters cannot be told apart: the label is the plain mean of the
    one-hot scores. So it is for a single score of a rater who shares fewer than 20 answers with others.

    Args:
        scores: Answer -> rater -> level.
    """
    raters = sorted({rater for by_rater in scores.values() for rater in by_rater})
    column = {rater: index for index, rater in enumerate(raters)}
    levels = np.full((len(scores), len(raters)), np.nan)
    for row, by_rater in enumerate(scores.values()):
        for rater, level in by_rater.items():
            levels[row, column[rater]] = level
    several = np.isfinite(levels).sum(axis=1) > 1
    shared = np.isfinite(levels[several]).sum(axis=0)
    labels = {key: _mean_label(list(by_rater.values())) for key, by_rater in scores.items()}
    model = fit_raters(levels) if several.sum() >= FEWEST_SHARED else None
    if model is not None:
        known = shared >= FEWEST_SHARED
        for row, (key, by_rater) in enumerate(scores.items()):
            if several[row] or known[column[next(iter(by_rater))]]:
                labels[key] = model.labels[row]
    reports: dict[str, RaterReport] = {
        rater: {
            "n": int(np.isfinite(levels[:, index]).sum()),
            "shared": int(shared[index]),
            "bias": None if model is None else round(float(model.bias[index]), 2),
            "noise": None if model is None else round(float(model.noise[index]), 2),
            "reliability": None if model is None else round(float(model.reliability[index]), 3),
        }
        for rater, index in column.items()
    }
    return RaterLabels(labels, {"fitted": model is not None, "several": int(several.sum()), "raters": reports})


def _mean_label(levels: Sequence[int]) -> np.ndarray:
    return np.mean(np.eye(LEVELS)[np.array(levels) - 1], axis=0)


def _grid() -> tuple[np.ndarray, np.ndarray]:
    """Log P(score | level) for each bias and noise, shape (grid, 5, 5), and the log prior, shape (grid,)."""
    bias, noise = (axis.ravel()[:, None, None] for axis in np.meshgrid(_BIASES, _NOISES, indexing="ij"))
    edges = np.concatenate([[-np.inf], np.arange(1.5, LEVELS), [np.inf]])
    level = np.arange(1, LEVELS + 1)[:, None]
    table = np.log(np.maximum(np.diff(norm.cdf((edges - level - bias) / noise), axis=2), 1e-6))
    log_noise = np.log(noise / _PRIOR_NOISE) / _PRIOR_LOG_NOISE
    prior = -((bias / _PRIOR_BIAS) ** 2 + log_noise**2) / 2
    return table, prior.ravel()
