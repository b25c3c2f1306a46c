"""Whether the judge's confidence is honest: its probability of usable against what physicians called usable."""

import numpy as np

from medjudge.judge.study import CalibrationPoint, Confidence, ConformalSets, RiskPoint, SetQuality
from medjudge.scale import USABLE_FROM
from medjudge.statistics import conformal
from medjudge.statistics.bootstrap import RESAMPLES, Method, Sums, bootstrap, tally
from medjudge.statistics.calibration import (
    CalibrationBin,
    area_under_risk_coverage,
    calibration_curve,
    expected_calibration_error,
    risk_coverage,
)
from medjudge.statistics.conformal import conversations_needed, cross_conformal_coverage, fit_conformal
from medjudge.statistics.estimates import estimate, rounded
from medjudge.statistics.measures import divided
from medjudge.validation.pairs import Pairs

_POINTS = 100
"""Points of the risk-coverage curve in the result, enough to draw it."""
_DECIMALS = 6


def confidence(
    pairs: Pairs,
    error_rate: float = 0.1,
    resamples: int = RESAMPLES,
    seed: int = 0,
    method: Method = "bca",
) -> Confidence | None:
    """Calibration, risk against coverage, and conformal sets of a judge that gives probabilities.

    Args:
        error_rate: How often a conformal set may miss the physicians' label.

    Returns:
        None where the judge gives no probabilities.
    """
    known = pairs.only(np.isfinite(pairs.usable_probability))
    if len(known.judge) == 0:
        return None
    probability, usable = known.usable_probability, known.physician >= USABLE_FROM
    squared = (probability - usable) ** 2
    nothing = np.zeros(len(usable), dtype=int)

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        return {"brier": divided(sums["squared"], sums["n"])}

    tallies = {"squared": tally(nothing, (), squared), "n": tally(nothing, ())}
    interval = bootstrap(tallies, known.conversation, statistics, resamples, seed, method)["brier"]
    sure, correct = np.maximum(probability, 1 - probability), (probability >= 0.5) == usable
    return Confidence(
        n=len(usable),
        brier=estimate(interval),
        ece=round(expected_calibration_error(probability, usable), _DECIMALS),
        curve=[_point(calibration_bin) for calibration_bin in calibration_curve(probability, usable)],
        risk_coverage=_thinned(sure, correct),
        area_under_risk_coverage=round(area_under_risk_coverage(sure, correct), _DECIMALS),
        conformal=_conformal(known, error_rate, seed),
    )


def _point(calibration_bin: CalibrationBin) -> CalibrationPoint:
    return {
        "from": round(calibration_bin.lowest, _DECIMALS),
        "to": round(calibration_bin.highest, _DECIMALS),
        "predicted": round(calibration_bin.predicted, _DECIMALS),
        "observed": round(calibration_bin.observed, _DECIMALS),
        "low": round(calibration_bin.low, _DECIMALS),
        "high": round(calibration_bin.high, _DECIMALS),
        "n": calibration_bin.n,
    }


def _thinned(sure: np.ndarray, correct: np.ndarray) -> list[RiskPoint]:
    curve = risk_coverage(sure, correct)
    positions = np.unique(np.linspace(0, len(curve.coverage) - 1, _POINTS).round().astype(int))
    return [
        RiskPoint(
            coverage=round(float(curve.coverage[position]), _DECIMALS),
            risk=round(float(curve.risk[position]), _DECIMALS),
        )
        for position in positions
    ]


def _conformal(known: Pairs, error_rate: float, seed: int) -> ConformalSets:
    """Thresholds for later use, and the quality of sets made that way on held-out conversations."""
    fitted = fit_conformal(known.probabilities, known.physician, known.conversation, error_rate, seed)
    if fitted is None:
        needed, conversations = conversations_needed(error_rate), len(np.unique(known.conversation))
        why = f"{conversations} conversations; an error rate of {error_rate:g} needs {needed}"
        return ConformalSets(error_rate=error_rate, why=why)
    checked = cross_conformal_coverage(known.probabilities, known.physician, known.conversation, error_rate, seed=seed)
    return ConformalSets(
        error_rate=error_rate,
        why=None if checked else "too few conversations to check the sets on held-out ones",
        calibrated_on=fitted.calibrated_on,
        usable_threshold=fitted.usable_threshold,
        level_threshold=fitted.level_threshold,
        usable=None if checked is None else _quality(checked.usable),
        level=None if checked is None else _quality(checked.level),
    )


def _quality(quality: conformal.SetQuality) -> SetQuality:
    return SetQuality(
        coverage=rounded(quality.coverage),
        mean_size=rounded(quality.mean_size),
        certain=rounded(quality.certain),
    )
