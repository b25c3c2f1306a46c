"""A text as lines and parts, so that parts can be left out or changed and the rest still reads as a whole."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from medjudge.distill.wording import Wording
from medjudge.probes.reordering import lines_of

_MARK = re.compile(r"\s*(?:[-*+•●–·]\s+|[•●]|\d{1,2}[.．、)）](?!\d)\s*|[（(]\d{1,2}[)）]\s*|[①-⑳]\s*)(?=\S)")
_NUMBER = re.compile(r"(\s*(?:#+\s*)?(?:\*\*)?)(\d{1,2}|[一二三四五六七八九十])([.．、)）])(?!\d)")
_HAN_NUMBERS = "一二三四五六七八九十"
_HEADING = re.compile(r"\s*(#{1,6})\s+\S")
_HAN_HEADING = re.compile(rf"\s*(?:\*\*)?[{_HAN_NUMBERS}]{{1,2}}、[^。；！？]{{1,30}}$")
_BOLD_HEADING = re.compile(r"\s*\*\*[^*]+\*\*\s*$")
_LEAD = re.compile(r"[:：]\s*[*_]*$")
_TABLE_RULE = re.compile(r"\s*\|?\s*:?-{2,}")
_RULE = re.compile(r"\s*(?:[-*_=]\s*){3,}$")
_END = re.compile(
    r"[。！？](?![。！？])[”’」』）】)]*"
    r"|[；;]\s*"
    r"|(?<=[^.!?])[.!?][\"”'’)\]]*\s+(?=[\"“'(\[]?[A-Z0-9\u4e00-\u9fff]|\([a-z]\))"
    r"|\s{2,}(?=- )"
)
_SHORTEST = {"en": 12, "zh": 6}
_TABLE, _TABLE_RULE_DEPTH, _FREE = 9, 10, 11
"""The depths of a table's head, of the rule below it, and of a line that leads on without being a heading.

The indentation of the latter is added to it.
"""


class Line(NamedTuple):
    """A line: its mark and its parts by number, or, where it only frames what follows, its text and rank."""

    prefix: str
    parts: tuple[int, ...]
    frame: str
    depth: int


class Outline(NamedTuple):
    """A text: its lines, the text of its parts, and which sentence each part is of (a semicolon parts a sentence)."""

    lines: tuple[Line, ...]
    parts: tuple[str, ...]
    sentences: tuple[int, ...]


def outline_of(text: str, wording: Wording) -> Outline:
    """Takes a text apart. `written` with all parts gives the text again, but for white space at the ends of lines."""
    lines: list[Line] = []
    parts: list[str] = []
    sentences: list[int] = []
    raw = lines_of(text.replace("\r\n", "\n").strip())
    for at, line in enumerate(raw):
        following = raw[at + 1].text if at + 1 < len(raw) else ""
        depth = 0 if line.fenced else _depth(line.text, following)
        if not line.text.strip() or line.fenced or depth or _RULE.match(line.text):
            lines.append(Line("", (), line.text.rstrip(), depth))
            continue
        mark = _MARK.match(line.text)
        prefix = line.text[: mark.end()] if mark else ""
        pieces, ends_sentence = _pieces(line.text[len(prefix) :].rstrip(), wording)
        first = len(parts)
        parts += pieces
        starts = [True, *ends_sentence]
        for begins in starts[: len(pieces)]:
            sentences.append(sentences[-1] + begins if sentences else 0)
        lines.append(Line(prefix, tuple(range(first, len(parts))), "", 0))
    return Outline(tuple(lines), tuple(parts), tuple(sentences))


def _depth(line: str, following: str) -> int:
    """The rank of a line that frames what follows, 1 the highest; 0 for a line with content of its own."""
    if heading := _HEADING.match(line):
        return len(heading[1])
    if _HAN_HEADING.match(line):
        return 7
    if _BOLD_HEADING.match(line):
        return 8
    if "|" in line and _TABLE_RULE.match(following):
        return _TABLE
    if "|" in line and _TABLE_RULE.match(line):
        return _TABLE_RULE_DEPTH
    indent = len(line) - len(line.lstrip())
    return _FREE + indent if _LEAD.search(line) else 0


def _pieces(line: str, wording: Wording) -> tuple[list[str], list[bool]]:
    """A line's sentences and clauses between semicolons, and whether each ends a sentence. A table's row is one."""
    if line.lstrip().startswith("|"):
        return [line], [True]
    pieces, ends, start = [], [], 0
    for found in _END.finditer(line):
        piece = line[start : found.end()]
        if found.end() == len(line) or not _really_ends(piece, found[0], wording):
            continue
        pieces.append(piece)
        ends.append(found[0][0] not in ";；")
        start = found.end()
    return [*pieces, line[start:]], [*ends, True]


def _really_ends(piece: str, mark: str, wording: Wording) -> bool:
    whole = all(piece.count(opens) <= piece.count(closes) for opens, closes in ("()", "（）", "“”", "[]", "【】"))
    if not whole or piece.count('"') % 2 or len(piece) < _SHORTEST[wording.language]:
        return False
    if mark[0] != ".":
        return True
    word = re.search(r"[\w.]*$", piece[: piece.rindex(mark)])
    before = word[0].lower() if word else ""
    # "2. " in the middle of a line numbers what follows; a single letter is an initial.
    return not (before in wording.abbreviations or len(before) == 1 or (before.isdigit() and len(before) <= 2))


def written(outline: Outline, parts: Sequence[str | None]) -> str:
    """The text with these parts; None leaves a part out.

    Lines without a part left go, headings and leads without anything left below them go, numbered lists are numbered
    anew, and a clause that is now the last or first of its sentence ends or begins it.

    Args:
        outline: Of the text.
        parts: What to write for each of its parts, shape (n parts,).
    """
    kept = [_kept(outline, at, parts) for at in range(len(outline.lines))]
    numbers = _numbers(outline, kept) if None in parts else [""] * len(kept)
    result: list[str] = []
    for line, number, keep in zip(outline.lines, numbers, kept, strict=True):
        if keep:
            text = line.frame if not line.parts else line.prefix + _joined(outline, line.parts, parts)
            result.append(_NUMBER.sub(rf"\g<1>{number}\g<3>", text, count=1) if number else text)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(result)).strip()


def _kept(outline: Outline, at: int, parts: Sequence[str | None]) -> bool:
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
        if line.depth >= _FREE and _NUMBER.match(line.frame) and _NUMBER.match(other.prefix):
            break
        below += other.parts
    return not below or any(parts[part] is not None for part in below)


def _numbers(outline: Outline, kept: Sequence[bool]) -> list[str]:
    """The number that each numbered line gets; empty for other lines, and where it stays as it is."""
    last: dict[tuple[str, str], int] = {}
    count: dict[tuple[str, str], int] = {}
    result = []
    for line, keep in zip(outline.lines, kept, strict=True):
        found = _NUMBER.match(line.prefix or line.frame)
        if not found:
            result.append("")
            continue
        han = found[2] in _HAN_NUMBERS
        value = _HAN_NUMBERS.index(found[2]) + 1 if han else int(found[2])
        key = (found[1], f"{han}{found[3]}")
        if value <= last.get(key, value):
            count[key] = value - 1
        last[key] = value
        count[key] += keep
        after = count[key]
        result.append("" if after == value or not keep or after < 1 else _HAN_NUMBERS[after - 1] if han else str(after))
    return result


def _joined(outline: Outline, line: Sequence[int], parts: Sequence[str | None]) -> str:
    left = [part for part in line if parts[part] is not None]
    said = []
    for place, part in enumerate(left):
        text = parts[part] or ""
        ends = place + 1 == len(left) or outline.sentences[left[place + 1]] != outline.sentences[part]
        if ends and part != line[-1] and outline.sentences[part] == outline.sentences[part + 1]:
            bare = text.rstrip()
            text = re.sub(r"[;；]$", "。" if bare.endswith("；") else ".", bare) + text[len(bare) :]
            text += " " if text[-1] == "." else ""
        first = place == 0 or outline.sentences[left[place - 1]] != outline.sentences[part]
        dropped_before = part != line[0] and outline.sentences[part - 1] == outline.sentences[part]
        # A word and no symbol: "pH" stays as it is.
        word = text[1:2].islower()
        said.append(text[:1].upper() + text[1:] if first and dropped_before and word else text)
    return "".join(said).rstrip()
