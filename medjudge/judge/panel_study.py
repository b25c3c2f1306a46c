"""The part of a study that says what a panel and its members are worth."""

from pydantic import BaseModel, ConfigDict

from medjudge.statistics.estimates import Estimate


class _Model(BaseModel):
    model_config = ConfigDict(frozen=True, allow_inf_nan=False)


class MemberAgreement(_Model):
    """One member of a panel against the physicians, on the `n` answers of the panel's study that it scored.

    `difference` is the panel minus the member on these answers. `as_good`: true where the member is shown to lose less
    than the margin against the panel, false where it is shown to be worse, null where the scores do not suffice. Time
    and cost are for all of its judgments in the run.
    """

    judge: str
    weight: float
    n: int
    calibrated: bool
    measures: dict[str, Estimate]
    difference: dict[str, Estimate]
    as_good: bool | None
    seconds: float
    seconds_per_answer: float | None
    usd: float | None


class PanelStudy(_Model):
    """The members of a panel beside the panel, and how alike their errors are.

    `answers` were scored by all members; on these `correlation` holds the correlation of errors on usable of each two
    members (null where one makes none), `mean_correlation` their mean, and `effective_votes` how many independent votes
    the panel is worth; see `statistics.panels`. `enough` is the cheapest member shown to be as good as the panel within
    `margin`, None where there is none.
    """

    combine: str
    weights: str
    at_least: int
    margin: float
    calibrated_on: int
    members: list[MemberAgreement]
    answers: int
    correlation: list[list[float | None]]
    mean_correlation: Estimate
    effective_votes: Estimate
    enough: str | None
    seconds: float
    usd: float | None
