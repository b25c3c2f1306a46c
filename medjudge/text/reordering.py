"""A text in another order, where its parts do not depend on each other."""

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from random import Random

from medjudge.text.blocks import (
    HEADING_RANKS,
    ITEM,
    TERMINAL,
    Line,
    block_starts,
    heading_rank,
    in_series,
    is_complete,
    lines_of,
)
from medjudge.text.grammar import Grammar, is_balanced, sentence_starts


def reordered(text: str, grammar: Grammar, draw: Random) -> str:
    """The parts in another order, as far as they do not depend on each other.

    List items change places within their list, numbered ones with their numbers. Sections under headings, or else
    paragraphs, change places. Only in a text without any of these, lines do, and in a single paragraph the sentences
    behind the first.
    """
    lines = lines_of(text)
    changed = _with_items_moved(text, lines, grammar, draw)
    if changed != text:
        lines = lines_of(changed)
    sections = _section_starts(lines)
    if len(sections) >= 2:
        return _moved(changed, sections, draw)
    blocks = block_starts(lines)
    changed = _moved(changed, blocks, draw, grammar, _block_tied)
    if changed != text or len(blocks) > 1 or any(line.fenced or in_series(line.text) for line in lines):
        return changed
    if "\n" in text.strip():
        starts = [line.start for line in lines if line.text[:1].strip()]
        return _moved(text, starts, draw, grammar, _line_tied)
    return _with_sentences_moved(text, grammar, draw)


def _moved(
    text: str,
    starts: Sequence[int],
    draw: Random,
    grammar: Grammar | None = None,
    tied: Callable[[str, str], bool] = lambda before, part: False,
    first_stays: bool = False,
) -> str:
    """Put the parts of a text that begin at `starts` into another order; the white space between them stays.

    Words of `grammar` keep a part where it is, and `tied` says if a part must stay behind the one before it because of
    their form. With `first_stays` the first part, with what depends on it, stays first.
    """
    pieces = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    parts = [piece.rstrip() for piece in pieces]
    groups: list[list[str]] = []
    for at, part in enumerate(parts):
        head = _first_sentence(part, grammar) if grammar else ""
        if grammar and grammar.sequence.search(head):
            return text
        depends = grammar and (grammar.refers_back.search(head) or grammar.goes_on.match(head))
        if groups and (depends or tied(parts[at - 1], part)):
            groups[-1].append(part)
        else:
            groups.append([part])
    fixed, free = (groups[:1], groups[1:]) if first_stays else ([], groups)
    if len(free) < 2:
        return text
    order = list(range(len(free)))
    while order == sorted(order):
        draw.shuffle(order)
    moved = [part for group in (*fixed, *(free[index] for index in order)) for part in group]
    gaps = [piece[len(part) :] for piece, part in zip(pieces, parts, strict=True)]
    return text[: starts[0]] + "".join(part + gap for part, gap in zip(moved, gaps, strict=True))


def _with_items_moved(text: str, lines: Sequence[Line], grammar: Grammar, draw: Random) -> str:
    if any(line.fenced for line in lines):
        return text
    result, done = [], 0
    for starts, end, numbered in _lists(lines):
        items, lead = text[starts[0] : end], text[: starts[0]].rstrip().rsplit("\n", 1)[-1]
        # Numbers go with their items and keep the order readable; bullets have only words for that.
        if not numbered and grammar.sequence.search(lead):
            continue
        moved = _moved(items, [start - starts[0] for start in starts], draw, None if numbered else grammar)
        result += [text[done : starts[0]], moved]
        done = end
    return "".join(result) + text[done:]


def _lists(lines: Sequence[Line]) -> Iterator[tuple[list[int], int, bool]]:
    """The lists whose items may change places: the starts of their items, their ends, and if they are numbered."""
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
    """True if the text behind a list may belong to its last item: its own list, or the rest of its sentence."""
    if following == len(lines):
        return False
    return in_series(lines[following].text) or (following == at and not TERMINAL.search(last.text.rstrip()))


def _item_kind(line: Line) -> tuple[int, bool] | None:
    """The indent of a list item, and whether it is numbered: the same for the items of one list."""
    mark = ITEM.match(line.text)
    return (len(mark["indent"]), mark["bullet"] is None) if mark else None


def _indent(line: Line) -> int:
    return len(line.text) - len(line.text.lstrip())


def _with_sentences_moved(text: str, grammar: Grammar, draw: Random) -> str:
    starts = sentence_starts(text, grammar)
    pieces = [text[start:end] for start, end in pairwise([*starts, len(text)])]
    gaps = {piece[len(piece.rstrip()) :] for piece in pieces[:-1]}
    if len(gaps) > 1 or not all(map(is_balanced, pieces)):
        return text
    return _moved(text, starts, draw, grammar, _line_tied, first_stays=True)


def _first_sentence(part: str, grammar: Grammar) -> str:
    item = ITEM.match(part)
    part = part[item.end() :] if item else part
    starts = sentence_starts(part, grammar)
    return part[: starts[1]] if len(starts) > 1 else part


def _section_starts(lines: Sequence[Line]) -> list[int]:
    """Starts of the headings of the highest rank that occurs twice; none where no rank does."""
    ranks = [0 if line.fenced else heading_rank(line.text) for line in lines]
    for rank in HEADING_RANKS:
        starts = [line.start for line, its_rank in zip(lines, ranks, strict=True) if its_rank == rank]
        if len(starts) >= 2:
            return starts
    return []


def _block_tied(before: str, block: str) -> bool:
    # A list with blank lines around it belongs to its lead, and what follows it may belong to its last item.
    return in_series(before) or in_series(block) or _line_tied(before, block)


def _line_tied(before: str, line: str) -> bool:
    # What does not end, such as a heading or a name under a letter, goes with its neighbours.
    return not is_complete(before) or not is_complete(line)
