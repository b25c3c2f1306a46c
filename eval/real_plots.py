"""The two plots of part 4: errors of the models' rates, and of their order, by how many answers people scored."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from medjudge.plot_style import ACCENT, INK, SOFT
from medjudge.report.drawing import as_svg, axes_at, drawn, spread

WAYS = {
    "people alone": (INK, "--"),
    "judge alone": (SOFT, "-"),
    "prediction-powered": (ACCENT, "-"),
    "judge, 20% to people": ("#b3541e", "-"),
}
"""What is drawn, each with its colour and line."""
_WIDTH, _HEIGHT, _LEFT, _BELOW, _RIGHT = 3.6, 2.4, 0.5, 0.5, 1.4


def write_plots(few: Mapping[str, Any], folder: Path) -> list[str]:
    """Writes `few-scores-rates.svg` and `few-scores-order.svg`; returns the names of the files."""
    shown = {
        "few-scores-rates.svg": ("mean_error", "Error of the models' usability rates, in points"),
        "few-scores-order.svg": ("order_spearman", "Spearman's correlation of the models' order"),
    }
    folder.mkdir(parents=True, exist_ok=True)
    for name, (measure, title) in shown.items():
        (folder / name).write_text(as_svg(_figure(few, measure, title)), encoding="utf-8")
    return list(shown)


def _figure(few: Mapping[str, Any], measure: str, title: str) -> Figure:
    def draw(figure: Figure) -> None:
        axes = axes_at(figure, left=_LEFT, bottom=_BELOW, width=_WIDTH, height=_HEIGHT)
        _lines(axes, few, measure)

    return drawn(f"{title}, by scores of people", _HEIGHT + _BELOW + 0.1, draw, _LEFT + _WIDTH + _RIGHT)


def _lines(axes: Axes, few: Mapping[str, Any], measure: str) -> None:
    counts = [int(name) for name in few if name.isdigit()]
    ends = {}
    for way, (colour, style) in WAYS.items():
        values = [few[str(count)][way][measure] for count in counts]
        axes.plot(counts, values, style, color=colour, linewidth=1.6, marker="o", markersize=3.5)
        ends[way] = values[-1]
    teacher = few["gpt-4"][measure]
    axes.axhline(teacher, color=SOFT, linewidth=0.8, linestyle=":")
    ends["GPT-4 for all"] = teacher
    axes.set_xscale("log")
    axes.set_xticks(counts, [f"{count:,}" for count in counts])
    axes.minorticks_off()
    axes.set_ylim(bottom=0 if measure == "mean_error" else None)
    low, high = axes.get_ylim()
    places = spread(list(ends.values()), (high - low) * 0.075, low, high)
    for (way, _), place in zip(ends.items(), places, strict=True):
        colour = WAYS.get(way, (SOFT, ""))[0]
        axes.text(counts[-1] * 1.25, place, way, color=colour, fontsize=8, va="center")
