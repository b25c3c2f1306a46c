"""Reads a verdict out of a judge's reply: from its end, and from the reply alone."""

import re
from typing import NamedTuple

_STATED = re.compile(
    r"(?:\b(?:score|level|rating)\b|得分|评分|分数|等级)[\"'”’*_`]*\s*(?:[（(][^()（）\n]{0,30}[)）])?\s*(?:is|为|是)?"
    r"\s*[:：=]?\s*[\"'“‘*_`]*\s*\[{0,2}\s*([0-9]+(?:\.[0-9]+)?)",
    re.IGNORECASE,
)
_OPEN = re.compile(
    r"\s*(?:(?:-|–|~|to\b|or\b|或|到|至)\s*[0-9]|[%％]|/\s*(?!5\b)[0-9]|[,、，]\s*[0-9]\s*(?:[,、，]|or\b|或))",
    re.IGNORECASE,
)
"""What makes a number a range, a choice, or a mark on another scale, standing right behind it."""
SCORE_LINE = {"en": "Score: ", "zh": "得分："}
"""How the last line of a reason-first reply begins, by language, as `frame.*.md` asks for it."""
_SCORE_LINE = re.compile(r"^[ \t*_#>]*(?:score|得分)[ \t*_]*[:：]", re.IGNORECASE | re.MULTILINE)
_LAST_LINE = re.compile(r"[*_\"'\s]*([1-5])[*_\"'\s.。]*(?:分)?[\s.。\"'”]*")


class Verdict(NamedTuple):
    """The score a reply ends in, or None and why it cannot be read."""

    score: int | None
    problem: str | None


def read_verdict(reply: str) -> Verdict:
    """Reads the last score that a reply states ("Score: 4", "得分：4"), or a last line that is only a level.

    A number that merely stands somewhere in the reply, such as the citation [1], is no verdict. A last statement that
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
    """The rationale in a reason-first reply: what stands before the first line that begins to state a score."""
    stated = _SCORE_LINE.search(reply)
    return reply[: stated.start() if stated else None].strip()
