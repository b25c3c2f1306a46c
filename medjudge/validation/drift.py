"""New physicians' scores beside those of an earlier study: has a judge's agreement with physicians changed?"""

from typing import NamedTuple

import numpy as np

from medjudge.judge.drift_study import DriftMeasure, DriftStudy
from medjudge.scale import USABLE_FROM
from medjudge.statistics.drift import Scored, change
from medjudge.validation.pairs import Pairs

FALSE_ALARM_RATE = 0.05


class Earlier(NamedTuple):
    """An earlier study: the run's name, what judge and physicians scored there, and the judge's identity then."""

    name: str
    pairs: Pairs
    judge_sha256: str


def drift(
    earlier: Earlier, now: Pairs, judge_sha256: str, false_alarm_rate: float = FALSE_ALARM_RATE, seed: int = 0
) -> DriftStudy:
    """Tests for a fall of usable agreement and for a change of bias, each at half the false-alarm rate.

    Together they alarm falsely at the stated rate at most (Bonferroni). Conversations of both studies are compared with
    themselves, all others within their category; see `statistics.drift`.

    Args:
        now: What judge and physicians scored in this study.
        judge_sha256: The judge's identity now; empty where it is unknown.
        false_alarm_rate: How often an unchanged judge raises an alarm, given before looking.
        seed: Of the exchanges.
    """
    then = earlier.pairs
    values = {"usable_agreement": (_right(then), _right(now)), "bias": (_bias(then), _bias(now))}
    changes = {
        name: change(
            Scored(old, then.category, then.conversation), Scored(new, now.category, now.conversation), seed=seed
        )
        for name, (old, new) in values.items()
    }
    strata = changes["bias"].strata
    known = bool(earlier.judge_sha256 and judge_sha256)
    p_values = {"usable_agreement": changes["usable_agreement"].lower, "bias": changes["bias"].either}
    measures = {
        name: DriftMeasure(
            then=_mean(old, then, strata),
            now=_mean(new, now, strata),
            difference=round(changes[name].difference, 6),
            p_value=round(p_values[name], 6),
        )
        for name, (old, new) in values.items()
        if strata
    }
    alarm = min(p_values.values()) <= false_alarm_rate / 2 if strata else None
    return DriftStudy(
        since=earlier.name,
        false_alarm_rate=false_alarm_rate,
        alarm=alarm,
        answers_then=len(then.judge),
        answers_now=len(now.judge),
        paired=changes["bias"].paired,
        categories=list(strata),
        left_out=sorted({*map(str, then.category), *map(str, now.category)} - set(strata)),
        judge_changed=earlier.judge_sha256 != judge_sha256 if known else None,
        measures=measures,
    )


def _right(pairs: Pairs) -> np.ndarray:
    return ((pairs.judge >= USABLE_FROM) == (pairs.physician >= USABLE_FROM)).astype(float)


def _bias(pairs: Pairs) -> np.ndarray:
    return (pairs.judge - pairs.physician).astype(float)


def _mean(values: np.ndarray, pairs: Pairs, strata: tuple[str, ...]) -> float:
    return round(float(values[np.isin(pairs.category.astype(str), strata)].mean()), 6)
