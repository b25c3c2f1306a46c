"""Calibration of the judge's confidence: its probability of usable against what physicians called usable."""

import numpy as np
from typing_extensions import Unpack

from medjudge.scale import USABLE_FROM
from medjudge.statistics.bootstrap import Resampling
from medjudge.statistics.calibration import CalibrationBin, calibration_curve, expected_calibration_error
from medjudge.statistics.estimates import Estimate, Record, Rounded, mean_estimate
from medjudge.validation.answers import Pairs


class Confidence(Record):
    """The calibration of the judge's P(usable), on `n` answers."""

    n: int
    brier: Estimate
    ece: Rounded
    curve: list[CalibrationBin]


def confidence(pairs: Pairs, **how: Unpack[Resampling]) -> Confidence | None:
    """Calibration of a judge's P(usable); None where it gives no probabilities."""
    known = pairs.only(np.isfinite(pairs.usable_probability))
    if len(known.judge) == 0:
        return None
    probability, usable = known.usable_probability, known.physician >= USABLE_FROM
    return Confidence(
        n=len(usable),
        brier=mean_estimate((probability - usable) ** 2, known.conversation, **how),
        ece=expected_calibration_error(probability, usable),
        curve=calibration_curve(probability, usable),
    )
