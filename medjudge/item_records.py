"""The records of items: what raters and judges say of single points of an answer, one JSON object per line."""

from typing import Annotated, Literal

from pydantic import Field, model_validator

from medjudge.records import Count, ErrorKind, Id, OfAnswer, Rater, StrictRecord, Text


class ItemScore(OfAnswer):
    """One rater's verdict on one item of an answer: a point of a checklist, a criterion of a rubric, a claim.

    `item` is the item's text. `contradicted` is more than `not_met`: the answer says the opposite.
    """

    rater: Rater
    item: Text
    verdict: Literal["met", "not_met", "contradicted"]

    @property
    def key(self) -> tuple[str, str, int, str, str]:
        return (self.question_id, self.model, self.sample, self.rater, self.item)


class ItemVerdict(StrictRecord):
    """The probability that an answer meets one item, by a judge. `item` is its text."""

    item: Text
    met: Annotated[float, Field(ge=0, le=1)]

    @property
    def is_met(self) -> bool:
        """The likelier one of the two verdicts."""
        return self.met >= 0.5


class ItemJudgment(OfAnswer):
    """A judge's verdicts on the items of one answer, in the order of the question's items, or none and the reason."""

    judge: Id
    items: Annotated[list[ItemVerdict], Field(min_length=1)] | None
    raw: str | None = None
    error_kind: Annotated[ErrorKind, Field(strict=False)] | None = None
    error: str | None = None
    answer_tokens_cut: Count = 0

    @model_validator(mode="after")
    def _judged_or_explained(self) -> "ItemJudgment":
        if (self.items is None) == (self.error is None):
            raise ValueError("verdicts on items need items, or an error that explains why there are none")
        if self.error_kind is not None and self.error is None:
            raise ValueError("error_kind is set, and error is missing")
        return self

    @property
    def key(self) -> tuple[str, str, int, str]:
        return (self.question_id, self.model, self.sample, self.judge)

    @property
    def retryable(self) -> bool:
        """True if another request may yield verdicts."""
        return self.error is not None and self.error_kind in (None, ErrorKind.REQUEST_FAILED)
