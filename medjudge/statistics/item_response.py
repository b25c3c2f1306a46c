"""A two-parameter item response model: the ability of each model, and how well each question discriminates.

A question that good models fail and poor ones pass often has a flaw, such as a wrong reference or an ambiguous wording
(Rodriguez et al., ACL 2021). Existing libraries restrict discrimination to positive values (girth 0.8 from 0.2, mirt
1.2 from 0.1) or cannot be installed beside this package (py-irt 0.7), so none of them can find such a question.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import expit
from scipy.stats import norm

FEWEST_MODELS = 5
"""With fewer models, ability and discrimination cannot be separated."""
FEWEST_QUESTIONS = 10
"""With fewer questions, abilities cannot be estimated."""

_NODES = np.linspace(-5, 5, 301)
"""Abilities to integrate over, at a finer spacing than 2,000 answers can resolve."""
_PRIOR_ITEMS = 5
"""The weight, in questions, of the prior of the discriminations: normal with mean 1 and variance 1."""
_EASE_VARIANCE = 4.0
_ITERATIONS, _MOVED = 300, 1e-4
_DISCRIMINATES = 0.5
"""The lowest median discrimination of a benchmark that discriminates at all."""
_NEAR_ZERO = 0.2
"""The fraction of the median discrimination below which a question hardly discriminates."""
_DOUBT = 0.1
"""The accepted share of sound questions among the listed ones."""


class ItemResponse(NamedTuple):
    """P(usable) of model i on question j = expit(discrimination_j * ability_i + ease_j).

    Attributes:
        ability: Posterior mean, shape (models,); the prior is standard normal.
        discrimination: The discrimination of each question, which may be negative, shape (questions,).
        discrimination_error: Its posterior standard deviation, abilities unknown, shape (questions,).
        ease: The ease of each question, shape (questions,).
        overdispersion: The correlation of one model's samples of one question that the model does not explain, 0..1.
    """

    ability: np.ndarray
    discrimination: np.ndarray
    discrimination_error: np.ndarray
    ease: np.ndarray
    overdispersion: float


class Flawed(NamedTuple):
    """A question that hardly discriminates, or negatively; `doubt` is the probability that it is sound."""

    question: int
    kind: str
    discrimination: float
    low: float
    high: float
    doubt: float


def fit_two_parameter(usable: np.ndarray, samples: np.ndarray) -> ItemResponse:
    """Fits the model with several samples per cell by marginal maximum likelihood (Bock and Aitkin, 1981).

    Abilities are integrated out. Discriminations are normal over questions, with a mean and variance estimated from all
    of them (empirical Bayes); ease is N(0, 4): estimates stay finite if all models pass. The sign is chosen so that
    most questions discriminate positively.

    Several samples of one model and question agree more than the model predicts, because the model knows the answer or
    does not. The log likelihood of a cell of k samples is divided by 1 + (k - 1) rho (Williams, Applied Statistics 31,
    1982), with rho from the residuals of a first fit.

    Args:
        usable: The number of usable samples, shape (models, questions).
        samples: The number of samples, same shape; 0 if a model did not answer.

    Raises:
        ValueError: The shapes differ, or a count is below 0 or above the number of samples.
    """
    usable, samples = np.asarray(usable, dtype=float), np.asarray(samples, dtype=float)
    if usable.shape != samples.shape or usable.ndim != 2:
        raise ValueError(f"usable {usable.shape} and samples {samples.shape} must be of one shape, (models, questions)")
    if (usable < 0).any() or (usable > samples).any():
        raise ValueError("usable answers must be from 0 to the number of samples")
    fitted = _fitted(usable, samples)
    rho = _overdispersion(usable, samples, fitted)
    if rho > 0:
        weight = 1 / (1 + np.maximum(samples - 1, 0) * rho)
        fitted = _fitted(usable * weight, samples * weight)
    return fitted._replace(overdispersion=rho)


def flawed_items(fit: ItemResponse) -> list[Flawed]:
    """The questions that discriminate negatively or hardly, most certain first; none if the benchmark does not.

    "Hardly" is less than a fifth of the median. Questions are listed while the mean doubt of the list is at most 0.1
    (the Bayesian false discovery rate; Newton et al., Biostatistics 5, 2004).
    """
    median = float(np.median(fit.discrimination))
    if not discriminates(fit):
        return []
    doubt = norm.sf((_NEAR_ZERO * median - fit.discrimination) / fit.discrimination_error)
    order = np.argsort(doubt, kind="stable")
    listed = order[np.cumsum(doubt[order]) <= _DOUBT * np.arange(1, len(order) + 1)]
    reach = norm.ppf(0.975) * fit.discrimination_error
    return [
        Flawed(
            int(question),
            "negative" if fit.discrimination[question] < -_NEAR_ZERO * median else "near zero",
            float(fit.discrimination[question]),
            float(fit.discrimination[question] - reach[question]),
            float(fit.discrimination[question] + reach[question]),
            float(doubt[question]),
        )
        for question in listed
    ]


def discriminates(fit: ItemResponse) -> bool:
    """True if the questions as a whole tell the models apart; only then can a single one stand out."""
    enough = len(fit.ability) >= FEWEST_MODELS and len(fit.ease) >= FEWEST_QUESTIONS
    return enough and float(np.median(fit.discrimination)) >= _DISCRIMINATES


def _fitted(usable: np.ndarray, samples: np.ndarray) -> ItemResponse:
    """Parameter-expanded expectation-maximisation: each step rescales the abilities (Liu et al., 1998)."""
    questions = usable.shape[1]
    discrimination, ease = np.ones(questions), np.zeros(questions)
    mean, variance = 1.0, 1.0
    posterior = _posterior(usable, samples, discrimination, ease)
    error = np.ones(questions)
    for _ in range(_ITERATIONS):
        before = discrimination
        discrimination, ease = _maximised(posterior, usable, samples, discrimination, ease, mean, variance)
        centre = float((posterior @ _NODES).mean())
        spread = float(np.sqrt((posterior @ (_NODES - centre) ** 2).mean()))
        discrimination, ease = discrimination * spread, ease + discrimination * centre
        posterior = _posterior(usable, samples, discrimination, ease)
        error = _errors(posterior, usable, samples, discrimination, ease, variance)
        mean = float((discrimination.sum() + _PRIOR_ITEMS) / (questions + _PRIOR_ITEMS))
        squares = ((discrimination - mean) ** 2 + error**2).sum() + _PRIOR_ITEMS
        variance = float(squares / (questions + _PRIOR_ITEMS))
        if np.abs(discrimination - before).max() < _MOVED:
            break
    return ItemResponse(posterior @ _NODES, discrimination, error, ease, 0.0)


def _posterior(usable: np.ndarray, samples: np.ndarray, discrimination: np.ndarray, ease: np.ndarray) -> np.ndarray:
    """The probability of each node for each model, (models, nodes)."""
    logit = np.outer(_NODES, discrimination) + ease
    log = usable @ logit.T - samples @ np.logaddexp(0, logit).T - _NODES**2 / 2
    weights = np.exp(log - log.max(axis=1, keepdims=True))
    posterior: np.ndarray = weights / weights.sum(axis=1, keepdims=True)
    return posterior


def _maximised(
    posterior: np.ndarray,
    usable: np.ndarray,
    samples: np.ndarray,
    discrimination: np.ndarray,
    ease: np.ndarray,
    mean: float,
    variance: float,
) -> tuple[np.ndarray, np.ndarray]:
    """Two Newton steps of each question's logistic regression on the nodes."""
    counts, right = posterior.T @ samples, posterior.T @ usable
    for _ in range(2):
        p = expit(np.outer(_NODES, discrimination) + ease)
        off, curve = right - counts * p, counts * p * (1 - p)
        slope = _NODES @ off - (discrimination - mean) / variance
        level = off.sum(axis=0) - ease / _EASE_VARIANCE
        aa, ad, dd = _NODES**2 @ curve + 1 / variance, _NODES @ curve, curve.sum(axis=0) + 1 / _EASE_VARIANCE
        determinant = aa * dd - ad**2
        # Steps are limited to 1: a Newton step from far away would overshoot.
        discrimination = discrimination + np.clip((dd * slope - ad * level) / determinant, -1, 1)
        ease = ease + np.clip((aa * level - ad * slope) / determinant, -1, 1)
    return discrimination, ease


def _errors(
    posterior: np.ndarray,
    usable: np.ndarray,
    samples: np.ndarray,
    discrimination: np.ndarray,
    ease: np.ndarray,
    variance: float,
) -> np.ndarray:
    """The standard deviation of each discrimination by the observed information, question by question.

    The complete-data information less the information that is missing (Louis, JRSS B 44, 1982).
    """
    p = expit(np.outer(_NODES, discrimination) + ease)
    curve = (posterior.T @ samples) * p * (1 - p)
    information = np.empty((len(ease), 2, 2))
    powers = [np.ones_like(_NODES), _NODES, _NODES**2]
    information[:, 0, 0] = powers[2] @ curve + 1 / variance
    information[:, 0, 1] = information[:, 1, 0] = powers[1] @ curve
    information[:, 1, 1] = powers[0] @ curve + 1 / _EASE_VARIANCE
    for weights, y, k in zip(posterior, usable, samples, strict=True):
        residual = y - p * k
        moments = [weights * power @ residual**2 for power in powers]
        first = np.stack([weights * _NODES @ residual, weights @ residual])
        information[:, 0, 0] -= moments[2] - first[0] ** 2
        information[:, 0, 1] -= moments[1] - first[0] * first[1]
        information[:, 1, 0] -= moments[1] - first[0] * first[1]
        information[:, 1, 1] -= moments[0] - first[1] ** 2
    determinant = information[:, 0, 0] * information[:, 1, 1] - information[:, 0, 1] ** 2
    # The posterior variance is positive and no larger than that of the prior.
    inverse = information[:, 1, 1] / np.where(determinant > 0, determinant, np.nan)
    errors: np.ndarray = np.sqrt(np.where((inverse > 0) & (inverse < variance), inverse, variance))
    return errors


def _overdispersion(usable: np.ndarray, samples: np.ndarray, fitted: ItemResponse) -> float:
    """Estimates rho from Pearson residuals, whose squares average 1 + (k - 1) rho; adjusted for two parameters."""
    repeated = samples > 1
    if not repeated.any():
        return 0.0
    p = np.clip(expit(np.outer(fitted.ability, fitted.discrimination) + fitted.ease), 0.02, 0.98)
    squares = (usable - samples * p) ** 2 / np.maximum(samples * p * (1 - p), 1e-9)
    cells = (samples > 0).sum(axis=0)
    squares = squares * cells / np.maximum(cells - 2, 1)
    return float(np.clip((squares[repeated] - 1).sum() / (samples[repeated] - 1).sum(), 0, 1))
