"""What converters of published sets share: the records that they give, and a dialogue as one prompt."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from medjudge.benchmark.llmeval_med import Oddity
from medjudge.item_records import ItemScore
from medjudge.records import Answer, PhysicianScore, Question


class PublishedSet(NamedTuple):
    """Questions, answers, experts' scores of them, and experts' verdicts on single items of them."""

    questions: list[Question]
    answers: list[Answer]
    scores: list[PhysicianScore]
    items: list[ItemScore]
    oddities: list[Oddity]


def empty_set() -> PublishedSet:
    """A set without any record, to be filled."""
    return PublishedSet([], [], [], [], [])


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
