"""The lines that a text takes in a column, and the parts into which a long one is cut."""

import unicodedata
from collections.abc import Iterator

MOST_LINES = 24
"""The most lines of a row: well below the 409 points at which Excel cuts a row off."""


def parts_of(text: str, width: int) -> list[str]:
    """Cuts a text into parts of at most `MOST_LINES` lines, at line ends or spaces where possible.

    Args:
        width: Characters per line.
    """
    parts, part, left = [], "", MOST_LINES
    for piece in _pieces(text, width):
        needed = lines_in(piece, width)
        if needed > left and part:
            parts.append(part)
            part, left = "", MOST_LINES
        part += piece
        left -= needed
    return [*parts, part]


def _pieces(text: str, width: int) -> Iterator[str]:
    """The lines of a text; one that does not fit into a part is cut at a space, or where the part is full."""
    room = MOST_LINES * _usable(width)
    for line in text.splitlines(keepends=True):
        start = 0
        # A character is at most two wide, so what is left after `start` need not be measured to its end each time.
        while lines_in(line[start : start + 2 * room], width) > MOST_LINES:
            end = _end_of_part(line, start, room)
            space = line.rfind(" ", max(start, end - 40), end)
            end = space + 1 if space >= 0 else end
            yield line[start:end]
            start = end
        yield line[start:]


def _end_of_part(line: str, start: int, room: int) -> int:
    """The end of `room` columns from `start` on."""
    end = start
    while room > 0:
        room -= _advance(line[end])
        end += 1
    return end - (room < 0)


def lines_in(text: str, width: int) -> int:
    """About how many lines a text takes in a column of `width` characters."""
    return sum(
        max(1, -(-sum(map(_advance, line)) // _usable(width))) for line in text.rstrip("\n").splitlines() or [""]
    )


def _usable(width: int) -> int:
    """Characters per line that are used: unbroken words leave a tenth of it empty."""
    return width * 9 // 10


def _advance(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1
