"""The output of commands: tables for people on stdout, or one JSON object there and everything else on stderr."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderableType, RenderHook
from rich.segment import Segment
from rich.table import Table

from medjudge.errors import printable

if TYPE_CHECKING:
    from medjudge.statistics.estimates import Estimate
    from medjudge.validation.records import Study
    from medjudge.validation.status import ValidationStatus
    from medjudge.validation.usability import ModelUsability, Rate

_SHORT = {
    "validated": "yes",
    "passed a custom gate": "custom",
    "failed": "failed",
    "inconclusive": "inconcl.",
    "stale": "stale",
    "never validated": "never",
}


def console(as_json: bool, result: Any = None) -> Console:
    """The screen that tables and lines go to; with `as_json`, the result is printed first as the one JSON object."""
    if as_json and result is not None:
        print_json(result)
    file = sys.stderr if as_json else sys.stdout
    # A file or a pipe has no width; rich would take 80 columns and cut the names of models.
    width = None if file.isatty() else 240
    screen = Console(file=file, width=width, soft_wrap=True, highlight=False, markup=False)
    screen.push_render_hook(_EverythingPrintable())
    return screen


class _EverythingPrintable(RenderHook):
    """Keeps control characters of files, such as those in a model's name, from the terminal; styles are added later."""

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Printable(renderable) for renderable in renderables]


class _Printable:
    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Segment]:
        for segment in console.render(self._renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def print_json(value: Any) -> None:
    """The one object of `--json`."""
    print(printable(json.dumps(value, ensure_ascii=False, indent=2, allow_nan=False)))


def counted(number: int, noun: str) -> str:
    """`1 row`, `2 rows`."""
    return f"{number} {noun}{'' if number == 1 else 's'}"


def bare_table(title: str | None = None) -> Table:
    """A table without lines and, as yet, without columns."""
    return Table(
        title=title, title_justify="left", box=None, pad_edge=False, header_style="bold", collapse_padding=True
    )


def plain_table(first: str, columns: Iterable[str], title: str | None = None, width: int | None = None) -> Table:
    """A table without lines: names on the left, folded at a width where one is given, and numbers on the right."""
    table = bare_table(title)
    table.add_column(first, no_wrap=width is None, overflow="fold" if width else "ellipsis", max_width=width)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
    return table


def span(estimate: "Estimate") -> str:
    """A value with its interval: `0.72 (0.66–0.78)`; a dash where it is undefined."""
    return _formatted(estimate, 1, "{:.2f}")


def percent(estimate: "Estimate") -> str:
    """A share with its interval: `72.0 % (66–78)`."""
    return _formatted(estimate, 100, "{:.1f} %", "{:.0f}")


def points(estimate: "Estimate") -> str:
    """A difference of shares with its interval: `-1.2 points (-3.4 to 1.0)`."""
    return _formatted(estimate, 100, "{:+.1f} points", "{:+.1f}", " to ")


def leaderboard_table(
    models: Mapping[str, "ModelUsability"],
    title: str,
    status: Mapping[str, "ValidationStatus"] | None,
    columns: Sequence[str] = (),
) -> Table:
    """Usability rates with their intervals; after OP the shares of answers at level 1, and at level 1 or 2.

    Args:
        models: Rates by model.
        status: The judge's validation status, overall and by category: a row of its own.
        columns: `OP` and the categories; those of the validation status unless given.
    """
    columns = columns or list(status or {})
    table = bare_table(title)
    table.add_column("Model", overflow="fold", max_width=28)
    for column in columns:
        table.add_column(column, justify="right", no_wrap=True)
        if column == "OP":
            table.add_column("level 1", justify="right", no_wrap=True)
            table.add_column("level\n1 or 2", justify="right", no_wrap=True)
    table.add_column("unscored", justify="right")
    with_gaps = any(rates.overall.not_answered for rates in models.values())
    if with_gaps:
        table.add_column("not\nanswered", justify="right")
    for model, rates in models.items():
        cells = [_rate(rates.parts.get(column)) for column in columns]
        if "OP" in columns:
            lowest = [rates.lowest[level] for level in (1, 2)]
            cells[1:1] = [_cell(each.share, each.low, each.high) for each in lowest]
        gaps = [str(rates.overall.not_answered)] if with_gaps else []
        table.add_row(model, *cells, str(rates.overall.unscored), *gaps)
    if status is not None:
        judged = {name for rates in models.values() for name in rates.parts}
        states = [_SHORT[status[name].state] if name in judged else "" for name in columns]
        table.add_row("judge validated", states[0], "", "", *states[1:])
    return table


def subcategory_tables(models: Mapping[str, "ModelUsability"]) -> list[Table]:
    """A table per category: subcategories by row, models by column, at most five so that names stay whole."""
    names = list(models)
    tables = []
    for category in dict.fromkeys(name for rates in models.values() for name in rates.subcategories):
        for start in range(0, len(names), 5):
            rates_by_model = {name: models[name].subcategories.get(category, {}) for name in names[start : start + 5]}
            if any(rates_by_model.values()):
                tables.append(_subcategories(category, rates_by_model))
    return tables


def _subcategories(category: str, rates: Mapping[str, Mapping[str, "Rate"]]) -> Table:
    table = bare_table(f"\n{category}")
    table.add_column("Subcategory", overflow="fold", min_width=12)
    table.add_column("questions", justify="right")
    for model in rates:
        table.add_column(model, justify="right", overflow="fold")
    for name in sorted({name for cells in rates.values() for name in cells}):
        cells = [by_subcategory.get(name) for by_subcategory in rates.values()]
        questions = next(cell.questions for cell in cells if cell is not None)
        table.add_row(name, str(questions), *[_rate(cell).split("\n")[0] for cell in cells])
    return table


def agreement_table(studies: Sequence["Study"], title: str) -> Table:
    """Agreement with intervals, a row per judge."""
    table = bare_table(title)
    table.add_column("", no_wrap=True, min_width=10)
    for column in ("n", "usable\nagreement", "Cohen's\nkappa", "quadratic\nkappa", "Spearman", "MAE", "bias"):
        table.add_column(column, justify="right", no_wrap=True)
    for study in studies:
        measures = ("usable_agreement", "cohen_kappa", "quadratic_kappa", "spearman", "mae", "bias")
        estimates = [study.overall[measure] for measure in measures]
        cells = [_cell(each["value"], each["low"], each["high"], ".2f") for each in estimates]
        table.add_row(study.judge, str(study.n), *cells)
    return table


def _rate(cell: "Rate | None") -> str:
    if cell is None:
        return "-"
    if cell.rate is not None and cell.mostly_unanswered:
        return f"{cell.usable} of {cell.answered}"
    return _cell(cell.rate, cell.low, cell.high)


def _cell(value: float | None, low: float | None, high: float | None, ends: str = ".0f") -> str:
    """A value and below it its interval: two lines, so that the whole table fits 80 columns."""
    if value is None:
        return "-"
    return f"{value:.2f}" if low is None or high is None else f"{value:.2f}\n{low:{ends}}–{high:{ends}}"


def _formatted(estimate: "Estimate", scale: int, form: str, ends: str | None = None, between: str = "–") -> str:
    value, low, high = estimate["value"], estimate["low"], estimate["high"]
    if value is None:
        return "-"
    text = form.format(scale * value)
    if low is None or high is None:
        return text
    return f"{text} ({(ends or form).format(scale * low)}{between}{(ends or form).format(scale * high)})"
