"""Names beside points, and the key at the foot of a plot."""

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from medjudge.plot_style import LINE, SOFT
from medjudge.report.drawing import WIDTH, axes_at, columns, spread


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
    """What the marks mean, in a row at the foot; a circle with a space is hollow, as the diamond is."""
    axes = axes_at(figure, left=0, bottom=0, width=WIDTH, height=0.3)
    axes.axis("off")
    axes.set_xlim(0, WIDTH)
    axes.set_ylim(0, 1)
    for left, (mark, colour, text) in _placed(entries):
        if mark in "|-":
            ends = ([left, left], [0.15, 0.85]) if mark == "|" else ([left - 0.08, left + 0.08], [0.5, 0.5])
            axes.plot(*ends, color=colour, linewidth=1, linestyle=(0, (4, 3)))
        else:
            face = colour if mark == "o" else "none"
            axes.plot(left, 0.5, mark.strip(), color=colour, markersize=6, markerfacecolor=face)
        axes.text(left + 0.14, 0.5, text, va="center", fontsize=8.5, color=SOFT)


def _placed(entries: Sequence[tuple[str, str, str] | None]) -> Iterator[tuple[float, tuple[str, str, str]]]:
    left = 0.12
    for entry in entries:
        if entry is not None:
            yield left, entry
            left += 0.45 + 0.07 * columns(entry[2])
