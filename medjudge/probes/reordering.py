"""A text in another order, where its parts do not lean on each other; and the lines and blocks it is made of."""

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random
from typing import NamedTuple

from medjudge.probes.formatting import is_fence
from medjudge.probes.texts import Texts

_ITEM = re.compile(
    r"(\s*)(?:([-*+–—·‣]\s+|[•●▪◦■◆]\s*)|\d{1,3}[.．)）](?!\d)\s*|\d{1,3}、|[（(]\d{1,3}[)）]\s*|[①-⑳]\s*)(?=\S)"
)
_SENTENCE_END = re.compile(
    r"。[”’」』）】)]*\s*|(?<![！？])[！？]+(?![！？”’」』])\s*"
    r"|(?<![.!?])[.!?]+[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[A-Z0-9\u4e00-\u9fff])"
)
_TERMINAL = re.compile(r"[.!?。！？…][\"'”’」』）)\]】*_]*$")
_LEADS_ON = re.compile(r"[:：,，][*_]*$")
_BRACKETS = ("()", "（）", "[]", "【】", "“”", "「」")
_HEADINGS = (
    *(re.compile(rf"{'#' * depth}\s+\S") for depth in range(1, 7)),
    re.compile(r"\*\*[^*]+\*\*[:：]?\s*$"),
    re.compile(r"[一二三四五六七八九十]{1,3}、[^。；]{1,30}$"),
)


class Line(NamedTuple):
    """A line, where in the text it starts, and whether it belongs to a block of code."""

    start: int
    text: str
    fenced: bool


def reordered(text: str, texts: Texts, draw: Random) -> str:
    """The parts in another order, as far as they do not lean on each other.

    List items change places within their list, numbered ones with their numbers. Sections under headings, or else
    paragraphs, change places. Only where there is nothing of that, lines do, and in a single paragraph the sentences
    behind the first.
    """
    lines = lines_of(text)
    changed = _items_moved(text, lines, texts, draw)
    if changed != text:
        lines = lines_of(changed)
    sections = _section_starts(lines)
    if len(sections) >= 2:
        return _moved(changed, sections, draw)
    blocks = block_starts(lines)
    changed = _moved(changed, blocks, draw, texts, _block_tied)
    if changed != text or len(blocks) > 1 or any(line.fenced or in_series(line.text) for line in lines):
        return changed
    if "\n" in text.strip():
        starts = [line.start for line in lines if line.text[:1].strip()]
        return _moved(text, starts, draw, texts, _line_tied)
    return _sentences_moved(text, texts, draw)


def _moved(
    text: str,
    starts: Sequence[int],
    draw: Random,
    texts: Texts | None = None,
    tied: Callable[[str, str], bool] = lambda before, part: False,
    first_stays: bool = False,
) -> str:
    """Puts the parts of a text that begin at `starts` into another order; the white space between them stays.

    Args:
        text: What stands before the first start stays there.
        starts: Places in the text, rising.
        texts: Words that keep a part where it is; None for parts that stand for themselves.
        tied: Whether a part must stay behind the one before it because of their form.
        first_stays: The first part, with what leans on it, stays first.
    """
    pieces = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    parts = [piece.rstrip() for piece in pieces]
    groups: list[list[str]] = []
    for at, part in enumerate(parts):
        head = _first_sentence(part, texts) if texts else ""
        if texts and texts.sequence.search(head):
            return text
        leans = texts and (texts.refers_back.search(head) or texts.goes_on.match(head))
        if groups and (leans or tied(parts[at - 1], part)):
            groups[-1].append(part)
        else:
            groups.append([part])
    stay, free = (groups[:1], groups[1:]) if first_stays else ([], groups)
    if len(free) < 2:
        return text
    order = list(range(len(free)))
    while order == sorted(order):
        draw.shuffle(order)
    moved = [part for group in (*stay, *(free[place] for place in order)) for part in group]
    gaps = [piece[len(part) :] for piece, part in zip(pieces, parts, strict=True)]
    return text[: starts[0]] + "".join(part + gap for part, gap in zip(moved, gaps, strict=True))


def _items_moved(text: str, lines: Sequence[Line], texts: Texts, draw: Random) -> str:
    if any(line.fenced for line in lines):
        return text
    result, done = [], 0
    for starts, end, numbered in _lists(lines):
        run, lead = text[starts[0] : end], text[: starts[0]].rstrip().rsplit("\n", 1)[-1]
        # Numbers go with their items and keep the order readable; bullets have only words for that.
        if not numbered and texts.sequence.search(lead):
            continue
        moved = _moved(run, [start - starts[0] for start in starts], draw, None if numbered else texts)
        result += [text[done : starts[0]], moved]
        done = end
    return "".join(result) + text[done:]


def _lists(lines: Sequence[Line]) -> Iterator[tuple[list[int], int, bool]]:
    """The lists whose items may change places: where the items start, where the last one ends, whether numbered."""
    at = 0
    while at < len(lines):
        kind = _item_kind(lines[at])
        if kind is None:
            at += 1
            continue
        items = []
        following = at
        while following < len(lines) and _item_kind(lines[following]) == kind:
            begin, at = following, following + 1
            while at < len(lines) and lines[at].text.strip() and _indent(lines[at]) > kind[0]:
                at += 1
            items.append((begin, at))
            following = at
            while following < len(lines) and not lines[following].text.strip():
                following += 1
        last = lines[at - 1]
        leads_on = any(lines[end - 1].text.rstrip("* ").endswith((":", "：")) for _, end in items)
        if len(items) > 1 and not leads_on and not _runs_on(last, lines, at, following):
            yield [lines[begin].start for begin, _ in items], last.start + len(last.text), kind[1]


def _runs_on(last: Line, lines: Sequence[Line], at: int, following: int) -> bool:
    """Whether what stands behind a list may belong to its last item: its own list, or the rest of its sentence."""
    if following == len(lines):
        return False
    return in_series(lines[following].text) or (following == at and not _TERMINAL.search(last.text.rstrip()))


def _item_kind(line: Line) -> tuple[int, bool] | None:
    found = _ITEM.match(line.text)
    return (len(found[1]), found[2] is None) if found else None


def _indent(line: Line) -> int:
    return len(line.text) - len(line.text.lstrip())


def _sentences_moved(text: str, texts: Texts, draw: Random) -> str:
    starts = _sentence_starts(text, texts)
    pieces = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    if len({piece[len(piece.rstrip()) :] for piece in pieces[:-1]}) > 1:
        return text
    whole = all(piece.count(pair[0]) == piece.count(pair[1]) for piece in pieces for pair in _BRACKETS)
    if not whole or any(piece.count('"') % 2 for piece in pieces):
        return text
    return _moved(text, starts, draw, texts, _line_tied, first_stays=True)


def _first_sentence(part: str, texts: Texts) -> str:
    item = _ITEM.match(part)
    part = part[item.end() :] if item else part
    starts = _sentence_starts(part, texts)
    return part[: starts[1]] if len(starts) > 1 else part


def _sentence_starts(text: str, texts: Texts) -> list[int]:
    """Where sentences begin. In doubt two sentences count as one: a number, a letter or an abbreviation ends none."""
    starts = [len(text) - len(text.lstrip())]
    for found in _SENTENCE_END.finditer(text):
        word = re.search(r"[\w.]*$", text[max(0, found.start() - 20) : found.start()])
        before = word[0].lower() if word else ""
        doubtful = before.isdigit() or len(before) == 1 or before in texts.abbreviations
        if found.end() < len(text) and not (found[0][0] == "." and doubtful):
            starts.append(found.end())
    return starts


def lines_of(text: str) -> list[Line]:
    """The lines of a text, newlines left out."""
    lines, start, fenced = [], 0, False
    for line in text.split("\n"):
        fence = is_fence(line)
        lines.append(Line(start, line, fenced or fence))
        fenced ^= fence
        start += len(line) + 1
    return lines


def _section_starts(lines: Sequence[Line]) -> list[int]:
    """Where the headings of the highest rank that occurs twice stand."""
    possible = [line for line in lines if line.text and not line.fenced]
    for heading in _HEADINGS:
        starts = [line.start for line in possible if heading.match(line.text)]
        if len(starts) >= 2:
            return starts
    return []


def block_starts(lines: Sequence[Line]) -> list[int]:
    """Where what stands between blank lines begins; a fenced block is never cut."""
    behind_blank = [True, *(not line.text.strip() and not line.fenced for line in lines)]
    return [line.start for line, begins in zip(lines, behind_blank, strict=False) if line.text.strip() and begins]


def in_series(block: str) -> bool:
    """Whether a block begins with a list item or a row of a table."""
    return bool(_ITEM.match(block)) or block.lstrip().startswith("|")


def is_complete(block: str) -> bool:
    """Whether a block is complete, and no heading of, or lead to, what follows."""
    last = block.rstrip().rsplit("\n", 1)[-1].rstrip()
    if _LEADS_ON.search(last):
        return False
    return bool(_TERMINAL.search(last)) or in_series(last) or is_fence(last)


def _block_tied(before: str, block: str) -> bool:
    # A list with blank lines around it belongs to its lead, and what follows it may belong to its last item.
    return in_series(before) or in_series(block) or _line_tied(before, block)


def _line_tied(before: str, line: str) -> bool:
    # What does not end, such as a heading or a name under a letter, goes with its neighbours.
    return not is_complete(before) or not is_complete(line)
