"""Values with their intervals, as screens show them."""

from collections.abc import Iterable

from rich.table import Table

from medjudge.statistics.estimates import Estimate


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


def span(estimate: Estimate) -> str:
    """A value with its interval: `0.72 (0.66–0.78)`; a dash where it is undefined."""
    return _formatted(estimate, 1, "{:.2f}")


def percent(estimate: Estimate) -> str:
    """A share with its interval: `72.0 % (66–78)`."""
    return _formatted(estimate, 100, "{:.1f} %", "{:.0f}")


def points(estimate: Estimate) -> str:
    """A difference of shares with its interval: `-1.2 points (-3.4 to 1.0)`."""
    return _formatted(estimate, 100, "{:+.1f} points", "{:+.1f}", " to ")


def _formatted(estimate: Estimate, scale: int, form: str, ends: str | None = None, between: str = "–") -> str:
    value, low, high = estimate["value"], estimate["low"], estimate["high"]
    if value is None:
        return "-"
    text = form.format(scale * value)
    if low is None or high is None:
        return text
    return f"{text} ({(ends or form).format(scale * low)}{between}{(ends or form).format(scale * high)})"
