"""How all plots are drawn, and what becomes of them: SVG and PNG."""

import re
import unicodedata
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from io import BytesIO, StringIO
from textwrap import fill

import matplotlib
from matplotlib import font_manager
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Text
from matplotlib.ticker import PercentFormatter

from medjudge.plot_style import STYLE

WIDTH = 5.4
"""Inches, of every plot of a study: two stand side by side on the page."""
_TITLE_LINE = 0.2
_PIECES = re.compile("（?(?:[\u2e80-\uffef]|[^\\s\u2e80-\uffef]+)\\s*|\\s+")
_NEVER_FIRST = "，。；：、）"
_CHINESE = ("Noto Sans CJK SC", "Noto Sans CJK JP", "PingFang SC", "Microsoft YaHei", "WenQuanYi Micro Hei", "SimHei")


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
    """How many columns a text takes; a wide character takes two."""
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
    """Moves positions at least `gap` apart, as little as possible, and inside low..high where there is room.

    Args:
        positions: The wanted positions of labels, in any order.

    Returns:
        Positions in the same order, which keep their order along the line.
    """
    order = sorted(range(len(positions)), key=positions.__getitem__)
    gap = min(gap, (high - low) / max(1, len(positions) - 1))
    # Less the gaps below it, no label may lie below the one before it: a monotone fit, pooled where it breaks.
    pools: list[list[float]] = []
    for rank, label_index in enumerate(order):
        pools.append([positions[label_index] - rank * gap])
        while len(pools) > 1 and _mean(pools[-2]) > _mean(pools[-1]):
            last = pools.pop()
            pools[-1] += last
    most = high - gap * (len(positions) - 1)
    fitted = [min(max(_mean(pool), low), most) for pool in pools for _ in pool]
    moved = [0.0] * len(positions)
    for rank, label_index in enumerate(order):
        moved[label_index] = fitted[rank] + rank * gap
    return moved


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


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


def as_address(figure: Figure) -> str:
    """The SVG text as an address, so that a page holds the image itself."""
    return f"data:image/svg+xml;base64,{b64encode(as_svg(figure).encode()).decode()}"


def as_png(figure: Figure) -> bytes | None:
    """A PNG image of 200 dots an inch; None where it has Chinese text and no font of this machine does."""
    if not _wide_fonts() and any(columns(text.get_text()) > len(text.get_text()) for text in figure.findobj(Text)):
        return None
    data = BytesIO()
    with _style(), _families(figure, [*figure.findobj(Text)[0].get_fontfamily(), *_wide_fonts()]):
        figure.savefig(data, format="png", dpi=200, metadata={"Software": None})
    return data.getvalue()


@contextmanager
def _style() -> Iterator[None]:
    with matplotlib.rc_context(), warnings.catch_warnings():
        matplotlib.rcdefaults()  # whatever the user's own matplotlibrc says
        matplotlib.rcParams.update(STYLE)
        # Of other scripts: the reader's fonts have what DejaVu lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


@contextmanager
def _families(figure: Figure, names: list[str]) -> Iterator[None]:
    """For a while all texts of a figure take from the next font what one lacks; a generic family is one font only."""
    texts = figure.findobj(Text)
    before = [text.get_fontfamily() for text in texts]
    for text in texts:
        text.set_fontfamily(names)
    yield
    for text, family in zip(texts, before, strict=True):
        text.set_fontfamily(family)


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
