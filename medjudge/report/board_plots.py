"""Plots of usability rates: of a leaderboard and of its subcategories."""

from collections.abc import Iterable

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from medjudge.plot_style import ACCENT, INK, LINE, SOFT
from medjudge.report.boards import Board
from medjudge.report.drawing import WIDTH, Plot, axes_at, columns, drawn, heat_map, label, shaded_cell
from medjudge.report.words import Words
from medjudge.validation.status import ValidationState

_ROW = 0.22
"""Inches a model or a subcategory takes."""
_NAMES = 24
"""Columns of text that a name may take."""
_LETTER = 0.08
"""Inches a column of text takes."""


def board_plots(board: Board, words: Words) -> list[Plot]:
    """The plots of a leaderboard, and none where it has no model."""
    if not board.models:
        return []
    return [rates_plot(board, words), *([subcategories_plot(board, words)] if board.subcategories else [])]


def rates_plot(board: Board, words: Words) -> Plot:
    """Rates overall and by category, a panel each, the best model on top; lines are 95 % intervals."""
    parts = [name for name in board.validation_status if all(name in rates.parts for rates in board.models.values())]
    high, width, names = _ROW * len(board.models), 1.55, 0.2 + _LETTER * _longest(board.models)
    rows = -(-len(parts) // 3)

    def draw(figure: Figure) -> None:
        for index, part in enumerate(parts):
            across, down = index % 3, index // 3
            left, bottom = names + across * (width + 0.25), 0.3 + (rows - 1 - down) * (high + 0.6)
            axes = axes_at(figure, left=left, bottom=bottom, width=width, height=high)
            _bars(axes, board, part, across == 0, words)
            axes.set_title(f"{part}, %", loc="left", fontsize=9, color=INK)

    title = _rates_title(board, words)
    return Plot("rates", drawn(title, rows * (high + 0.6), draw, names + 3 * (width + 0.25)), title)


def _longest(names: Iterable[str]) -> int:
    return max(columns(label(name, _NAMES)) for name in names)


def _bars(axes: Axes, board: Board, part: str, with_names: bool, words: Words) -> None:
    cells = [rates.parts[part] for rates in board.models.values()]
    rows = range(len(cells))
    validated = board.validation_status["OP"].state == ValidationState.VALIDATED
    axes.barh(rows, [cell.rate or 0 for cell in cells], color=ACCENT if validated else SOFT, alpha=0.55, height=0.6)
    for row, cell in enumerate(cells):
        if cell.low is not None and cell.high is not None:
            axes.plot([cell.low, cell.high], [row, row], color=INK, linewidth=1)
        else:
            axes.text(1, row, words.plain("no score"), va="center", fontsize=7.5, color=SOFT)
    axes.set_yticks(rows, [label(name, _NAMES) for name in board.models] if with_names else [], color=INK)
    axes.set_ylim(len(cells) - 0.4, -0.6)
    axes.set_xlim(0, 100)
    axes.set_xticks([0, 50, 100], ["0", "50", "100"])
    axes.tick_params(axis="y", length=0)
    axes.spines["left"].set_visible(False)


def _rates_title(board: Board, words: Words) -> str:
    first = next(iter(board.models))
    tied = [name for name, difference in board.ties.items() if difference.tie and name != first]
    rate = board.models[first].overall.rate
    others = len(board.models) - 1
    judge = {"judge": label(board.judge, 28), "state": words.plain(board.validation_status["OP"].state.value)}
    if rate is None:
        return words.plain("Judge {judge} ({state}) scored no answer", **judge)
    highest = {**judge, "model": label(first, _NAMES), "rate": f"{rate:.1f}"}
    title = words.plain("By judge {judge} ({state}), {model} has the highest usability rate, {rate} %", **highest)
    if not others:
        return title
    if not tied:
        return words.plain("{title}; all others shown to be worse", title=title)
    return words.plain(
        "{title}; {tied} of {others} others not shown to be worse", title=title, tied=len(tied), others=others
    )


def subcategories_plot(board: Board, words: Words) -> Plot:
    """Rates by subcategory (rows) and model (columns), in percent."""
    models, rows = list(board.models), board.subcategories
    left, cell, head = 2.4, 0.42, 0.3 + 0.85 * _LETTER * _longest(models)
    high = _ROW * len(rows)
    width = max(WIDTH, left + cell * len(models) + 0.5)

    def draw(figure: Figure) -> None:
        axes = axes_at(figure, left=left, bottom=0.1, width=cell * len(models), height=high)
        for row, (category, name) in enumerate(rows):
            for column, model in enumerate(models):
                rate = board.models[model].subcategories[category][name].rate
                text, share = "–" if rate is None else f"{rate:.0f}", 0.75 * (rate or 0) / 100
                shaded_cell(axes, (column, row), share, text, "white" if share else LINE)
        axes.set_yticks([row + 0.5 for row in range(len(rows))], [label(f"{a} · {b}", 32) for a, b in rows], color=INK)
        axes.set_xticks([column + 0.5 for column in range(len(models))])
        axes.set_xticklabels([label(name, _NAMES) for name in models], rotation=60, ha="left", color=INK)
        axes.xaxis.tick_top()
        heat_map(axes, len(rows), len(models))

    judge = label(board.judge, 28)
    title = words.plain("Usability rates by subcategory, percent of questions, by judge {judge}", judge=judge)
    return Plot("subcategories", drawn(title, high + head + 0.1, draw, width), title)
