"""Calibration of the judge's confidence: its probability of usable against what physicians called usable."""

import numpy as np
from typing_extensions import TypedDict, Unpack

from medjudge.scale import USABLE_FROM
from medjudge.statistics.bootstrap import Resampling
from medjudge.statistics.calibration import (
    CalibrationBin,
    area_under,
    calibration_curve,
    expected_calibration_error,
    risk_coverage,
)
from medjudge.statistics.estimates import Estimate, Record, Rounded, mean_estimate
from medjudge.validation.answers import Pairs

_POINTS = 100
"""Points of the risk-coverage curve in the result, enough to draw it."""


class RiskPoint(TypedDict):
    """The share of errors (`risk`) where the judge decides only its surest answers (`coverage`), both 0..1."""

    coverage: Rounded
    risk: Rounded


class Confidence(Record):
    """The calibration of the judge's P(usable), on `n` answers."""

    n: int
    brier: Estimate
    ece: Rounded
    curve: list[CalibrationBin]
    risk_coverage: list[RiskPoint]
    area_under_risk_coverage: Rounded


def confidence(pairs: Pairs, **how: Unpack[Resampling]) -> Confidence | None:
    """Calibration, and risk against coverage, of a judge's P(usable); None where it gives no probabilities."""
    known = pairs.only(np.isfinite(pairs.usable_probability))
    if len(known.judge) == 0:
        return None
    probability, usable = known.usable_probability, known.physician >= USABLE_FROM
    risks = risk_coverage(np.maximum(probability, 1 - probability), (probability >= 0.5) == usable)
    positions = np.unique(np.linspace(0, len(risks.coverage) - 1, _POINTS).round().astype(int))
    return Confidence(
        n=len(usable),
        brier=mean_estimate((probability - usable) ** 2, known.conversation, **how),
        ece=expected_calibration_error(probability, usable),
        curve=calibration_curve(probability, usable),
        risk_coverage=[RiskPoint(coverage=risks.coverage[at], risk=risks.risk[at]) for at in positions],
        area_under_risk_coverage=area_under(risks),
    )
