"""The prompt of a pair: two answers to one question, and which is better. Reads the verdict back from the reply."""

import json
import re
from collections.abc import Iterable, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

from jinja2 import Environment, StrictUndefined

from medjudge.languages.texts import PACKAGED, Languages, Texts, languages_of
from medjudge.pair_records import Preferred
from medjudge.records import Question
from medjudge.rubrics.render import JudgePrompt, Style, fence_code, neutralise, standard
from medjudge.rubrics.verdict import UnreadableError, after_thought, lone_object
from medjudge.scheme import LLMEVAL_MED, Scheme

PAIR_SCHEMA: dict[str, Any] = {
    "type": "object",
    # In this order: a server writes the fields as they are listed here, and the reasons come before the verdict.
    "properties": {
        "rationale": {"type": "string", "description": "the reasons, in a few sentences"},
        "verdict": {"type": "string", "enum": ["A", "B", "tie"]},
    },
    "required": ["rationale", "verdict"],
    "additionalProperties": False,
}
"""The reply of a reason-first judge of pairs, for servers that can hold a model to a schema."""

_ENVIRONMENT = Environment(undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, autoescape=False)
_STATEMENT = re.compile(
    r"[ \t*_#>`-]{0,8}(?:final[ \t]+)?(?:verdict|结论|判定)[ \t*_`\"'“”]{0,8}[:：][ \t*_`\"'“”\[]{0,8}"
    r"(?P<verdict>A|B|C|tie|平局)[\]*_`\"'“”\s.。!！]{0,8}",
    re.IGNORECASE,
)
"""A line of its own that states the verdict. Every part is bounded: the time is linear in the line."""
_BEGINS = re.compile(r"[ \t*_#>`-]{0,8}(?:final[ \t]+)?(?:verdict|结论|判定)[ \t*_`]{0,8}[:：]", re.IGNORECASE)
_LONGEST_LINE = 120
_MEANING: dict[str, Preferred] = {"a": "first", "b": "second", "c": "tie", "tie": "tie", "平局": "tie"}


class PairReplies(Texts):
    """What a judge of pairs is told in one language (`pair_replies.yaml`).

    Attributes:
        reminder: What it reads, once, where its reply could not be read.
    """

    reminder: str


class PairVerdict(NamedTuple):
    """What a reply prefers and why, or what keeps it from being read."""

    preferred: Preferred | None
    rationale: str
    problem: str | None = None


def render_pair(
    question: Question,
    earlier: Sequence[str],
    first: str,
    second: str,
    style: Style,
    control_tokens: Iterable[str] = (),
    scheme: Scheme = LLMEVAL_MED,
) -> JudgePrompt:
    """Renders the prompt for two answers; `first` is shown as A. As `render` does for one answer."""
    languages, language = languages_of(scheme), question.language

    def plain(text: str) -> str:
        return neutralise(text, control_tokens)

    title, levels = standard(question.category, language, scheme)
    system = _rendered(languages.text(language, "pair_frame.md"), title=title, standard=levels, style=style)
    user = _rendered(
        languages.text(language, "pair_material.md"),
        earlier=[plain(prompt) for prompt in earlier],
        question=plain(question.prompt),
        reference=plain(question.reference or ""),
        checklist=plain(question.checklist or ""),
        code_a=fence_code(first),
        answer_a=plain(first),
        code_b=fence_code(second),
        answer_b=plain(second),
    )
    return JudgePrompt(system.strip(), user.strip())


def pair_prompts_sha256(style: Style, scheme: Scheme) -> str:
    """The sha256 of everything that a judge of pairs is told in a scheme, apart from questions and answers."""
    languages = languages_of(scheme)
    texts = [style, json.dumps(PAIR_SCHEMA)]
    for language in scheme.languages:
        texts += [languages.text(language, name) for name in ("pair_frame.md", "pair_material.md")]
        texts.append(pair_replies(language, languages).reminder)
        texts += [
            f"{title}\n{levels}" for title, levels in (standard(id, language, scheme) for id in scheme.category_ids)
        ]
    return sha256("\x1f".join(texts).encode()).hexdigest()


def pair_replies(language: str, languages: Languages = PACKAGED) -> PairReplies:
    """The texts of a language on a judge's replies to pairs."""
    return languages.load(language, "pair_replies.yaml", PairReplies)


def read_pair_reply(reply: str) -> PairVerdict:
    """Reads the verdict that a reply states: an object as of `PAIR_SCHEMA`, or a line of its own ("Verdict: A").

    Where two statements differ, the reply is unreadable: none is preferred to the other.
    """
    try:
        text = after_thought(reply)
        fields = lone_object(text)
    except UnreadableError as problem:
        return PairVerdict(None, "", str(problem))
    if fields is not None:
        verdict, rationale = fields.get("verdict"), fields.get("rationale", fields.get("reason"))
        meaning = _MEANING.get(verdict.strip().lower()) if isinstance(verdict, str) else None
        if meaning is None:
            return PairVerdict(None, "", f"verdict is {json.dumps(verdict)[:40]}, not A, B or tie")
        # An escaped lone surrogate could not be written.
        words = rationale.strip().encode("utf-8", "replace").decode() if isinstance(rationale, str) else ""
        return PairVerdict(meaning, words)
    lines = text.splitlines()
    stated = [
        _MEANING[match["verdict"].lower()]
        for line in lines
        if len(line) <= _LONGEST_LINE and (match := _STATEMENT.fullmatch(line))
    ]
    if not stated:
        return PairVerdict(None, "", "no verdict is stated in the reply")
    if len(set(stated)) > 1:
        return PairVerdict(None, "", "the reply states two verdicts")
    before = next(number for number, line in enumerate(lines) if _BEGINS.match(line))
    return PairVerdict(stated[-1], "\n".join(lines[:before]).strip())


def _rendered(source: str, **values: object) -> str:
    # Values are rendered as they are: a template inside an answer is text, never run.
    return _ENVIRONMENT.from_string(source).render(**values)
