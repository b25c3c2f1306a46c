"""Fits the temperature of a judge on validation answers, so that its probabilities are calibrated."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from scipy.optimize import minimize_scalar
from scipy.special import softmax

from medjudge.judge.ordinal import probabilities
from medjudge.scale import USABLE_FROM, median_level
from medjudge.statistics.calibration import FEWEST_ANSWERS, expected_calibration_error
from medjudge.statistics.measures import confusion, quadratic_kappa, usable_agreement

AtTemperature = Callable[[np.ndarray, float], np.ndarray]
"""From a judge's logits and a temperature to level probabilities, (n, 5), level 1 first."""


class Calibration(NamedTuple):
    """The temperature, and the calibration error of P(usable) on validation without and with it.

    `fitted` is False where the temperature is kept at 1: there are fewer than `FEWEST_ANSWERS`, or the one with the
    smallest loss would not lower the calibration error.
    """

    temperature: float
    ece_before: float
    ece_after: float
    answers: int
    fitted: bool


def ordinal_levels(cumulative: np.ndarray, temperature: float) -> np.ndarray:
    """Level probabilities of an ordinal judge from cumulative logits, (n, 4) -> (n, 5)."""
    return probabilities(torch.as_tensor(np.asarray(cumulative, dtype=np.float64)), temperature).numpy()


def generative_levels(logits: np.ndarray, temperature: float) -> np.ndarray:
    """Level probabilities of a generative judge from the logits of its five score tokens, (n, 5) -> (n, 5)."""
    return np.asarray(softmax(np.asarray(logits, dtype=np.float64) / temperature, axis=1))


def calibrated(logits: np.ndarray, target: np.ndarray, level: np.ndarray, at: AtTemperature) -> Calibration:
    """Fits a temperature where the answers suffice and it helps, and measures what it changes.

    It is the one with the smallest negative log likelihood of the soft labels, from 0.1 to 10 (Guo et al., 2017,
    section 4.2, with soft labels instead of classes).

    Args:
        logits: What the judge gives before its probabilities, shape (n, k).
        target: Soft labels of the same answers, level 1 first, shape (n, 5).
        level: Their levels, 1 to 5, shape (n,). A soft label does not tell: that of two physicians who both say 4 may
            have a mean below 4.
        at: `ordinal_levels` or `generative_levels`.
    """
    logits, target = np.asarray(logits, float), np.asarray(target, float)

    def loss(log_temperature: float) -> float:
        rows = np.maximum(at(logits, float(np.exp(log_temperature))), 1e-9)
        return float(-(target * np.log(rows)).sum(axis=1).mean())

    temperature = 1.0
    if len(target) >= FEWEST_ANSWERS:
        least = minimize_scalar(loss, bounds=(np.log(0.1), np.log(10.0)), method="bounded")
        temperature = round(float(np.exp(least.x)), 4)
    usable = np.asarray(level) >= USABLE_FROM
    before, after = [
        expected_calibration_error(at(logits, value)[:, USABLE_FROM - 1 :].sum(axis=1), usable)
        for value in (1.0, temperature)
    ]
    fitted = bool(after < before)
    return Calibration(temperature if fitted else 1.0, before, after if fitted else before, len(target), fitted)


def agreement_measures(rows: np.ndarray, level: np.ndarray) -> dict[str, float]:
    """Quadratic kappa and agreement at usable, of the median level with the training line's level.

    Args:
        rows: The judge's level probabilities, shape (n, 5).
        level: Levels of the same answers, 1 to 5, shape (n,).
    """
    counts = confusion(np.array([median_level(row) for row in rows]), np.asarray(level))
    kappa = float(quadratic_kappa(counts))
    # One level throughout has no kappa; 0, as by chance, keeps such a checkpoint from winning.
    return {"quadratic_kappa": 0.0 if np.isnan(kappa) else kappa, "usable_agreement": float(usable_agreement(counts))}
