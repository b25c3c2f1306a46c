"""A text as lines and parts, so that parts can be left out or changed and the rest still reads as a whole."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from medjudge.text.blocks import BOLD_RANK, HEADING_RANKS, ITEM, NUMERALS, ORDINAL, RULE, heading_rank, lines_of
from medjudge.text.grammar import Grammar, clauses

_LEAD = re.compile(r"[:：]\s*[*_]*$")
_TABLE_RULE = re.compile(r"\s*\|?\s*:?-{2,}")
_TABLE = HEADING_RANKS[-1] + 1
_TABLE_RULE_DEPTH, _LEAD_DEPTH = _TABLE + 1, _TABLE + 2
"""The depths of a table's rule and of a line that leads on without being a heading, to which its indent is added."""


class OutlineLine(NamedTuple):
    """A line: its mark and its parts by number, or, where it only frames what follows, its text and rank."""

    prefix: str
    parts: tuple[int, ...]
    frame: str
    depth: int


class Outline(NamedTuple):
    """A text: its lines, the text of its parts, and which sentence each part belongs to.

    A part is a sentence, or a piece of one that ends at a semicolon.
    """

    lines: tuple[OutlineLine, ...]
    parts: tuple[str, ...]
    sentences: tuple[int, ...]


def outline_of(text: str, grammar: Grammar) -> Outline:
    """Take a text apart. `written` with all parts gives the text again, but for white space at the ends of lines."""
    lines: list[OutlineLine] = []
    parts: list[str] = []
    sentences: list[int] = []
    raw = lines_of(text.replace("\r\n", "\n").strip())
    for at, line in enumerate(raw):
        following = raw[at + 1].text if at + 1 < len(raw) else ""
        depth = 0 if line.fenced else _depth(line.text, following)
        if not line.text.strip() or line.fenced or depth or RULE.fullmatch(line.text):
            lines.append(OutlineLine("", (), line.text.rstrip(), depth))
            continue
        mark = ITEM.match(line.text)
        prefix = line.text[: mark.end()] if mark else ""
        rest = line.text[len(prefix) :].rstrip()
        first = len(parts)
        begins_sentence = True
        if rest.lstrip().startswith("|"):  # the row of a table is one part
            pieces, end_sentence = [rest], [True]
        else:
            pieces, end_sentence = clauses(rest, grammar)
        for piece, ends in zip(pieces, end_sentence, strict=True):
            parts.append(piece)
            sentences.append(sentences[-1] + begins_sentence if sentences else 0)
            begins_sentence = ends
        lines.append(OutlineLine(prefix, tuple(range(first, len(parts))), "", 0))
    return Outline(tuple(lines), tuple(parts), tuple(sentences))


def _depth(line: str, following: str) -> int:
    """The rank of a line that frames what follows, 1 the highest; 0 for a line with content of its own."""
    rank = heading_rank(line)
    # A line in bold with a colon behind it leads to its list, and not to all that follows.
    if rank and not (rank == BOLD_RANK and line.rstrip().endswith((":", "："))):
        return rank
    if "|" in line and _TABLE_RULE.match(following):
        return _TABLE
    if "|" in line and _TABLE_RULE.match(line):
        return _TABLE_RULE_DEPTH
    indent = len(line) - len(line.lstrip())
    return _LEAD_DEPTH + indent if _LEAD.search(line) else 0


def written(outline: Outline, parts: Sequence[str | None]) -> str:
    """The text with these parts; None leaves a part out.

    Lines without a part left go, headings and leads without anything left below them go, numbered lists are renumbered,
    and a clause that is now the last or first of its sentence ends or begins it.

    Args:
        outline: Of the text.
        parts: What to write for each of its parts, shape (n parts,).
    """
    stays = [_stays(outline, at, parts) for at in range(len(outline.lines))]
    numbers = _numbers(outline, stays) if None in parts else [""] * len(stays)
    result: list[str] = []
    for line, number, line_stays in zip(outline.lines, numbers, stays, strict=True):
        if line_stays:
            text = line.frame if not line.parts else line.prefix + _joined(outline, line.parts, parts)
            result.append(ORDINAL.sub(rf"\g<1>{number}\g<3>", text, count=1) if number else text)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(result)).strip()


def _stays(outline: Outline, at: int, parts: Sequence[str | None]) -> bool:
    """True if a line is still written: some part of it, or of what it frames, is left."""
    line = outline.lines[at]
    if line.parts:
        return any(parts[part] is not None for part in line.parts)
    if not line.depth:
        return True
    below: list[int] = []
    for other in outline.lines[at + 1 :]:
        if other.depth and other.depth <= line.depth:
            break
        # A lead reaches to the end of its list or table, not to the prose behind it.
        prose = other.parts and not other.prefix and not outline.parts[other.parts[0]].lstrip().startswith("|")
        if line.depth >= _TABLE and below and prose:
            break
        if line.depth >= _LEAD_DEPTH and ORDINAL.match(line.frame) and ORDINAL.match(other.prefix):
            break
        below += other.parts
    return not below or any(parts[part] is not None for part in below)


def _numbers(outline: Outline, stays: Sequence[bool]) -> list[str]:
    """The number that each numbered line gets; empty for other lines, and where it stays as it is."""
    last: dict[tuple[str, str], int] = {}
    count: dict[tuple[str, str], int] = {}
    result = []
    for line, line_stays in zip(outline.lines, stays, strict=True):
        ordinal = ORDINAL.match(line.prefix or line.frame)
        if not ordinal:
            result.append("")
            continue
        numeral = ordinal[2] in NUMERALS
        value = NUMERALS.index(ordinal[2]) + 1 if numeral else int(ordinal[2])
        series = (ordinal[1], f"{numeral}{ordinal[3]}")
        if value <= last.get(series, value):
            count[series] = value - 1
        last[series] = value
        count[series] += line_stays
        new = count[series]
        changes = line_stays and new >= 1 and new != value
        result.append((NUMERALS[new - 1] if numeral else str(new)) if changes else "")
    return result


def _joined(outline: Outline, line: Sequence[int], parts: Sequence[str | None]) -> str:
    """The parts of a line that are left, with sentences that begin with a capital and end with a full stop."""
    left = [part for part in line if parts[part] is not None]
    pieces = []
    for position, part in enumerate(left):
        text = parts[part] or ""
        ends = position + 1 == len(left) or outline.sentences[left[position + 1]] != outline.sentences[part]
        if ends and part != line[-1] and outline.sentences[part] == outline.sentences[part + 1]:
            bare = text.rstrip()
            text = re.sub(r"[;；]$", "。" if bare.endswith("；") else ".", bare) + text[len(bare) :]
            text += " " if text[-1] == "." else ""
        first = position == 0 or outline.sentences[left[position - 1]] != outline.sentences[part]
        dropped_before = part != line[0] and outline.sentences[part - 1] == outline.sentences[part]
        # A word and no symbol: "pH" stays as it is.
        word = text[1:2].islower()
        pieces.append(text[:1].upper() + text[1:] if first and dropped_before and word else text)
    return "".join(pieces).rstrip()
