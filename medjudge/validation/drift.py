"""`medjudge validate --since`: has a judge's agreement with physicians changed since an earlier study?"""

from typing import Literal, NamedTuple

import numpy as np

from medjudge.scale import USABLE_FROM
from medjudge.statistics.drift import Scored, change
from medjudge.statistics.estimates import Record, Rounded
from medjudge.validation.answers import Pairs

FALSE_ALARM_RATE = 0.05


class DriftMeasure(Record):
    """A measure then and now, on the categories of both studies.

    `difference` is now minus then, the mean over categories. `p_value` is how often chance alone changes it that much:
    a fall of `usable_agreement`, either direction of `bias`.
    """

    then: Rounded
    now: Rounded
    difference: Rounded
    p_value: Rounded


class DriftStudy(Record):
    """New scores compared with those of the run `since`.

    `alarm` is null where the studies share no category. `paired` conversations are in both. `judge_changed` says
    whether the judge's files are others than then; null where that is unknown.
    """

    since: str
    false_alarm_rate: float
    alarm: bool | None
    answers_then: int
    answers_now: int
    paired: int
    categories: list[str]
    left_out: list[str]
    judge_changed: bool | None
    measures: dict[Literal["usable_agreement", "bias"], DriftMeasure]

    @property
    def line(self) -> str:
        """The result in one line."""
        if self.alarm is None:
            return f"since {self.since}: no category was scored in both studies, so nothing can be said"
        agreement, bias = self.measures["usable_agreement"], self.measures["bias"]
        state = "ALARM: agreement has changed" if self.alarm else "no alarm"
        return (
            f"since {self.since}: {state} (false-alarm rate {self.false_alarm_rate:g}); usable agreement "
            f"{100 * agreement.then:.1f} % then, {100 * agreement.now:.1f} % now, {100 * agreement.difference:+.1f} "
            f"points within categories (p {agreement.p_value:.3f}); bias {bias.then:+.2f} then, {bias.now:+.2f} now "
            f"(p {bias.p_value:.3f}); {self.paired} conversations in both"
        )


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

    def right(pairs: Pairs) -> np.ndarray:
        return ((pairs.judge >= USABLE_FROM) == (pairs.physician >= USABLE_FROM)).astype(float)

    def bias(pairs: Pairs) -> np.ndarray:
        return (pairs.judge - pairs.physician).astype(float)

    measures: dict[Literal["usable_agreement", "bias"], DriftMeasure] = {}
    for name, values in (("usable_agreement", right), ("bias", bias)):
        old, new = values(then), values(now)
        changed = change(
            Scored(old, then.category, then.conversation), Scored(new, now.category, now.conversation), seed=seed
        )
        strata = changed.strata
        if strata:
            measures[name] = DriftMeasure(  # type: ignore[index]
                then=old[np.isin(then.category.astype(str), strata)].mean(),
                now=new[np.isin(now.category.astype(str), strata)].mean(),
                difference=changed.difference,
                p_value=changed.lower if values is right else changed.either,
            )
    known = bool(earlier.judge_sha256 and judge_sha256)
    return DriftStudy(
        since=earlier.name,
        false_alarm_rate=false_alarm_rate,
        alarm=min(one.p_value for one in measures.values()) <= false_alarm_rate / 2 if measures else None,
        answers_then=len(then.judge),
        answers_now=len(now.judge),
        paired=changed.paired,
        categories=list(strata),
        left_out=sorted({*map(str, then.category), *map(str, now.category)} - set(strata)),
        judge_changed=earlier.judge_sha256 != judge_sha256 if known else None,
        measures=measures,
    )
