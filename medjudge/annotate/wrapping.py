"""The lines that a text takes in a column, and the parts into which a long one is cut."""

import re

from rich.cells import cell_len

MOST_LINES = 24
"""The most lines of a row: well below the 409 points at which Excel cuts a row off."""


def parts_of(text: str, width: int) -> list[str]:
    """Cuts a text into parts of at most `MOST_LINES` lines, at line ends or spaces where possible.

    Args:
        width: Characters per line.
    """
    parts, part, left = [], "", MOST_LINES
    for line in text.splitlines(keepends=True):
        most = MOST_LINES * _usable(width) // (1 if line.isascii() else 2)  # a character is at most two wide
        # A line that does not fit into a part is cut at a space near the end of the part, or where the part is full.
        for piece in re.findall(rf"(?s).{{1,{most}}}\Z|.{{{most - 40},{most - 1}}} |.{{{most}}}", line):
            needed = lines_in(piece, width)
            if needed > left and part:
                parts.append(part)
                part, left = "", MOST_LINES
            part += piece
            left -= needed
    return [*parts, part]


def lines_in(text: str, width: int) -> int:
    """About how many lines a text takes in a column of `width` characters."""
    lines = text.rstrip("\n").splitlines() or [""]
    return sum(max(1, -(-cell_len(line) // _usable(width))) for line in lines)


def _usable(width: int) -> int:
    """Characters per line that are used: unbroken words leave a tenth of it empty."""
    return width * 9 // 10
