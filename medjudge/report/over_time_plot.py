"""The plot of rates over time: a panel per model, a point with its interval per run."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from medjudge.plot_style import ACCENT, INK, SOFT
from medjudge.report.drawing import axes_at, drawn, label
from medjudge.report.over_time import ModelHistory, Point
from medjudge.report.plots import Plot

_ACROSS = 3
_WIDTH, _HEIGHT = 2.2, 1.3
"""Inches of a panel."""
_LEFT, _GAP, _BELOW = 0.45, 0.3, 0.75
_TICKS = 6
"""Runs that are named below a panel."""


def over_time_plot(histories: Sequence[ModelHistory]) -> Plot:
    """Rates over time; the title says which of the last changes are more than chance."""
    title = _title(histories)
    across, down = min(_ACROSS, len(histories)), -(-len(histories) // _ACROSS)
    row = _HEIGHT + _BELOW + 0.2

    def draw(figure: Figure) -> None:
        for index, history in enumerate(histories):
            left = _LEFT + index % _ACROSS * (_WIDTH + _GAP)
            bottom = _BELOW + (down - 1 - index // _ACROSS) * row
            axes = axes_at(figure, left=left, bottom=bottom, width=_WIDTH, height=_HEIGHT)
            _panel(axes, history)

    figure = drawn(title, down * row, draw, _LEFT + across * (_WIDTH + _GAP))
    alt = f"{title}. Usability rates by run, with 95 % intervals; the tables hold the numbers."
    return Plot("over-time", figure, alt)


def _panel(axes: Axes, history: ModelHistory) -> None:
    points = history.points
    shown = {place: point.rate for place, point in enumerate(points) if point.rate.rate is not None}
    axes.plot(list(shown), [rate.rate or 0 for rate in shown.values()], color=ACCENT, linewidth=1, alpha=0.5)
    for place, rate in shown.items():
        axes.plot([place, place], [rate.low or 0, rate.high or 0], color=ACCENT, linewidth=2)
        axes.plot(place, rate.rate or 0, "o", color=ACCENT, markersize=5)
    step = -(-len(points) // _TICKS)
    ticks = range((len(points) - 1) % step, len(points), step)  # the last run is always named
    axes.set_xticks(list(ticks), [_run(points[place]) for place in ticks], rotation=40, ha="right", fontsize=7.5)
    axes.set_xlim(-0.5, len(points) - 0.5)
    axes.set_ylim(0, 100)
    axes.set_yticks([0, 50, 100])
    axes.grid(axis="y", color=SOFT, alpha=0.25, linewidth=0.5)
    axes.tick_params(axis="x", length=0)
    axes.set_title(f"{label(history.model, 26)}, %", loc="left", fontsize=9, color=INK)


def _run(point: Point) -> str:
    return label(point.run, 14)


def _title(histories: Sequence[ModelHistory]) -> str:
    moved = [
        f"{label(history.model, 24)} {'rose' if step.change.difference.value > 0 else 'fell'} by "
        f"{abs(step.change.difference.value):.1f} points"
        for history in histories
        if (step := history.last_step) is not None and not step.change.difference.tie
    ]
    if not moved:
        return "Usability rates over time: no model's last change is more than chance"
    more = f", and {len(moved) - 2} more changed" if len(moved) > 2 else ""
    return f"Since the previous run, {' and '.join(moved[:2])}{more}"
