"""The parts of all plots, and what becomes of them: SVG and PNG."""

import json
import re
import unicodedata
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO, StringIO
from textwrap import fill
from typing import Any, NamedTuple

import matplotlib
import numpy as np
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.text import Text
from matplotlib.ticker import PercentFormatter
from scipy.optimize import isotonic_regression

from medjudge.plot_style import ACCENT, INK, LINE, SOFT, STYLE

WIDTH = 5.4
"""Inches, of every plot of a study: two fit on a row of the page."""
_TITLE_LINE = 0.2
_PIECES = re.compile("（?(?:[\u2e80-\uffef]|[^\\s\u2e80-\uffef]+)\\s*|\\s+")
DASHED: Any = (0, (4, 3))
_NEVER_FIRST = "，。；：、）"
_CHINESE = ("Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "Microsoft YaHei", "WenQuanYi Micro Hei", "SimHei")


class Plot(NamedTuple):
    """A figure under the name of a file, what it shows in words for those who do not see it, and its numbers.

    `rows` are the numbers as a table: headings, then a row for each mark; none where the plot is a table of the page.
    """

    name: str
    figure: Figure
    alt: str
    rows: Sequence[Sequence[Any]] = ()


def label(text: str, most: int) -> str:
    """A name as one line of at most so many columns; a wide character takes two."""
    # Line breaks and control characters: XML knows most of them not at all.
    shown = " ".join("".join(" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in text).split())
    width = 0
    for position, sign in enumerate(shown):
        width += columns(sign)
        if width > most:
            return shown[: position - 1].rstrip() + "…"
    return shown


def columns(text: str) -> int:
    """The columns that a text takes; a wide character takes two."""
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def wrapped(text: str, most: int) -> str:
    """A text in lines of at most so many columns; between wide characters a line may end anywhere."""
    if columns(text) == len(text):
        return fill(text, most)
    lines = [""]
    for piece in _PIECES.findall(text):
        if columns(lines[-1] + piece.rstrip()) > most and piece not in _NEVER_FIRST:
            lines.append("")
        lines[-1] += piece if lines[-1] else piece.lstrip()
    return "\n".join(line.rstrip() for line in lines)


def spread(positions: Sequence[float], gap: float, low: float, high: float) -> list[float]:
    """Moves positions as little as possible, to distances of at least `gap` and inside low..high where there is room.

    Args:
        positions: The wanted positions of labels, in any order.

    Returns:
        Positions in the same order, which keep their order along the line.
    """
    if not positions:
        return []
    order = np.argsort(positions, kind="stable")
    gap = min(gap, (high - low) / max(1, len(positions) - 1))
    # Less the gaps below it, no label may lie below the one before it.
    below = gap * np.arange(len(positions))
    fitted = isotonic_regression(np.array(positions)[order] - below).x
    moved = np.empty(len(positions))
    moved[order] = np.clip(fitted, low, high - below[-1]) + below
    return list(map(float, moved))


def drawn(title: str, height: float, draw: Callable[[Figure], None], width: float = WIDTH) -> Figure:
    """A figure with room for its title above; `height` is that of the rest, in inches, as `width` is."""
    with _style():
        lines = wrapped(title, int(62 * width / WIDTH))
        figure = Figure(figsize=(width, height + 0.22 + _TITLE_LINE * (lines.count("\n") + 1)))
        figure.text(0, 1, lines, ha="left", va="top", fontsize=10, fontweight="bold", linespacing=1.35)
        draw(figure)
        return figure


def as_svg(figure: Figure) -> str:
    """An SVG text that needs nothing else; the same figure gives the same bytes."""
    text = StringIO()
    with _style():
        # Without date, version and address.
        figure.savefig(text, format="svg", metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")))
    return text.getvalue()


def in_page(plot: Plot) -> dict[str, str]:
    """A plot as templates show it: its SVG text as an address, so that a page holds the image itself."""
    src = f"data:image/svg+xml;base64,{b64encode(as_svg(plot.figure).encode()).decode()}"
    return {"name": plot.name, "alt": plot.alt, "src": src, "numbers": json.dumps(plot.rows, ensure_ascii=False)}


def as_png(figure: Figure) -> bytes | None:
    """A PNG image of 200 dots an inch; None where it has Chinese text and no font of this machine does."""
    if not _wide_fonts() and any(columns(text.get_text()) > len(text.get_text()) for text in figure.findobj(Text)):
        return None
    data = BytesIO()
    with _style():
        figure.savefig(data, format="png", dpi=200, metadata={"Software": None})
    return data.getvalue()


@contextmanager
def _style() -> Iterator[None]:
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # whatever the user's own matplotlibrc says
        # What one font lacks is taken from the next family; a generic family is one font only.
        matplotlib.rcParams.update({**STYLE, "font.family": [STYLE["font.family"], *_wide_fonts()]})
        # Of other scripts: the reader's fonts have what DejaVu lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


@cache
def _wide_fonts() -> tuple[str, ...]:
    """The fonts of this machine that have Chinese characters."""
    installed = set(font_manager.get_font_names())
    return tuple(name for name in _CHINESE if name in installed)


def axes_at(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place in inches from the lower left corner."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def in_percent(axes: Axes, which: str) -> None:
    """Shares as percentages along the axes named, such as `xy`."""
    for axis in which:
        getattr(axes, f"{axis}axis").set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        axes.locator_params(axis="x" if axis == "x" else "y", nbins=6)


def shaded_cell(axes: Axes, place: tuple[int, int], share: float, text: str, edge: str, gap: float = 0) -> None:
    """A cell of a heat map, in a column and a row, the darker the larger its share (0 to 1)."""
    column, row = place
    face = [1 - share * (1 - part) for part in to_rgb(ACCENT)]
    size = 1 - 2 * gap
    axes.add_patch(Rectangle((column + gap, row + gap), size, size, facecolor=face, edgecolor=edge))
    colour = "white" if share > 0.5 else INK if share else SOFT
    axes.text(column + 0.5, row + 0.5, text, ha="center", va="center", color=colour, fontsize=8.5)


def heat_map(axes: Axes, rows: int, columns: int) -> None:
    """Axes of shaded cells: the first row on top, no frame and no ticks."""
    axes.set_xlim(0, columns)
    axes.set_ylim(rows, 0)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def name_points(axes: Axes, points: Sequence[tuple[float, float, str]], inches: float) -> None:
    """Names in a column right of axes this high, each with a fine line from its point: none covers another."""
    low, high = axes.get_ylim()
    label_ys = spread([y for _, y, _ in points], 0.16 / inches * (high - low), low, high)
    right = axes.get_yaxis_transform()
    edge = axes.get_xlim()[1]
    for (x, y, text), label_y in zip(points, label_ys, strict=True):
        axes.plot([x, edge], [y, label_y], color=LINE, linewidth=0.7, zorder=0)
        axes.text(1.02, label_y, text, transform=right, va="center", fontsize=8.5)


def key(figure: Figure, *entries: tuple[str, str, str] | None) -> None:
    """The meaning of the marks, in a row at the foot; a circle with a space is hollow, as the diamond is."""
    axes = axes_at(figure, left=0, bottom=0, width=WIDTH, height=0.3)
    axes.axis("off")
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(0, 1)
    left = 0.12
    for mark, colour, text in filter(None, entries):
        if mark in "|-":
            ends = ([left, left], [0.15, 0.85]) if mark == "|" else ([left - 0.08, left + 0.08], [0.5, 0.5])
            axes.plot(*ends, color=colour, linewidth=1, linestyle=DASHED)
        else:
            face = colour if mark == "o" else "none"
            axes.plot(left, 0.5, mark.strip(), color=colour, markersize=6, markerfacecolor=face)
        axes.text(left + 0.14, 0.5, text, va="center", fontsize=8.5, color=SOFT)
        left += 0.45 + 0.07 * columns(text)
