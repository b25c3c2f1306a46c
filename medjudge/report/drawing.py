"""The parts of all plots, and their SVG."""

import re
import unicodedata
import warnings
from base64 import b64encode
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import StringIO
from typing import Any, NamedTuple

import matplotlib.style
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter
from rich.cells import cell_len
from rich.text import Text

INK, SOFT, LINE, ACCENT = "#1b2530", "#5b6875", "#d9dfe5", "#1f7a5c"
_STYLE: Any = {  # Any, because matplotlib 3.11 types the name of every setting
    # Text stays text, so that the reader's fonts draw the names of models in any script. DejaVu comes with matplotlib:
    # what is measured is the same everywhere.
    "svg.fonttype": "none",
    "svg.hashsalt": "medjudge",
    "font.family": "sans-serif",
    "font.sans-serif": ["DejaVu Sans", "Noto Sans", "Arial", "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei"],
    "font.size": 9,
    # A name with two dollar signs is no formula.
    "text.parse_math": False,
    "text.color": INK,
    "axes.labelcolor": SOFT,
    "axes.edgecolor": LINE,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "xtick.color": LINE,
    "ytick.color": LINE,
    "xtick.labelcolor": SOFT,
    "ytick.labelcolor": SOFT,
}
_WIDTH = 5.4
"""Inches: two plots fit on a row of the page."""
_TITLE_LINE = 0.2
_PIECES = re.compile("（?(?:[\u2e80-\uffef]|[^\\s\u2e80-\uffef]+)\\s*|\\s+")
DASHED: Any = (0, (4, 3))
_NEVER_FIRST = "，。；：、）"


class Plot(NamedTuple):
    """A figure under the name of a file, and what it shows in words for those who do not see it."""

    name: str
    figure: Figure
    alt: str


def label(text: str, most: int) -> str:
    """A name as one line of at most so many columns; a wide character takes two."""
    # Line breaks and control characters: XML knows most of them not at all.
    shown = Text(" ".join("".join(" " if unicodedata.category(sign)[0] in "CZ" else sign for sign in text).split()))
    shown.truncate(most, overflow="ellipsis")
    return shown.plain


def wrapped(text: str, most: int) -> str:
    """A text in lines of at most so many columns; between wide characters a line may end anywhere."""
    lines = [""]
    for piece in _PIECES.findall(text):
        if cell_len(lines[-1] + piece.rstrip()) > most and piece not in _NEVER_FIRST:
            lines.append("")
        lines[-1] += piece if lines[-1] else piece.lstrip()
    return "\n".join(line.rstrip() for line in lines)


def drawn(title: str, height: float, draw: Callable[[Figure], None]) -> Figure:
    """A figure with room for its title above; `height` is that of the rest, in inches."""
    with _style():
        lines = wrapped(title, 62)
        figure = Figure(figsize=(_WIDTH, height + 0.22 + _TITLE_LINE * (lines.count("\n") + 1)))
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
    return {"name": plot.name, "alt": plot.alt, "src": src}


@contextmanager
def _style() -> Iterator[None]:
    # Whatever the user's own matplotlibrc says.
    with matplotlib.style.context(_STYLE, after_reset=True), warnings.catch_warnings():
        # The reader's fonts have what DejaVu lacks.
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def axes_at(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Axes at a place in inches from the lower left corner."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def in_percent(axes: Axes, which: str) -> None:
    """Shares as percentages along the axes named, such as `xy`."""
    for axis in which:
        getattr(axes, f"{axis}axis").set_major_formatter(PercentFormatter(1, decimals=0, symbol=" %"))
        axes.locator_params(axis="x" if axis == "x" else "y", nbins=6)
