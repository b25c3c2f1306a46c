"""Reads the rows of a table by the names of their columns, and collects what is wrong with a file."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from medjudge.errors import InputError
from medjudge.tables.spreadsheets import Sheet, read_delimited, read_sheets

_LISTED = 20


class TableRow(NamedTuple):
    """A row: the number that a spreadsheet program shows, and the text of each cell, by column."""

    number: int
    cells: dict[str, str]


def read_rows(path: Path, columns: Sequence[str]) -> list[TableRow]:
    """The rows of a .csv, .tsv or .xlsx table that has these columns; of a workbook, the first sheet that has them.

    Upper and lower case and space around a heading do not matter. Other columns are read, too, under their own names.

    Raises:
        InputError: A column is missing, or the file cannot be read.
    """
    sheets = read_sheets(path) if path.suffix.lower() == ".xlsx" else [Sheet(None, list(read_delimited(path)))]
    missing: list[str] = []
    for sheet in sheets:
        headings = [str(cell or "").strip() for cell in sheet.rows[0][1]] if sheet.rows else []
        place = {heading.casefold(): number for number, heading in enumerate(headings)}
        missing = [name for name in columns if name.casefold() not in place]
        if not missing:
            names = {place[name.casefold()]: name for name in columns}
            return list(_rows(sheet, [names.get(number, heading) for number, heading in enumerate(headings)]))
    listed = ", ".join(columns)
    raise InputError(f"{path}: no column {missing[0]}; a table with the columns {listed} is expected")


def _rows(sheet: Sheet, headings: Sequence[str]) -> Iterator[TableRow]:
    for number, cells in sheet.rows[1:]:
        texts = ["" if cell is None else str(cell).strip() for cell in cells]
        texts += [""] * (len(headings) - len(texts))
        yield TableRow(number, dict(zip(headings, texts, strict=False)))


class Problems:
    """What is wrong with a file, reported together.

    Args:
        path: The file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []

    def add(self, place: str, what: str) -> None:
        """Notes a problem."""
        self.lines.append(f"{place}: {what}")

    def refuse(self) -> None:
        """Raises InputError where anything is wrong."""
        if len(self.lines) == 1:
            raise InputError(f"{self.path}, {self.lines[0]}; nothing was read")
        if self.lines:
            shown = [f"  {line}" for line in self.lines[:_LISTED]]
            more = [f"  and {len(self.lines) - _LISTED:,} more"] if len(self.lines) > _LISTED else []
            count = len(self.lines)
            raise InputError("\n".join([f"{self.path}: {count:,} problems; nothing was read", *shown, *more]))
