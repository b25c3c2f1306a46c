"""The records that the stations exchange, one JSON object per line."""

import unicodedata
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from enum import Enum
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    SerializerFunctionWrapHandler,
    model_serializer,
    model_validator,
)

CONSTRUCTED = "constructed"
"""The rater of answers that were written to match a level; no physician scored them."""

Source = Literal["physician", "teacher", "constructed", "synthetic"]
"""The source of a training line's target."""

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)
Level = Annotated[int, Field(ge=1, le=5)]
Points = Annotated[int, Field(ge=0, le=5)]
Text = Annotated[str, Field(min_length=1, pattern=r"\S")]


def _without_nul(text: str) -> str:
    if "\0" in text:
        raise ValueError("holds a NUL character, which tables and file names lose; remove it")
    return text


def _visible(name: str) -> str:
    if unseen := invisible(name):
        raise ValueError(f"holds {unseen}, which nobody sees; type the name again")
    return name


def invisible(name: str) -> str | None:
    """The first character by which a name could differ from another one and look the same; None where it has none."""
    for character in name:
        unseen = character != " " and unicodedata.category(character)[0] in "CZ"
        if unseen or character in _BLANK or "\ufe00" <= character <= "\ufe0f":
            return f"U+{ord(character):04X} {unicodedata.name(character, '')}".rstrip()
    return None


_BLANK = "\u034f\u115f\u1160\u17b4\u17b5\u2800\u3164\uffa0"
"""Letters and marks that take no ink."""
Id = Annotated[Text, AfterValidator(_without_nul)]
Rater = Annotated[Text, AfterValidator(_visible)]
Count = Annotated[int, Field(ge=0)]

MOST_ITEMS = 200
"""The most items of a question."""


class ErrorKind(str, Enum):
    """The reason why a judgment has no score."""

    EMPTY_ANSWER = "empty_answer"
    LANGUAGE = "language"
    WINDOW = "window"
    """Rubric, question and reference leave no room for the answer in the model's context window."""
    NO_REFERENCE = "no_reference"
    REQUEST_FAILED = "request_failed"
    """Another attempt may succeed: the next run sends the request again."""
    REFUSED = "refused"
    """The server or the model refused this chat; another attempt would get the same answer."""
    EMPTY_REPLY = "empty_reply"
    UNREADABLE_REPLY = "unreadable_reply"
    NOT_IN_FILE = "not_in_file"
    """The file that the judgment was imported from holds no valid score."""
    TOO_FEW_MEMBERS = "too_few_members"
    """Fewer members of a panel scored the answer than it asks for."""


class AnswerKey(NamedTuple):
    """Names one answer in a run."""

    question_id: str
    model: str
    sample: int


class StrictRecord(BaseModel):
    """The base of the records."""

    # Strict, so that a score of "4" or 4.0000001 is rejected here and not three stations later. Unknown fields are
    # rejected, because a misspelt field would otherwise count as missing.
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)


class _Sparse(StrictRecord):
    """A record that is written without those of its fields `seldom` that hold nothing."""

    seldom: ClassVar[tuple[str, ...]]

    @model_serializer(mode="wrap")
    def _without_nothing(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        written = serialize(self).items()
        return {name: value for name, value in written if name not in self.seldom or value not in (None, {})}


class OfTexts(_Sparse):
    """The base of what is said of answers; `texts` is the hash of the texts, where it was kept (see `provenance`)."""

    seldom = ("texts", "points")
    texts: str | None = None

    @property
    @abstractmethod
    def key(self) -> Any:
        """The fields that name the record in its file."""

    @property
    @abstractmethod
    def answer_keys(self) -> tuple[AnswerKey, ...]:
        """The answers."""


class OfAnswer(OfTexts):
    """The base of what is said of one answer."""

    question_id: Id
    model: Id
    sample: Count = 0

    @property
    def answer_key(self) -> AnswerKey:
        return AnswerKey(self.question_id, self.model, self.sample)

    @property
    def answer_keys(self) -> tuple[AnswerKey]:
        return (self.answer_key,)


class Verdict(OfTexts):
    """The base of what a judge says: a verdict, which is the field `verdict_field`, or none and the reason.

    `error_kind` classifies the reason and `error` explains it to people; what other tools made may have no
    `error_kind`. `answer_tokens_cut` counts the tokens of the answers that did not fit the judge's window.
    """

    verdict_field: ClassVar[str]

    judge: Id
    # Not strict: JSON holds the kind as text.
    error_kind: Annotated[ErrorKind, Field(strict=False)] | None = None
    error: str | None = None
    answer_tokens_cut: Count = 0

    @model_validator(mode="after")
    def _judged_or_explained(self) -> "Verdict":
        if (getattr(self, self.verdict_field) is None) == (self.error is None):
            raise ValueError(f"give either {self.verdict_field}, or error, which explains why there is no verdict")
        if self.error_kind is not None and self.error is None:
            raise ValueError("error_kind is set, and error is missing")
        probabilities = getattr(self, "probabilities", None)
        if probabilities is not None and abs(sum(probabilities) - 1) > 1e-3:
            raise ValueError(f"probabilities add up to {sum(probabilities):.4f}, not 1")
        return self

    @property
    def retryable(self) -> bool:
        """True if another request may yield a verdict. An error without a kind is retried: its cause is unknown."""
        return self.error is not None and self.error_kind in (None, ErrorKind.REQUEST_FAILED)


class _WithExtra(_Sparse):
    """A record that keeps in `extra` what its file had beside the known fields."""

    seldom = ("extra", "items")
    extra: dict[str, Any] = {}


Importance = Literal["core", "secondary"]


class RubricItem(StrictRecord):
    """One item of a question's rubric: what an answer must say or, with negative points, must not say.

    An answer fails an item with positive points that it does not meet, and one with negative points that it meets.

    Attributes:
        text: The item; unique within its question.
        points: What the item is worth.
        must_have: Whether an answer that fails it reaches level 2 at most.
        safety_cap: The highest level of an answer that fails it.
        importance: Whether it is a core or a secondary requirement; neither where nothing says so.
        theme: What it is about, for tables.
    """

    text: Text
    points: float
    must_have: bool = False
    safety_cap: Level | None = None
    importance: Importance | None = None
    theme: str = ""

    @model_validator(mode="after")
    def _must_have_is_wanted(self) -> "RubricItem":
        if self.must_have and self.points <= 0:
            raise ValueError("must_have is true and points are not positive; an answer must have what is worth points")
        if self.must_have and self.importance == "secondary":
            raise ValueError("must_have is true and importance is secondary; a must-have is core")
        return self


class Question(_WithExtra):
    """One turn that a model is asked to answer. `group` and `round` join the turns of a conversation.

    `category` and `language` are those of a benchmark's scheme; `store.read_questions` checks them. `items` is the
    rubric of single points, if the benchmark has one.
    """

    id: Id
    category: Text
    subcategory: str = ""
    scene: str = ""
    difficulty: str = ""
    group: Id
    round: Annotated[int, Field(ge=1, le=1000)] = 1
    prompt: Text
    reference: str | None = None
    checklist: str | None = None
    language: Text
    items: Annotated[list[RubricItem], Field(min_length=1, max_length=MOST_ITEMS)] | None = None

    @model_validator(mode="after")
    def _items_differ(self) -> "Question":
        texts = [item.text for item in self.items or ()]
        twice = next((text for text in texts if texts.count(text) > 1), None)
        if twice is not None:
            raise ValueError(f"items: '{twice[:60]}' occurs twice; remove one of the two")
        return self

    @property
    def key(self) -> str:
        return self.id


class Answer(_WithExtra):
    """A model's answer. An empty text needs a `finish_reason` that explains it.

    `thinking` is what the model thought before it answered; it is no part of the answer and is not judged.
    """

    question_id: Id
    model: Id
    sample: Count = 0
    text: str
    finish_reason: str | None = None
    tokens_in: Count | None = None
    tokens_out: Count | None = None
    thinking: str | None = None

    @model_validator(mode="after")
    def _empty_has_a_reason(self) -> "Answer":
        if not self.text.strip() and not self.finish_reason:
            raise ValueError(
                "text is empty; if the model really returned nothing, say so in finish_reason (such as 'stop')"
            )
        return self

    @property
    def key(self) -> AnswerKey:
        return AnswerKey(self.question_id, self.model, self.sample)

    @property
    def truncated(self) -> bool:
        """True if the answer ended at the token limit."""
        return self.finish_reason == "length"


class PointVerdict(StrictRecord):
    """A judge's verdict on one point of a reference or a checklist: probabilities that add up to 1.

    `open` means that the answer neither states the point nor the opposite of it.
    """

    point: str
    source: Literal["reference", "checklist"]
    met: Annotated[float, Field(ge=0, le=1)]
    open: Annotated[float, Field(ge=0, le=1)]
    contradicted: Annotated[float, Field(ge=0, le=1)]

    @property
    def verdict(self) -> Literal["met", "not_met", "contradicted"]:
        """Met where that is likelier than not, else the likelier of the other two; as `ItemScore` names it."""
        if self.met >= self.open + self.contradicted:
            return "met"
        return "contradicted" if self.contradicted > self.open else "not_met"


class Judgment(Verdict, OfAnswer):
    """A judge's verdict on one answer: a score with its probabilities, or no score and the reason.

    `points` holds what the judge says of each point of reference and checklist, in their order, if it reads points.
    `context_tokens_cut` counts the tokens of question, reference and checklist together that did not fit the judge's
    window.
    """

    verdict_field = "score"
    round: Annotated[int, Field(ge=1)] = 1
    score: Level | None
    expected: Annotated[float, Field(ge=1, le=5)] | None = None
    probabilities: Annotated[list[Annotated[float, Field(ge=0, le=1)]], Field(min_length=5, max_length=5)] | None = None
    rationale: str | None = None
    raw: str | None = None
    context_tokens_cut: Count = 0
    points: list[PointVerdict] | None = None

    @property
    def key(self) -> tuple[str, str, int, str, int]:
        return (*self.answer_key, self.judge, self.round)


class MTGDimensions(StrictRecord):
    """The five dimensions on which the paper's physicians score a generated text."""

    instruction_following: Points
    correctness: Points
    effectiveness: Points
    readability: Points
    safety: Annotated[int, Field(ge=0, le=1)]

    @property
    def points(self) -> int:
        """The paper's mapping to 0-7 (appendix D): the first rule that applies decides. Safety is not part of it."""
        b, c, d, e = self.instruction_following, self.correctness, self.effectiveness, self.readability
        rules = [
            (0, min(b, c, d, e) == 0),
            (1, min(b, c, d, e) == 1),
            (7, b + c + d + e == 20),
            (6, min(b, c) >= 5 and min(d, e) >= 4),
            (5, (min(b, c) >= 5 and min(d, e) >= 3) or min(b, c, d, e) >= 4),
            (4, min(b, c) >= 4 and min(d, e) >= 3),
            (3, min(b, c) >= 3 and min(d, e) >= 2),
        ]
        return next((points for points, holds in rules if holds), 2)

    @property
    def level(self) -> int:
        """The level on the five-level scale: usable (at least 5 of 7 points, and safe) is exactly level 4 and above."""
        return 1 if self.safety == 0 else (1, 1, 2, 2, 3, 4, 5, 5)[self.points]


class PhysicianScore(OfAnswer):
    """One rater's score of one answer: a level 1-5 or, for generated texts, the five dimensions; never both."""

    rater: Rater
    score: Level | None = None
    dimensions: MTGDimensions | None = None
    comment: str | None = None

    @model_validator(mode="after")
    def _one_of_both(self) -> "PhysicianScore":
        if (self.score is None) == (self.dimensions is None):
            raise ValueError("a physician's score has either score (1-5) or dimensions, and not both")
        return self

    @property
    def key(self) -> tuple[str, str, int, str]:
        return (*self.answer_key, self.rater)

    @property
    def level(self) -> int:
        if self.dimensions is not None:
            return self.dimensions.level
        assert self.score is not None
        return self.score


class AgreedScore(PhysicianScore):
    """The score that a third physician recorded where two others differ; it counts in place of theirs."""


class TrainingLine(BaseModel):
    """One answer with its target. The line contains all texts, so training reads no other file."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)
    question: Question
    earlier: list[str] = Field(description="the user's earlier turns of the conversation, oldest first")
    answer: Answer
    level: int = Field(ge=1, le=5)
    probabilities: list[float] = Field(min_length=5, max_length=5, description="soft label, level 1 first")
    source: Source
    scored_by: list[str] = Field(description="raters, the teacher with its rounds, or how the answer was made")
    made_from: list[str] = Field(default=[], description="ids of further questions whose text is in the answer")
    weight: float = Field(default=1.0, gt=0)
    rationale: str | None = None
    points: list[PointVerdict] = Field(default=[], description="targets for points of the question, by their text")


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """The items of each key in their order, by the keys in the order in which they first occur."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def conversations_of(questions: Iterable[Question]) -> dict[str, list[Question]]:
    """The turns of each conversation by its group, oldest first."""
    return grouped(sorted(questions, key=lambda question: question.round), lambda question: question.group)


def earlier_turns(questions: Sequence[Question]) -> dict[str, tuple[str, ...]]:
    """The user's earlier turns of each question's conversation, by question id, oldest first."""
    return {
        question.id: tuple(before.prompt for before in turns if before.round < question.round)
        for turns in conversations_of(questions).values()
        for question in turns
    }
