"""The records of items: what raters and judges say of single points of an answer, one JSON object per line."""

from typing import Annotated, Literal

from pydantic import Field

from medjudge.records import OfAnswer, Rater, StrictRecord, Text, Verdict


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


class ItemJudgment(Verdict, OfAnswer):
    """A judge's verdicts on the items of one answer, in the order of the question's items, or none and the reason."""

    verdict_field = "items"
    items: Annotated[list[ItemVerdict], Field(min_length=1)] | None
    raw: str | None = None

    @property
    def key(self) -> tuple[str, str, int, str]:
        return (self.question_id, self.model, self.sample, self.judge)
