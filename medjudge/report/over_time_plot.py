"""The plot of rates over time: a panel per model, a point with its interval per run."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from medjudge.plot_style import ACCENT, INK, SOFT
from medjudge.report.drawing import axes_at, drawn, label
from medjudge.report.over_time import ModelHistory, Point
from medjudge.report.plots import Plot
from medjudge.report.words import Words

_ACROSS = 3
_WIDTH, _HEIGHT = 2.2, 1.3
"""Inches of a panel."""
_LEFT, _GAP, _BELOW = 0.45, 0.3, 0.75
_TICKS = 6
"""Runs that are named below a panel."""


def over_time_plot(histories: Sequence[ModelHistory], words: Words) -> Plot:
    """Rates over time; the title says which of the last changes are more than chance."""
    title = _title(histories, words)
    across, down = min(_ACROSS, len(histories)), -(-len(histories) // _ACROSS)
    row = _HEIGHT + _BELOW + 0.2

    def draw(figure: Figure) -> None:
        for index, history in enumerate(histories):
            left = _LEFT + index % _ACROSS * (_WIDTH + _GAP)
            bottom = _BELOW + (down - 1 - index // _ACROSS) * row
            axes = axes_at(figure, left=left, bottom=bottom, width=_WIDTH, height=_HEIGHT)
            _panel(axes, history)

    figure = drawn(title, down * row, draw, _LEFT + across * (_WIDTH + _GAP))
    alt = words.plain("{title}. Usability rates by run, with 95 % intervals", title=title)
    in_words = words.plain("{alt}; the tables hold the numbers.", alt=alt)
    heading = [words.plain(name) for name in ("Model", "Run", "Date (UTC)", "OP, %", "low", "high")]
    rows = [
        [history.model, point.run, point.date.isoformat(), point.rate.rate, point.rate.low, point.rate.high]
        for history in histories
        for point in history.points
    ]
    return Plot("over-time", figure, in_words, [heading, *rows])


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


def _title(histories: Sequence[ModelHistory], words: Words) -> str:
    moved = []
    for history in histories:
        step = history.last_step
        if step is None or step.change.difference.tie:
            continue
        points, model = step.change.difference.value, label(history.model, 24)
        values = {"model": model, "points": f"{abs(points):.1f}"}
        if points > 0:
            moved.append(words.plain("{model} rose by {points} points", **values))
        else:
            moved.append(words.plain("{model} fell by {points} points", **values))
    if not moved:
        return words.plain("Usability rates over time: no model's last change is more than chance")
    named = words.plain("{one} and {other}", one=moved[0], other=moved[1]) if len(moved) > 1 else moved[0]
    if len(moved) > 2:
        return words.plain("Since the previous run, {named}, and {n} more changed", named=named, n=len(moved) - 2)
    return words.plain("Since the previous run, {named}", named=named)
