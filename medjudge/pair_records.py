"""The records of pairs: which of two answers a judge or a rater prefers, one JSON object per line."""

from typing import Annotated, Literal, NamedTuple

from pydantic import Field, model_validator

from medjudge.records import AnswerKey, Count, Id, OfTexts, Rater, Verdict

Preferred = Literal["first", "tie", "second"]
"""The better one of two answers."""


class PairKey(NamedTuple):
    """Names two models' answers to one question, whichever is named first."""

    question_id: str
    models: tuple[str, str]
    sample: int

    @property
    def answers(self) -> tuple[AnswerKey, AnswerKey]:
        """The two answers, in the order of the models."""
        first, second = self.models
        return AnswerKey(self.question_id, first, self.sample), AnswerKey(self.question_id, second, self.sample)


class _Pair(OfTexts):
    """Two models' answers to one question; `first` and `second` are the models, and both answers have `sample`."""

    question_id: Id
    first: Id
    second: Id
    sample: Count = 0

    @model_validator(mode="after")
    def _two_models(self) -> "_Pair":
        if self.first == self.second:
            raise ValueError(f"first and second are both {self.first}; a pair has answers of two models")
        return self

    @property
    def pair_key(self) -> PairKey:
        first, second = sorted((self.first, self.second))
        return PairKey(self.question_id, (first, second), self.sample)

    @property
    def answer_keys(self) -> tuple[AnswerKey, AnswerKey]:
        """The answer of `first` and that of `second`."""
        return PairKey(self.question_id, (self.first, self.second), self.sample).answers


class PairJudgment(Verdict, _Pair):
    """A judge's verdict on two answers in one order, or no verdict and the reason; `first` was shown first.

    `probabilities` are those of `first`, `tie` and `second`.
    """

    verdict_field = "preferred"
    preferred: Preferred | None
    probabilities: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=3, max_length=3)] | None = None
    rationale: str | None = None
    raw: str | None = None

    @property
    def key(self) -> tuple[str, str, str, int, str]:
        return (self.question_id, self.first, self.second, self.sample, self.judge)


class PhysicianPair(_Pair):
    """One rater's preference between two answers; `first` was shown as A."""

    rater: Rater
    preferred: Preferred
    comment: str | None = None

    @property
    def key(self) -> tuple[str, tuple[str, str], int, str]:
        return (*self.pair_key, self.rater)
