"""What converters of published sets share: the records that they give, their fields, a dialogue as one prompt."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from medjudge.benchmark.llmeval_med import Oddity
from medjudge.item_records import ItemScore
from medjudge.records import Answer, ErrorKind, Judgment, PhysicianScore, Question

TEACHER = "gpt-4"
"""The judge of sets that GPT-4 scored."""


class PublishedSet(NamedTuple):
    """Questions, answers, experts' scores of them, experts' verdicts on single items, and a teacher's judgments."""

    questions: list[Question]
    answers: list[Answer]
    scores: list[PhysicianScore]
    items: list[ItemScore]
    oddities: list[Oddity]
    judgments: list[Judgment]


def empty_set() -> PublishedSet:
    """A set without any record, to be filled."""
    return PublishedSet([], [], [], [], [], [])


def answer_of(question_id: str, model: str, text: str) -> Answer:
    """An answer; one without text says so."""
    return Answer(question_id=question_id, model=model, text=text, finish_reason=None if text.strip() else "empty")


def judgment_of_teacher(
    question_id: str, model: str, score: float | None, missing: str = "", raw: str | None = None
) -> Judgment:
    """The teacher's judgment of an answer.

    Args:
        score: From 1 to 5; a score between two levels reaches the lower one.
        missing: Why there is no score.
        raw: The teacher's reply.
    """
    return Judgment(
        question_id=question_id,
        model=model,
        judge=TEACHER,
        score=None if score is None else int(score),
        expected=None if score is None else float(score),
        raw=raw,
        error_kind=None if score is not None else ErrorKind.NOT_IN_FILE,
        error=None if score is not None else missing,
    )


def field(fields: Any, name: str) -> Any:
    """A field of an object.

    Raises:
        ValueError: There is no such field.
    """
    if not isinstance(fields, dict) or name not in fields:
        raise ValueError(f"{name} is missing")
    return fields[name]


def text_field(fields: Any, name: str) -> str:
    """The text of a field, without space around it.

    Raises:
        ValueError: There is none.
    """
    value = field(fields, name)
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} is empty or no text")
    return value.strip()


def dialogue(messages: Any) -> str:
    """A list of messages as one prompt: a single one as it is, several with who says what.

    Raises:
        ValueError: It is no list of objects with role and content.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, str) or not messages:
        raise ValueError("prompt needs a list of messages with role and content")
    turns = []
    for message in messages:
        if not isinstance(message, dict) or not all(isinstance(message.get(name), str) for name in ("role", "content")):
            raise ValueError("prompt needs a list of messages with role and content")
        turns.append((message["role"], message["content"].strip()))
    if len(turns) == 1:
        return turns[0][1]
    return "\n\n".join(f"{role.capitalize()}: {content}" for role, content in turns)


def language_of_text(text: str) -> str:
    """`zh` where a tenth of the letters are Chinese characters, else `en`."""
    letters = [character for character in text if character.isalpha()]
    chinese = sum("\u4e00" <= character <= "\u9fff" for character in letters)
    return "zh" if letters and chinese / len(letters) > 0.1 else "en"
