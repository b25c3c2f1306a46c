"""Reads the cells of CSV files and workbooks as spreadsheet programs write them."""

import csv
import io
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from medjudge.errors import InputError, notify
from medjudge.files import read_bytes
from medjudge.tables.xlsx import MOST_BYTES, MOST_CELL_CHARACTERS, Budget, LimitError, read_xlsx

MOST_TEXT_BYTES = 64_000_000
"""The most bytes of a CSV file; the limits on rows, columns and cells are those of a workbook."""


class Sheet(NamedTuple):
    """Rows that are not blank, each with the number that a spreadsheet program shows; a CSV file has no `name`.

    `unsaved` holds row number and column (from 0) of formulas without a stored result, which read as blank.
    """

    name: str | None
    rows: list[tuple[int, Sequence[object]]]
    unsaved: frozenset[tuple[int, int]] = frozenset()


class CellNames(NamedTuple):
    """The cells of a row's fields as spreadsheet programs name them; nothing where a file has no cells.

    `letters` holds the column of each field; the rows of a sheet share it.
    """

    letters: Mapping[str, str] = {}
    row: int = 0

    def name(self, field: str, heading: str = "") -> str:
        """A field, or its heading in the file, and its cell: score in F4."""
        letters = self.letters.get(field)
        return f"{heading or field} in {letters}{self.row}" if letters else heading or field


def column_letters(column: int) -> str:
    """A column, counted from 0, as spreadsheet programs name it."""
    letters = ""
    column += 1
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(65 + letter) + letters
    return letters


def is_blank(value: object) -> bool:
    """Whether a cell is empty, or holds nothing but white space."""
    return value is None or (isinstance(value, str) and not value.strip())


def read_delimited(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a CSV file that are not blank, each with the number that a spreadsheet program shows.

    The separator is whichever of comma, semicolon and tab cuts the first row into most cells. A file that is not UTF-8
    is read as GB18030, the encoding of Chinese Excel, if it decodes.

    Raises:
        InputError: The file is missing, in another encoding, exceeds a limit, or has an unclosed quote.
    """
    text = _decoded(path)
    match = re.search(r"\S[^\r\n]*", text)
    first = [match[0][:MOST_CELL_CHARACTERS]] if match else []
    rows = []
    budget = Budget()
    number = 0
    try:
        separator = max(",;\t", key=lambda candidate: len(next(csv.reader(first, delimiter=candidate), [])))
        # Strict, because an unclosed quote would otherwise swallow all rows after it.
        for number, cells in enumerate(csv.reader(_lines(text), delimiter=separator, strict=True), 1):
            if not all(map(is_blank, cells)):
                budget.add(f"row {number}", cells)
                rows.append((number, cells))
    except LimitError as error:
        raise InputError(f"{path}, {error}") from None
    except csv.Error as error:
        raise InputError(f"{path}, row {number + 1}: not valid CSV ({error}); check its quotation marks") from None
    return rows


def _lines(text: str) -> Iterator[str]:
    for number, line in enumerate(io.StringIO(text, newline=""), 1):
        if len(line) > MOST_CELL_CHARACTERS:
            size = f"{len(line):,} characters, and the limit is {MOST_CELL_CHARACTERS:,}"
            raise LimitError(f"line {number}: has {size}; shorten its texts")
        yield line


def _decoded(path: Path) -> str:
    try:
        if path.stat().st_size > MOST_TEXT_BYTES:
            raise _too_large(path, MOST_TEXT_BYTES)
        data = read_bytes(path)
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        try:
            return data.decode("gb18030")
        except UnicodeDecodeError:
            byte = f"byte {error.start} is 0x{data[error.start]:02x}"
            raise InputError(f"{path}: neither UTF-8 nor GB18030 text ({byte}); save it as UTF-8") from None


def _too_large(path: Path, limit: int) -> InputError:
    size = path.stat().st_size / 1e6
    return InputError(
        f"{path}: has {size:,.0f} MB, and the limit is {limit // 1_000_000} MB; split it into several files"
    )


def read_sheets(path: Path) -> list[Sheet]:
    """All sheets of an .xlsx workbook, with the stored results of formulas and the places of those without one.

    Raises:
        InputError: The file cannot be read or exceeds a limit, or openpyxl is not installed.
    """
    try:
        import openpyxl  # noqa: F401  (without it dates are not read)
    except ImportError:
        raise InputError(f"{path}: reading .xlsx needs openpyxl; pip install 'medjudge[annotate]'") from None
    try:
        if path.stat().st_size > MOST_BYTES:
            raise _too_large(path, MOST_BYTES)
        sheets = list(read_xlsx(io.BytesIO(read_bytes(path)), is_blank))
    except InputError:
        raise
    except LimitError as error:
        raise InputError(f"{path}, {error}") from None
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None
    except Exception as error:  # on a damaged file zipfile, zlib and expat raise whatever their parts raise
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path}: not a readable .xlsx workbook ({reason}); save it as .xlsx again, without a password"
        ) from None
    for sheet in sheets:
        if sheet.hidden:
            notify(f"{path}, sheet '{sheet.name}': {sheet.hidden}, and read all the same; remove what does not count")
    return [Sheet(sheet.name, sheet.rows, sheet.unsaved) for sheet in sheets]
