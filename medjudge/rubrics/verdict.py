"""Reads a verdict out of a judge's reply: from its end, and from the reply alone."""

import json
import re
from typing import Any, NamedTuple

from pydantic import field_validator

from medjudge.languages.texts import PACKAGED, Languages, Texts

MOST_CHARACTERS = 200_000
"""A longer reply is no verdict: the longest that a judge is allowed to write has a tenth of that."""
_LONGEST_LINE = 300
"""A line that states a score is short; longer lines are prose."""
_MOST_OBJECTS = 8
"""How many places of a reply are tried for the beginning of a JSON object."""

_NAMES = r"(?:final|overall|total|综合|最终|总)?[ \t]{0,3}(?:score|level|rating|得分|评分|分数|等级)"
_MARKS = r"[ \t*_`\"'“”’‘]{0,8}"
_STATEMENT = re.compile(
    rf"[ \t*_#>`-]{{0,8}}{_NAMES}{_MARKS}(?:[（(][^()（）\n]{{0,30}}[)）])?"
    rf"{_MARKS}(?:is\b|为|是)?{_MARKS}[:：=]?{_MARKS}"
    r"\[{0,2}[ \t]?(?P<number>[0-9]{1,9}(?:\.[0-9]{1,9})?)(?P<rest>.*)",
    re.IGNORECASE,
)
"""A line of its own that states a score, such as `**Score:** 4/5` or `综合评分（1-5）：4`.

Every part is bounded, so that the time is linear in the length of the line.
"""
_ANOTHER_SCALE = re.compile(
    r"\s?(?:(?:-|–|~|to\b|or\b|或|到|至)\s?[0-9]|[%％]|/\s?(?!5\b)[0-9]|[,、，]\s?[0-9])", re.IGNORECASE
)
"""What makes a number a range, a choice, or a mark on another scale, standing right behind it."""
_END = re.compile(r"[\]*_\"'”’\s]{0,8}(?:分|/\s?5)?[\]*_\"'”’}\s.。,，;；!！]{0,8}(?:$|[-–—(（:：].*)")
"""What may follow the number of a statement: nothing, or a remark behind a dash, colon or bracket.

In "Level 5 would name the limit" the number states nothing.
"""
_SCORE_LINE = re.compile(r"^[ \t*_#>]*(?:score|得分)[ \t*_]*[:：]", re.IGNORECASE | re.MULTILINE)
_LEVEL_ALONE = re.compile(r"[*_\"'\s]{0,8}([1-5])[*_\"'\s.。]{0,8}(?:分)?[\s.。\"'”]{0,8}")
_FULL_WIDTH = str.maketrans("：，“”", ':,""')
"""Some models write JSON with Chinese punctuation."""
_SCORE_FIELDS = ("score", "得分", "评分", "分数", "rating", "level")


VERDICT_SCHEMA: dict[str, Any] = {
    "type": "object",
    # In this order: a server writes the fields as they are listed here, and the reasons come before the score.
    "properties": {
        "rationale": {"type": "string", "description": "the reasons, in a few sentences"},
        "score": {"type": "integer", "enum": [1, 2, 3, 4, 5]},
    },
    "required": ["rationale", "score"],
    "additionalProperties": False,
}
"""The reply of a reason-first judge as a JSON object, for servers that can hold a model to a schema."""


class JudgeReplies(Texts):
    """What a judge's replies look like in one language (`judge_replies.yaml`).

    Attributes:
        score_line: How the last line of a reason-first reply begins, as `judge_frame.md` asks for it.
        reminder: What a judge reads, once, where its reply could not be read.
    """

    score_line: str
    reminder: str

    @field_validator("score_line")
    @classmethod
    def _can_be_read(cls, line: str) -> str:
        if read_verdict(f"{line}4").score != 4 or before_score(f"Because.\n{line}4") != "Because.":
            raise ValueError(f"{line!r} cannot be read back from a reply; begin it with 'Score: '")
        return line


def judge_replies(language: str, languages: Languages = PACKAGED) -> JudgeReplies:
    """The texts of a language on a judge's replies."""
    return languages.load(language, "judge_replies.yaml", JudgeReplies)


class Verdict(NamedTuple):
    """The score a reply ends in, or None and why it cannot be read."""

    score: int | None
    problem: str | None


class Reasoned(NamedTuple):
    """A verdict with the reasons before it."""

    verdict: Verdict
    rationale: str


def read_reasoned(reply: str) -> Reasoned:
    """Reads a reason-first reply: an object of `VERDICT_SCHEMA`, or text that states the score on a line of its own."""
    try:
        text = _after_thought(reply)
        fields = json.loads(text, object_pairs_hook=_unique)
    except _UnreadableError as problem:
        return Reasoned(Verdict(None, str(problem)), "")
    except (ValueError, RecursionError):
        return Reasoned(read_verdict(reply), reply.strip())
    if not isinstance(fields, dict):
        return Reasoned(read_verdict(reply), reply.strip())
    score, rationale = fields.get("score"), fields.get("rationale")
    if type(score) is not int or not 1 <= score <= 5 or not isinstance(rationale, str):
        return Reasoned(
            Verdict(None, f"score is {json.dumps(score)[:40]}, not a level from 1 to 5, or no rationale"), ""
        )
    stated = [number for line in rationale.splitlines() if (number := _stated(line))]
    if other := [number for number in stated if number != str(score)]:
        return Reasoned(Verdict(None, f"the reply states two scores, {other[0]} and {score}"), "")
    # An escaped lone surrogate could not be written.
    return Reasoned(Verdict(score, None), before_score(rationale).encode("utf-8", "replace").decode())


def read_verdict(reply: str) -> Verdict:
    """Reads the score that a reply states.

    A statement is a line of its own ("Score: 4", "得分：4"), a JSON object with a score field, or a last line that is
    only a level. Anything else is prose: a citation [1], "GCS score 3", or a mention of the answer's own "Score: 5"
    within a sentence states nothing. Where statements differ, or one is no single level from 1 to 5, the reply is
    unreadable: no statement is preferred to another.
    """
    try:
        text = _after_thought(reply)
        if not text.strip():
            return Verdict(None, "the reply is empty")
        statements = _statements(text)
    except _UnreadableError as problem:
        return Verdict(None, str(problem))
    if not statements:
        return Verdict(None, "no score is stated in the reply")
    different = list(dict.fromkeys(statements))
    if len(different) > 1:
        return Verdict(None, f"the reply states two scores, {different[0]} and {different[-1]}")
    if different[0] not in ("1", "2", "3", "4", "5"):
        return Verdict(None, f"the stated score is {different[0]}, not a level from 1 to 5")
    return Verdict(int(different[0]), None)


class _UnreadableError(Exception):
    """Why nothing in a reply can be taken for a verdict."""


def _after_thought(reply: str) -> str:
    """What follows a model's thought; raises _UnreadableError where the thought never ends or the reply is too long."""
    if len(reply) > MOST_CHARACTERS:
        raise _UnreadableError(f"the reply has {len(reply):,} characters, more than {MOST_CHARACTERS:,}")
    _thought, end, text = reply.rpartition("</think>")
    if "<think>" in text:
        raise _UnreadableError("the thought that <think> begins never ends")
    return text if end else reply


def _statements(text: str) -> list[str]:
    """The scores that a reply states, as written, in order."""
    statements = []
    lines = text.splitlines()
    position = tried = object_ends = 0
    for line in text.splitlines(keepends=True):
        start = position + len(line) - len(line.lstrip())
        position += len(line)
        if start < object_ends:
            continue  # inside an object that was read
        if text[start : start + 1] == "{" and tried < _MOST_OBJECTS:
            tried += 1
            verdict = _object_at(text, start)
            if verdict is not None:
                statements.append(verdict.score)
                object_ends = verdict.end
                continue
        if number := _stated(line):
            statements.append(number)
    last_line = next(line for line in reversed(lines) if line.strip())
    if object_ends < len(text.rstrip()) and (alone := _LEVEL_ALONE.fullmatch(last_line)):
        statements.append(alone[1])
    return statements


def _stated(line: str) -> str | None:
    """The number that a line of its own states as the score, with what makes it no single level; else None."""
    if len(line) > _LONGEST_LINE:
        return None
    statement = _STATEMENT.match(line)
    if statement is None:
        return None
    number, rest = statement["number"], statement["rest"]
    if other := _ANOTHER_SCALE.match(rest):
        return f"{number}{other[0]}"
    return number if _END.fullmatch(rest) else None


class _Object(NamedTuple):
    """The score field of a JSON object as text, and where the object ends."""

    score: str
    end: int


def _object_at(text: str, start: int) -> _Object | None:
    """A JSON object with a score field that begins at a position; one that names a field twice raises an error."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique)
    for candidate in (text, text.translate(_FULL_WIDTH)):
        try:
            fields, end = decoder.raw_decode(candidate, start)
        except (ValueError, RecursionError):
            continue
        scores = [fields[name] for name in _SCORE_FIELDS if name in fields]
        if scores:
            score = scores[0]
            return _Object(str(score).strip(" []分") if isinstance(score, (int, str)) else json.dumps(score)[:40], end)
    return None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise _UnreadableError("the reply's JSON object names a field twice")
    return fields


def before_score(reply: str) -> str:
    """The rationale in a reason-first reply: the text before the first line that begins to state a score."""
    stated = _SCORE_LINE.search(reply)
    return reply[: stated.start() if stated else None].strip()
