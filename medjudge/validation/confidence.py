"""Calibration of the judge's confidence: its probability of usable against what physicians called usable."""

import numpy as np
from typing_extensions import TypedDict, Unpack

from medjudge.scale import USABLE_FROM
from medjudge.statistics.bootstrap import Resampling
from medjudge.statistics.calibration import (
    CalibrationBin,
    area_under_risk_coverage,
    calibration_curve,
    expected_calibration_error,
    risk_coverage,
)
from medjudge.statistics.estimates import Estimate, Record, mean_estimate
from medjudge.validation.answers import Pairs

_POINTS = 100
"""Points of the risk-coverage curve in the result, enough to draw it."""

CalibrationPoint = TypedDict(
    "CalibrationPoint",
    {"from": float, "to": float, "predicted": float, "observed": float, "low": float, "high": float, "n": int},
)
"""One bin of the calibration curve: the range of P(usable) from the judge, and the observed share of usable answers."""


class RiskPoint(TypedDict):
    """The share of errors (`risk`) where the judge decides only its surest answers (`coverage`), both 0..1."""

    coverage: float
    risk: float


class Confidence(Record):
    """The calibration of the judge's P(usable), on `n` answers."""

    n: int
    brier: Estimate
    ece: float
    curve: list[CalibrationPoint]
    risk_coverage: list[RiskPoint]
    area_under_risk_coverage: float


def confidence(pairs: Pairs, **how: Unpack[Resampling]) -> Confidence | None:
    """Calibration, and risk against coverage, of a judge's P(usable); None where it gives no probabilities."""
    known = pairs.only(np.isfinite(pairs.usable_probability))
    if len(known.judge) == 0:
        return None
    probability, usable = known.usable_probability, known.physician >= USABLE_FROM
    sure, correct = np.maximum(probability, 1 - probability), (probability >= 0.5) == usable
    risks = risk_coverage(sure, correct)
    positions = np.unique(np.linspace(0, len(risks.coverage) - 1, _POINTS).round().astype(int))
    return Confidence(
        n=len(usable),
        brier=mean_estimate((probability - usable) ** 2, known.conversation, **how),
        ece=round(expected_calibration_error(probability, usable), 6),
        curve=[_point(calibration_bin) for calibration_bin in calibration_curve(probability, usable)],
        risk_coverage=[
            RiskPoint(coverage=round(float(risks.coverage[at]), 6), risk=round(float(risks.risk[at]), 6))
            for at in positions
        ],
        area_under_risk_coverage=round(area_under_risk_coverage(sure, correct), 6),
    )


def _point(entry: CalibrationBin) -> CalibrationPoint:
    ends = {"from": entry.lowest, "to": entry.highest}
    shares = {"predicted": entry.predicted, "observed": entry.observed, "low": entry.low, "high": entry.high}
    return {**{name: round(value, 6) for name, value in (ends | shares).items()}, "n": entry.n}  # type: ignore[typeddict-item]
