"""The lines of a text, and the blocks, list items, headings and tables that they form."""

import re
from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

THOUGHT_MARKS = (("<think>", "</think>"), ("<seed:think>", "</seed:think>"), ("[THINK]", "[/THINK]"))
"""Around the thought that a reply may begin with: Qwen3, DeepSeek, GLM; Seed; Mistral."""
NUMERALS = "一二三四五六七八九十"
_BULLET = r"(?:[-*+–—·‣]\s+|[•●▪◦■◆]\s*)"
_NUMBER = r"(?:\d{1,3}[.．)）](?!\d)\s*|\d{1,3}、(?!\d)|[（(]\d{1,3}[)）]\s*|[①-⑳]\s*)"
BULLET = re.compile(rf"\s*{_BULLET}(?=\S)")
"""The mark of an unnumbered list item."""
ITEM = re.compile(rf"(?P<indent>\s*)(?:(?P<bullet>{_BULLET})|{_NUMBER})(?=\S)")
"""The mark of a list item; the group `bullet` is None where it is a number."""
ORDINAL = re.compile(rf"(\s*(?:#+\s*)?(?:\*\*)?)(\d{{1,2}}|[{NUMERALS}])([.．、)）])(?!\d)")
"""A number that a renumbered list replaces; groups: what precedes it, the number, the mark behind it."""
RULE = re.compile(r"\s*(?:(?:-\s*){3,}|(?:\*\s*){3,}|(?:_\s*){3,}|={3,})")
TABLE_RULE_CELL = re.compile(r":?-+:?")
TERMINAL = re.compile(r"[.!?。！？…][\"'”’」』）)\]】*_]*$")
"""End of a line that ends a sentence."""

_CODE_FENCE = re.compile(r"(?:```|~~~)[\w+-]*")
_HEADING = re.compile(r"\s{0,3}(#{1,6})\s+\S")
_HAN_HEADING = re.compile(rf"\s*(?:\*\*)?[{NUMERALS}]{{1,3}}、[^。；！？]{{1,30}}$")
_BOLD_HEADING = re.compile(r"\s*\*\*[^*]+\*\*[:：]?\s*$")
HEADING_RANKS = range(1, 9)
_HAN_RANK, BOLD_RANK = 7, 8
_LEADS_ON = re.compile(r"[:：,，][*_]*$")


class Line(NamedTuple):
    """A line, where in the text it starts, and whether it belongs to a block of code."""

    start: int
    text: str
    fenced: bool


class Blocks(NamedTuple):
    """Start and text of each block, and the blocks, by number, before which a further paragraph would fit."""

    starts: list[int]
    texts: list[str]
    gaps: list[int]


def lines_of(text: str) -> list[Line]:
    """The lines of a text, newlines left out."""
    lines, start, fenced = [], 0, False
    for line in text.split("\n"):
        fence = is_fence(line)
        lines.append(Line(start, line, fenced or fence))
        fenced ^= fence
        start += len(line) + 1
    return lines


def is_fence(line: str) -> bool:
    """True if a line opens or closes a block of code."""
    mark = line.strip()
    return mark[:3] in ("```", "~~~") and bool(_CODE_FENCE.fullmatch(mark))


def heading_rank(line: str) -> int:
    """The rank of a heading, 1 the highest; 0 for any other line.

    1 to 6 are Markdown's, 7 is a Chinese numbered heading ("一、诊断"), 8 a line in bold.
    """
    if heading := _HEADING.match(line):
        return len(heading[1])
    if _HAN_HEADING.match(line):
        return _HAN_RANK
    return BOLD_RANK if _BOLD_HEADING.match(line) else 0


def block_starts(lines: Sequence[Line]) -> list[int]:
    """Beginning of each block between blank lines; a fenced block is never cut."""
    behind_blank = [True, *(not line.text.strip() and not line.fenced for line in lines)]
    return [line.start for line, begins in zip(lines, behind_blank, strict=False) if line.text.strip() and begins]


def cut_into_blocks(text: str) -> Blocks:
    """The blocks of a text between blank lines, and the gaps in which a further paragraph would fit.

    None fits within a list or table, nor behind a heading or a lead.
    """
    starts = block_starts(lines_of(text))
    blocks = [text[start:end].strip() for start, end in pairwise([*starts, len(text)])]
    gaps = [
        at for at, (before, after) in enumerate(pairwise(blocks), 1) if is_complete(before) and not in_series(after)
    ]
    return Blocks(starts, blocks, gaps)


def in_series(block: str) -> bool:
    """True if a block begins with a list item or a row of a table."""
    return bool(ITEM.match(block)) or block.lstrip().startswith("|")


def is_complete(block: str) -> bool:
    """True if a block is complete, rather than a heading of, or a lead to, what follows."""
    last = block.rstrip().rsplit("\n", 1)[-1].rstrip()
    if _LEADS_ON.search(last):
        return False
    return bool(TERMINAL.search(last)) or in_series(last) or is_fence(last)
