"""Reads a verdict out of a judge's reply: from its end, and from the reply alone."""

import json
import re
from typing import Any, NamedTuple

from pydantic import field_validator

from medjudge.languages.texts import PACKAGED, Languages, Texts

_STATED = re.compile(
    r"(?:\b(?:score|level|rating)\b|得分|评分|分数|等级)[\"'”’*_`]*\s*(?:[（(][^()（）\n]{0,30}[)）])?\s*(?:is|为|是)?"
    r"\s*[:：=]?\s*[\"'“‘*_`]*\s*\[{0,2}\s*([0-9]+(?:\.[0-9]+)?)",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\s*(?:(?:-|–|~|to\b|or\b|或|到|至)\s*[0-9]|[%％]|/\s*(?!5\b)[0-9]|[,、，]\s*[0-9]\s*(?:[,、，]|or\b|或))",
    re.IGNORECASE,
)
"""What, right behind a number, makes it a range, a choice, or a mark on another scale."""
_SCORE_LINE = re.compile(r"^[ \t*_#>]*(?:score|得分)[ \t*_]*[:：]", re.IGNORECASE | re.MULTILINE)
_LAST_LINE = re.compile(r"[*_\"'\s]*([1-5])[*_\"'\s.。]*(?:分)?[\s.。\"'”]*")


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
    """Reads a reason-first reply, whether it is an object of `VERDICT_SCHEMA` or text with the score at its end."""
    try:
        fields = json.loads(reply)
    except (ValueError, RecursionError):
        return Reasoned(read_verdict(reply), reply.strip())
    if not isinstance(fields, dict):
        return Reasoned(read_verdict(reply), reply.strip())
    score, rationale = fields.get("score"), fields.get("rationale")
    if type(score) is not int or not 1 <= score <= 5 or not isinstance(rationale, str):
        return Reasoned(
            Verdict(None, f"score is {json.dumps(score)[:40]}, not a level from 1 to 5, or no rationale"), ""
        )
    stated = _SCORE_LINE.search(rationale)
    other = read_verdict(rationale[stated.start() :]).score if stated else None
    if other is not None and other != score:
        return Reasoned(Verdict(None, f"the reply states two scores, {other} and {score}"), "")
    return Reasoned(Verdict(score, None), before_score(rationale))


def read_verdict(reply: str) -> Verdict:
    """Reads the last score that a reply states ("Score: 4", "得分：4"), or a last line that is only a level.

    A number that merely occurs in the reply, such as the citation [1], is no verdict. A last statement that
    is no single level from 1 to 5 makes the reply unreadable; an earlier one is not taken instead.
    """
    if not reply.strip():
        return Verdict(None, "the reply is empty")
    stated = list(_STATED.finditer(reply))
    last_line = reply.rstrip().rsplit("\n", 1)[-1]
    alone = _LAST_LINE.fullmatch(last_line)
    if alone:
        return Verdict(int(alone[1]), None)
    if not stated:
        return Verdict(None, "no score is stated in the reply")
    number = stated[-1][1]
    if number not in ("1", "2", "3", "4", "5"):
        return Verdict(None, f"the stated score is {number}, not a level from 1 to 5")
    if _OPEN.match(reply, stated[-1].end()):
        return Verdict(None, f"the reply ends in '{last_line.strip()[:40]}', which is not one level from 1 to 5")
    return Verdict(int(number), None)


def before_score(reply: str) -> str:
    """The rationale in a reason-first reply: the text before the first line that begins to state a score."""
    stated = _SCORE_LINE.search(reply)
    return reply[: stated.start() if stated else None].strip()
