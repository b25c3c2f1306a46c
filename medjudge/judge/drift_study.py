"""The part of a study that says whether a judge's agreement with physicians has changed since an earlier study."""

from typing import Literal

from pydantic import BaseModel, ConfigDict


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class DriftMeasure(_Model):
    """A measure then and now, on the categories of both studies.

    `difference` is now minus then, the mean over categories. `p_value` is how often chance alone changes it that much:
    a fall of `usable_agreement`, either direction of `bias`.
    """

    then: float
    now: float
    difference: float
    p_value: float


class DriftStudy(_Model):
    """New scores beside those of the run `since`; see `validation.drift`.

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
        fall = 100 * agreement.difference
        state = "ALARM: agreement has changed" if self.alarm else "no alarm"
        return (
            f"since {self.since}: {state} (false-alarm rate {self.false_alarm_rate:g}); usable agreement "
            f"{100 * agreement.then:.1f} % then, {100 * agreement.now:.1f} % now, {fall:+.1f} points "
            f"within categories (p {agreement.p_value:.3f}); bias {bias.then:+.2f} then, {bias.now:+.2f} now "
            f"(p {bias.p_value:.3f}); {self.paired} conversations in both"
        )
