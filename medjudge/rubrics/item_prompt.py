"""The prompt of a question's items: does an answer meet each of them? Reads the verdicts back from the reply."""

import json
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, Literal, NamedTuple

from jinja2 import Environment, StrictUndefined

from medjudge.languages.texts import PACKAGED, Languages, Texts, languages_of
from medjudge.records import Question
from medjudge.rubrics.render import JudgePrompt, fence_code, neutralise
from medjudge.rubrics.verdict import UnreadableError, after_thought, lone_object
from medjudge.scheme import LLMEVAL_MED, Scheme

ITEM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "verdicts": {
            "type": "array",
            "items": {
                "type": "object",
                # In this order: a server writes the fields as they are listed here, and the reason comes first.
                "properties": {
                    "number": {"type": "integer", "description": "the number of the criterion"},
                    "reason": {"type": "string", "description": "a few words"},
                    "met": {"type": "boolean"},
                    "certainty": {"type": "integer", "description": "how sure, in percent, from 50 to 100"},
                },
                "required": ["number", "reason", "met", "certainty"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["verdicts"],
    "additionalProperties": False,
}
"""The reply to all criteria at once, for servers that can hold a model to a schema."""

_ENVIRONMENT = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
_TEXTS = ("item_frame.md", "item_material.md")


class ItemReplies(Texts):
    """What a judge of items is told in one language (`item_replies.yaml`).

    Attributes:
        reminder: What it reads, once, where its reply could not be read; with `{problem}` and `{count}`.
    """

    reminder: str


class ItemReply(NamedTuple):
    """The probability that each criterion is met, in the order of the prompt; or what keeps the reply from being read.

    Where a reply is not read, `met` is None.
    """

    met: list[float] | None
    problem: str | None = None


def render_items(
    question: Question,
    earlier: Sequence[str],
    answer: str,
    items: Sequence[str] = (),
    control_tokens: Iterable[str] = (),
    scheme: Scheme = LLMEVAL_MED,
) -> JudgePrompt:
    """Renders the prompt for one answer.

    Args:
        items: The texts of all items, to be judged in one reply; with none, the reply is for a single item, which it
            begins with.
    """
    languages, language = languages_of(scheme), question.language
    control_tokens = list(control_tokens)

    def plain(text: str) -> str:
        return neutralise(text, control_tokens)

    kind: Literal["all", "one"] = "all" if items else "one"
    system = _rendered(languages.text(language, "item_frame.md"), criteria=kind)
    user = _rendered(
        languages.text(language, "item_material.md"),
        earlier=[plain(prompt) for prompt in earlier],
        question=plain(question.prompt),
        reference=plain(question.reference or ""),
        items=[one_line(item, control_tokens) for item in items],
        code=fence_code(answer),
        answer=plain(answer),
    )
    return JudgePrompt(system.strip(), user.strip())


def one_line(item: str, control_tokens: Iterable[str] = ()) -> str:
    """An item on one line, without what a chat model could read as control."""
    return " ".join(neutralise(item, control_tokens).split())


def item_prompts_sha256(scheme: Scheme) -> str:
    """The sha256 of everything that a judge of items is told in a scheme, apart from questions, items and answers."""
    languages = languages_of(scheme)
    texts = [json.dumps(ITEM_SCHEMA)]
    for language in scheme.languages:
        texts += [languages.text(language, name) for name in _TEXTS]
        texts.append(item_replies(language, languages).reminder)
    return sha256("\x1f".join(texts).encode()).hexdigest()


def item_replies(language: str, languages: Languages = PACKAGED) -> ItemReplies:
    """The texts of a language on a judge's replies to items."""
    return languages.load(language, "item_replies.yaml", ItemReplies)


def read_item_reply(reply: str, count: int) -> ItemReply:
    """Reads a reply to `count` criteria: an object of `ITEM_SCHEMA`, in a code fence or not.

    Every criterion needs exactly one verdict; a reply that leaves one out is not read in part.
    """
    try:
        fields = lone_object(after_thought(reply))
    except UnreadableError as problem:
        return ItemReply(None, str(problem))
    if fields is None:
        return ItemReply(None, "the reply is no JSON object")
    verdicts = fields.get("verdicts")
    if not isinstance(verdicts, list):
        return ItemReply(None, "the reply has no list of verdicts")
    met: dict[int, float] = {}
    for place, verdict in enumerate(verdicts, 1):
        given: dict[str, Any] = verdict if isinstance(verdict, dict) else {}
        number, is_met, certainty = _number(given.get("number")), given.get("met"), _number(given.get("certainty"))
        if type(number) is not int or not 1 <= number <= count:
            return ItemReply(None, f"verdict {place} has no number from 1 to {count}")
        if number in met:
            return ItemReply(None, f"criterion {number} has two verdicts")
        if type(is_met) is not bool:
            return ItemReply(None, f"criterion {number}: met is neither true nor false")
        if isinstance(certainty, bool) or not isinstance(certainty, (int, float)) or not 50 <= certainty <= 100:
            return ItemReply(None, f"criterion {number}: certainty is not from 50 to 100")
        met[number] = certainty / 100 if is_met else 1 - certainty / 100
    missing = [str(number) for number in range(1, count + 1) if number not in met]
    if missing:
        return ItemReply(None, f"no verdict on criterion {', '.join(missing[:10])}")
    return ItemReply([met[number] for number in range(1, count + 1)])


def _number(value: object) -> object:
    """A whole number that was written as a text."""
    return int(value) if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 5 else value


def _rendered(source: str, **values: object) -> str:
    # Values are rendered as they are: a template inside an answer is text, never run.
    return _ENVIRONMENT.from_string(source).render(**values)
