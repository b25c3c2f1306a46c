"""Reads the cells of CSV files and workbooks as spreadsheet programs write them."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from datetime import date, time, timedelta
from pathlib import Path
from typing import NamedTuple

from medjudge.errors import InputError, notify
from medjudge.files import read_bytes

MOST_BYTES, MOST_TEXT_BYTES = 32 << 20, 64 << 20
"""The most bytes of a workbook, and of a CSV file; the other limits are the same for both."""
MOST_CELLS = 2_000_000
"""The most cells of rows with content; a row counts up to its last filled cell."""
MOST_CHARACTERS = 100_000_000
"""The most characters of all cells; a text that several cells share counts in each."""
MOST_CELL_CHARACTERS = 1_000_000
named_encoding: ContextVar[str | None] = ContextVar("named_encoding", default=None)
"""The encoding that the user named for CSV files that are not UTF-8."""
_FIRST_INEXACT = 10**15
_MONTH = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)"
# #NAME?, #DIV/0!, #¿NOMBRE?, #N/A, #NV, ####, Err:508; and 1-2 or 3-4 as dates: 2-Jan, Mar-04, 3月4日.
_ARTEFACT = re.compile(
    rf"#[¡¿]?[^\W\d_a-z][^\W_a-z]*(?:/[^\W_a-z]+)?[!?]|#N/[AD]|#NV|#{{2,}}|Err:\d{{3}}|\d{{1,2}}-{_MONTH}|{_MONTH}-\d\d|\d{{1,2}}月\d{{1,2}}日"
)


class LimitError(Exception):
    """A table exceeds a limit; the message names the place, the limit and what to do."""


class Budget:
    """Counts what has been read of a table, and stops at the limits."""

    def __init__(self) -> None:
        self.cells = self.characters = 0

    def add(self, place: str, row: Sequence[object]) -> None:
        """Counts a row that is not blank.

        Raises:
            LimitError: A limit is exceeded.
        """
        lengths = [len(cell) for cell in row if isinstance(cell, str)]
        self.cells += len(row)
        self.characters += sum(lengths)
        if max(lengths, default=0) > MOST_CELL_CHARACTERS:
            raise LimitError(f"{place}: a cell has over {MOST_CELL_CHARACTERS:,} characters; shorten its text")
        if self.cells > MOST_CELLS:
            raise LimitError(f"{place}: the limit of {MOST_CELLS:,} cells is reached; split the table")
        if self.characters > MOST_CHARACTERS:
            raise LimitError(f"{place}: the limit of {MOST_CHARACTERS:,} characters is reached; split the table")


class Formatted(float):
    """A number that its cell shows as another text, such as 30 % or 5 mg; `code` is the format of the cell."""

    code = ""


class Sheet(NamedTuple):
    """Rows that are not blank, each with the number that a spreadsheet program shows; a CSV file has no `name`.

    `unsaved` holds row number and column (from 0) of formulas without a stored result, which read as blank. `hidden`
    names what a spreadsheet program does not show of it: the sheet, or rows.
    """

    name: str | None
    rows: list[tuple[int, Sequence[object]]]
    unsaved: frozenset[tuple[int, int]] = frozenset()
    hidden: str = ""

    def misplaced(self) -> dict[int, str]:
        """Problems of rows that go on under no heading, by row number: a separator without quotes shifted them.

        In a CSV file, a row of one cell is what comes after a line break without quotes.
        The first column may lack a heading: pandas and R write the names of rows there. In a workbook, a note may be
        next to the table, after a blank cell.
        """
        headings = self.rows[0][1] if self.rows else ()
        bare = [column for column, cell in enumerate(headings) if column and is_blank(cell)]
        named = len(headings) - len(bare)
        wrong = {}
        for number, cells in self.rows[1:]:
            stray = [
                column
                for column in (*bare, *range(len(headings), len(cells)))
                if not all(map(is_blank, cells[column : column + 1]))
                and (self.name is None or not is_blank(cells[column - 1]))
            ]
            if stray:
                cell = "" if self.name is None else f", {column_letters(stray[0])}{number} under none"
                what = f"{len(cells)} cells under {named} headings{cell}"
                wrong[number] = f"{what}; quote texts that contain a separator"
            elif self.name is None and len(cells) == 1 < len(headings):
                wrong[number] = f"1 cell under {named} headings; quote texts that contain a line break"
        return wrong


class CellNames(NamedTuple):
    """The cells of a row's fields as spreadsheet programs name them; empty where a file has no cells.

    `letters` holds the column of each field; the rows of a sheet share it.
    """

    letters: Mapping[str, str] = {}
    row: int = 0


def column_letters(column: int) -> str:
    """A column, counted from 0, as spreadsheet programs name it."""
    letters = ""
    column += 1
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(65 + letter) + letters
    return letters


def is_blank(value: object) -> bool:
    """True if a cell is empty, or holds nothing but white space."""
    return value is None or (isinstance(value, str) and not value.strip())


def artefact(value: object) -> str | None:
    """The name of what a spreadsheet program made of a cell: a date, an error, another number; None if it was typed."""
    if isinstance(value, date | time | timedelta):
        return f"{value}, which the spreadsheet program converted to a date or time"
    if isinstance(value, Formatted):
        return f"the number {value:g}, shown in the format {value.code[:40]}"
    if isinstance(value, int | float) and abs(value) >= _FIRST_INEXACT:
        return f"{value}, a number of which the spreadsheet program kept 15 digits"
    if isinstance(value, str) and _ARTEFACT.fullmatch(value.strip()):
        return f"{value.strip()}, which the spreadsheet program made of a formula, a date or a narrow column"
    return None


def known_encoding(name: str) -> str:
    """The name of an encoding of texts as it was given.

    Raises:
        InputError: Python knows no such encoding.
    """
    try:
        "a".encode(name)  # refuses what is no encoding of texts, such as rot13
    except (LookupError, ValueError):
        raise InputError(f"--encoding {name}: is not known; cp1252, gb18030, big5, shift_jis and utf-16 are") from None
    return name


def _decoded(path: Path, data: bytes) -> str:
    """The text of a CSV file: UTF-8, else the encoding that the user named. A guess would change texts."""
    named = named_encoding.get()
    where = "a NUL byte"
    try:
        text = data.decode("utf-8-sig")
        if named is None or "\0" not in text:  # UTF-16 without a byte order mark has them
            return text
    except UnicodeDecodeError as error:
        where = f"byte {error.start} is 0x{data[error.start]:02x}"
    if named is None:
        raise InputError(
            f"{path}: not UTF-8 ({where}); save it as CSV UTF-8, or name its encoding: --encoding gb18030 for the "
            "plain CSV of Excel in China, cp1252 in Western Europe"
        )
    try:
        return data.decode(named)
    except UnicodeError:
        raise InputError(f"{path}: neither UTF-8 nor {named} ({where}); name another --encoding") from None


def _delimited(path: Path) -> Sheet:
    """A CSV file; the separator is whichever of comma, semicolon and tab cuts the first row into most cells."""
    text = _decoded(path, read_bytes(path, MOST_TEXT_BYTES))
    for number, line in enumerate(io.StringIO(text, newline=""), 1):
        if len(line) > MOST_CELL_CHARACTERS:  # cut into cells, a line of commas takes ten times its size
            size = f"{len(line):,} characters, and the limit is {MOST_CELL_CHARACTERS:,}"
            raise InputError(f"{path}, line {number}: has {size}; shorten its texts")
    first = re.findall(r"\A\s*(\S[^\r\n]*)", text)
    rows: list[tuple[int, Sequence[object]]] = []
    budget, number = Budget(), 0
    try:
        separator = max(",;\t", key=lambda candidate: len(next(csv.reader(first, delimiter=candidate), [])))
        # Strict, because an unclosed quote would otherwise swallow all rows after it.
        for number, cells in enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True), 1):
            if not all(map(is_blank, cells)):
                budget.add(f"row {number}", cells)
                rows.append((number, cells))
    except LimitError as error:
        raise InputError(f"{path}, {error}") from None
    except csv.Error as error:
        raise InputError(f"{path}, row {number + 1}: not valid CSV ({error}); check its quotation marks") from None
    return Sheet(None, rows)


def read_sheets(path: Path) -> list[Sheet]:
    """All sheets of an .xlsx workbook, or the one of a CSV file.

    Raises:
        InputError: The file cannot be read or exceeds a limit.
    """
    sheets = _workbook(path) if path.suffix.lower() == ".xlsx" else [_delimited(path)]
    for sheet in sheets:
        place = str(path) if sheet.name is None else f"{path}, sheet '{sheet.name}'"
        headings, rows = len(sheet.rows[0][1]) if sheet.rows else 0, len(sheet.rows)
        if headings * rows > MOST_CELLS:  # readers fill up short rows
            what = f"{headings:,} headings and {rows:,} rows, and the limit is {MOST_CELLS:,} cells"
            raise InputError(f"{place}: has {what}; remove headings without cells, or split the table")
        if sheet.hidden:
            notify(f"{path}, sheet '{sheet.name}': {sheet.hidden}, and read all the same; remove what does not count")
    return sheets


def _workbook(path: Path) -> list[Sheet]:
    from medjudge.tables.xlsx import read_xlsx  # openpyxl takes a while to import

    data = read_bytes(path, MOST_BYTES)
    try:
        return list(read_xlsx(io.BytesIO(data)))
    except LimitError as error:
        raise InputError(f"{path}, {error}") from None
    except Exception as error:  # on a damaged file openpyxl, zipfile and expat raise whatever their parts raise
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path}: not a readable .xlsx workbook ({reason}); save it as .xlsx again, without a password"
        ) from None
