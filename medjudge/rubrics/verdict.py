"""Reads a verdict out of a judge's reply: from its end, and from the reply alone."""

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pydantic import field_validator

from medjudge.languages.texts import PACKAGED, Languages, Texts

MOST_CHARACTERS = 200_000
"""A longer reply is no verdict: the longest that a judge is allowed to write has a tenth of that."""
_LONGEST_LINE = 300
"""A line that states a score is short; longer lines are prose."""
_MOST_OBJECTS = 8
"""The number of places in a reply that are tried for the beginning of a JSON object."""

_NAMES = r"(?:final|overall|total|综合|最终|总)?[ \t]{0,3}(?:score|level|rating|得分|评分|分数|等级)"
_MARKS = r"[ \t*_`\"'“”’‘]{0,8}"
_HANZI = "〇零一二三四五六七八九十百两半"
_NUMBER = rf"(?:[0-9]|[{_HANZI}])"
_STATEMENT = re.compile(
    rf"[ \t*_#>`-]{{0,8}}{_NAMES}{_MARKS}(?:[（(][^()（）\n]{{0,30}}[)）])?"
    rf"{_MARKS}(?:is\b|为|是)?{_MARKS}[:：=]?{_MARKS}"
    rf"\[{{0,2}}[ \t]?(?P<number>[0-9]{{1,9}}(?:\.[0-9]{{1,9}})?|[{_HANZI}]{{1,4}})(?P<rest>.*)",
    re.IGNORECASE,
)
"""A line of its own that states a score, such as `**Score:** 4/5` or `综合评分（1-5）：4`.

Every part is bounded, so that the time is linear in the length of the line.
"""
_ANOTHER_SCALE = re.compile(
    rf"\s?(?:分\s?)?(?:(?:-|–|~|to\b|or\b|或|到|至)\s?{_NUMBER}|[%％]|/\s?(?!5\b)[0-9]|[,、，]\s?{_NUMBER}|[点點半])",
    re.IGNORECASE,
)
"""Text right behind a number that makes it a range, a choice, or a mark on another scale."""
_END = re.compile(r"[\]*_\"'”’\s]{0,8}(?:分|级|/\s?5)?[\]*_\"'”’}\s.。,，;；!！]{0,8}(?:$|[-–—(（:：].*)")
"""Text that may follow the number of a statement: nothing, or a remark behind a dash, colon or bracket.

In "Level 5 would name the limit" the number states nothing.
"""
_SCORE_LINE = re.compile(r"^[ \t*_#>]*(?:score|得分|评分)[ \t*_]*[:：]", re.IGNORECASE | re.MULTILINE)
_LEVEL_ALONE = re.compile(r"[*_\"'\s]{0,8}([1-5])[*_\"'\s.。]{0,8}(?:分)?[\s.。\"'”]{0,8}")
_FULL_WIDTH = str.maketrans("：，“”", ':,""')
"""Some models write JSON with Chinese punctuation."""
_HALF_WIDTH = str.maketrans("０１２３４５６７８９．／～－％［］", "0123456789./~-%[]")
"""Full-width digits, and the signs that may stand beside them."""
_LEVELS = {"一": "1", "二": "2", "两": "2", "三": "3", "四": "4", "五": "5"}
_TRAILING_COMMA = re.compile(r",(?=\s*[}\]])")
_BEFORE_OBJECT = re.compile(r"\s*(?:```[a-zA-Z]{0,10}\s*)?")
_AFTER_OBJECT = re.compile(r"\s*(?:```\s*)?")
_SCORE_FIELDS = ("score", "得分", "评分", "分数", "rating", "level")
_RATIONALE_FIELDS = ("rationale", "reason", "reasons", "reasoning", "explanation", "理由", "判断依据", "依据", "分析")


def reasoned_schema(**verdict: dict[str, Any]) -> dict[str, Any]:
    """A JSON object of reasons and a verdict, in this order: a server writes the fields as a schema lists them."""
    reasons = {"type": "string", "description": "the reasons, in a few sentences"}
    return {
        "type": "object",
        "properties": {"rationale": reasons, **verdict},
        "required": ["rationale", *verdict],
        "additionalProperties": False,
    }


VERDICT_SCHEMA = reasoned_schema(score={"type": "integer", "enum": [1, 2, 3, 4, 5]})
"""The reply of a reason-first judge as a JSON object, for servers that can hold a model to a schema."""


class Replies(Texts):
    """Instructions on a judge's replies in one language.

    Attributes:
        reminder: What a judge reads, once, where its reply could not be read.
    """

    reminder: str


class JudgeReplies(Replies):
    """The forms of a judge's replies in one language (`judge_replies.yaml`).

    Attributes:
        score_line: How the last line of a reason-first reply begins, as `judge_frame.md` asks for it.
    """

    score_line: str

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
    """The score a reply ends in, or None and why it cannot be read; and the reasons for it."""

    score: int | None
    problem: str | None
    rationale: str


def read_verdict(reply: str) -> Verdict:
    """Reads the score that a reply states, and its reasons: a field of its object, else the reply.

    A statement is a line of its own ("Score: 4", "得分：4"), a JSON object with a score field, in a code fence or not,
    or a last line that is only a level. Anything else is prose: a citation [1], "GCS score 3", or a mention of the
    answer's own "Score: 5" within a sentence states nothing. Where statements differ, or one is no single level from 1
    to 5, the reply is unreadable: no statement is preferred to another.
    """
    try:
        text = after_thought(reply)
        read = _read(text)
    except UnreadableError as error:
        return Verdict(None, str(error), "")
    rationale = reply.strip()
    if read.rationale is not None:
        # An escaped lone surrogate could not be written.
        rationale = before_score(read.rationale).encode("utf-8", "replace").decode()
    different = list(dict.fromkeys(read.statements))
    if not text.strip():
        problem = "the reply is empty"
    elif not different:
        problem = "no score is stated in the reply"
    elif len(different) > 1:
        problem = f"the reply states two scores, {different[0]} and {different[-1]}"
    elif different[0] not in ("1", "2", "3", "4", "5"):
        problem = f"the stated score is {different[0]}, not a level from 1 to 5"
    else:
        return Verdict(int(different[0]), None, rationale)
    return Verdict(None, problem, rationale)


class UnreadableError(Exception):
    """The reason why nothing in a reply can be taken for a verdict."""


def after_thought(reply: str) -> str:
    """The text after a model's thought.

    Raises:
        UnreadableError: The thought never ends, or the reply is too long.
    """
    if len(reply) > MOST_CHARACTERS:
        raise UnreadableError(f"the reply has {len(reply):,} characters, more than {MOST_CHARACTERS:,}")
    _thought, end, text = reply.rpartition("</think>")
    if "<think>" in text:
        raise UnreadableError("the thought that <think> begins never ends")
    return text if end else reply


def lone_object(text: str) -> dict[str, Any] | None:
    """The JSON object that a reply consists of, in a code fence or not; None where there is anything else.

    Line breaks in strings, commas before a closing bracket and Chinese punctuation do not matter.

    Raises:
        UnreadableError: The object names a field twice.
    """
    before = _BEFORE_OBJECT.match(text)
    if before is None or text[before.end() : before.end() + 1] != "{":
        return None
    decoded = _decoded(_spellings(text), before.end())
    return decoded[0] if decoded and _AFTER_OBJECT.fullmatch(text, decoded[1]) else None


class _Read(NamedTuple):
    """The scores that a reply states, as written, in order; and the rationale of an object that states one.

    The rationale is None where no object has one, and empty where the reply is an object without one.
    """

    statements: list[str]
    rationale: str | None


def _read(text: str) -> _Read:
    lone = lone_object(text)
    if lone is not None and (read := _scored(lone)):
        return read._replace(rationale=read.rationale or "")
    statements: list[str] = []
    rationale: str | None = None
    spellings: list[str] = []
    plain = text.translate(_HALF_WIDTH)
    position = tried = object_ends = 0
    for line in plain.splitlines(keepends=True):
        start = position + len(line) - len(line.lstrip())
        position += len(line)
        if start < object_ends:
            continue  # inside an object that was read
        if text[start : start + 1] == "{" and tried < _MOST_OBJECTS:
            tried += 1
            spellings = spellings or list(_spellings(text))
            decoded = _decoded(spellings, start)
            read = _scored(decoded[0]) if decoded else None
            if decoded and read:
                statements += read.statements
                rationale, object_ends = read.rationale or rationale, decoded[1]
                continue
        if number := _stated(line):
            statements.append(number)
    last_line = next((line for line in reversed(plain.splitlines()) if line.strip()), "")
    if object_ends < len(text.rstrip()) and (alone := _LEVEL_ALONE.fullmatch(last_line)):
        statements.append(alone[1])
    return _Read(statements, rationale)


def _stated(line: str) -> str | None:
    """The number that a line of its own states as the score, with what makes it no single level; else None."""
    if len(line) > _LONGEST_LINE:
        return None
    statement = _STATEMENT.match(line)
    if statement is None:
        return None
    number, rest = statement["number"], statement["rest"]
    # "等级一：…" quotes a rubric; "评分：一" states a score.
    if number[0] in _HANZI and not re.search("[:：=为是]", line[: statement.start("number")]):
        return None
    if other := _ANOTHER_SCALE.match(rest):
        return f"{number}{other[0]}"
    if not _END.fullmatch(rest):
        return None
    whole, _, decimals = number.partition(".")
    return _LEVELS.get(number, number if decimals.strip("0") else whole)


def _spellings(text: str) -> Iterator[str]:
    """A text, and what a model may have meant where it is no JSON; all of one length."""
    yield text
    yield _TRAILING_COMMA.sub(" ", text)
    yield _TRAILING_COMMA.sub(" ", text.translate(_FULL_WIDTH).translate(_HALF_WIDTH))


def _decoded(spellings: Iterable[str], start: int) -> tuple[dict[str, Any], int] | None:
    """The JSON object that begins at a position, and where it ends; one that names a field twice raises an error."""
    decoder = json.JSONDecoder(object_pairs_hook=_unique, strict=False)
    for candidate in spellings:
        try:
            fields, end = decoder.raw_decode(candidate, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(fields, dict):
            return fields, end
    return None


def _scored(fields: dict[str, Any]) -> _Read | None:
    """The score that an object states; None where it has no score field."""
    fields = {name.strip().lower(): value for name, value in fields.items()}
    scores = [fields[name] for name in _SCORE_FIELDS if name in fields]
    if not scores:
        return None
    rationale = next((fields[name] for name in _RATIONALE_FIELDS if isinstance(fields.get(name), str)), None)
    lines = (rationale or "").translate(_HALF_WIDTH).splitlines()
    return _Read([*filter(None, map(_stated, lines)), _as_stated(scores[0])], rationale)


def _as_stated(score: object) -> str:
    """The value of a score field in the words of a line that states it."""
    if isinstance(score, str):
        stated = _stated(f"Score: {' '.join(score.translate(_HALF_WIDTH).split())}")
        return stated or json.dumps(score, ensure_ascii=False)[:40]
    if isinstance(score, float) and score.is_integer():
        return str(int(score))
    return json.dumps(score, ensure_ascii=False)[:40]


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        raise UnreadableError("the reply's JSON object names a field twice")
    return fields


def before_score(reply: str) -> str:
    """The rationale in a reason-first reply: the text before the first line that begins to state a score."""
    stated = _SCORE_LINE.search(reply)
    return reply[: stated.start() if stated else None].strip()
