"""Reads the cells of CSV files and workbooks as spreadsheet programs write them."""

import csv
import io
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.errors import InputError


class Sheet(NamedTuple):
    """Rows that are not blank, each with the number that a spreadsheet program shows; a CSV file has no `name`.

    `unsaved` holds row number and column (from 0) of formulas without a stored result, which read as blank.
    """

    name: str | None
    rows: list[tuple[int, Sequence[object]]]
    unsaved: frozenset[tuple[int, int]] = frozenset()


def is_blank(value: object) -> bool:
    """Whether a cell is empty, or holds nothing but white space."""
    return value is None or (isinstance(value, str) and not value.strip())


def read_delimited(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a CSV file that are not blank, each with the number that a spreadsheet program shows.

    The separator is whichever of comma, semicolon and tab cuts the first row into most cells. A file that is not UTF-8
    is read as GB18030, the encoding of Chinese Excel, if it decodes.

    Raises:
        InputError: The file is missing, in another encoding, or has an unclosed quote.
    """
    text = _decoded(path)
    first = text.lstrip().splitlines()[:1]
    separator = max(",;\t", key=lambda candidate: len(next(csv.reader(first, delimiter=candidate), [])))
    rows = []
    number = 0
    try:
        # Strict, because an unclosed quote would otherwise swallow all rows after it.
        for number, cells in enumerate(csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True), 1):
            if not all(map(is_blank, cells)):
                rows.append((number, cells))
    except csv.Error as error:
        raise InputError(f"{path}, row {number + 1}: not valid CSV ({error}); check its quotation marks") from None
    return rows


def _decoded(path: Path) -> str:
    try:
        data = path.read_bytes()
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


def read_sheets(path: Path) -> list[Sheet]:
    """All sheets of an .xlsx workbook, with the stored results of formulas and the places of those without one.

    Raises:
        InputError: The file cannot be read, or openpyxl is not installed.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise InputError(f"{path}: reading .xlsx needs openpyxl; pip install 'medjudge[annotate]'") from None
    try:
        # Read twice: openpyxl gives either the formula of a cell or its stored result.
        with closing(load_workbook(path, read_only=True)) as workbook:
            formulas = [_formulas(sheet) for sheet in workbook.worksheets]
        with closing(load_workbook(path, read_only=True, data_only=True)) as workbook:
            return [_sheet(*both) for both in zip(workbook.worksheets, formulas, strict=True)]
    except OSError as error:
        raise InputError(f"{path}: {(error.strerror or str(error)).lower()}; check the path") from None
    except Exception as error:  # on a damaged file openpyxl raises whatever its parts raise
        reason = " ".join(str(error).split())
        raise InputError(
            f"{path}: not a readable .xlsx workbook ({reason}); save it as .xlsx again, without a password"
        ) from None


def _formulas(sheet: Any) -> set[tuple[int, int]]:
    sheet.reset_dimensions()
    rows = enumerate(sheet.iter_rows(), 1)
    return {(number, column) for number, cells in rows for column, cell in enumerate(cells) if cell.data_type == "f"}


def _sheet(sheet: Any, formulas: set[tuple[int, int]]) -> Sheet:
    sheet.reset_dimensions()  # some programs write a wrong size into the file, which would cut the sheet short
    rows = [*enumerate(sheet.iter_rows(values_only=True), 1)]
    unsaved = {(row, column) for row, column in formulas if is_blank(rows[row - 1][1][column])}
    return Sheet(sheet.title, [row for row in rows if not all(map(is_blank, row[1]))], frozenset(unsaved))
