"""Reads the cells of .xlsx workbooks with openpyxl, in one pass a sheet and within limits."""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, BinaryIO
from zipfile import ZIP_DEFLATED, ZIP_STORED, ZipFile

from openpyxl.reader.excel import ExcelReader
from openpyxl.styles.numbers import BUILTIN_FORMATS_MAX_SIZE, builtin_format_code
from openpyxl.styles.stylesheet import apply_stylesheet
from openpyxl.worksheet._reader import FORMULA_TAG, WorkSheetParser

from medjudge.tables.spreadsheets import Budget, Formatted, LimitError, Sheet, is_blank

MOST_UNPACKED_BYTES = 200_000_000
"""The most bytes of all parts of a workbook, unpacked."""
_MOST_SETTINGS_BYTES = 5_000_000
_MOST_ELEMENTS = 6_500_000  # three for each cell of the largest table
_LAST_ROW = 1_048_576  # of Excel
_SETTINGS = re.compile(r"(?:xl/)?(?!sharedStrings)[^/]*\.xml|.*\.rels")
_STRICT = b"http://purl.oclc.org/ooxml/spreadsheetml/main"
_UTF_16 = (b"\xff\xfe", b"\xfe\xff", b"<\0", b"\0<")
# Formats that show a number as such: no percent, unit, currency, fraction or leading zeros. _x and *x are spaces.
_SPACE = r"(?:_.|\*.|[-+() ])*"
_AS_IT_IS = re.compile(
    rf"(?i:General)|@|(?:\[(?!\$|DBNum)[^]]*\])?{_SPACE}[#,?]*0?[#,?]*(?:\.[0#?]*)?(?:E\+0+)?{_SPACE}"
)


def read_xlsx(file: BinaryIO) -> Iterator[Sheet]:
    """Yields the sheets of a workbook in its order.

    openpyxl's own sheets fill in missing rows, take a second pass to tell a formula from its result, and leave out
    which rows are hidden; the parser that they use does neither.

    Raises:
        LimitError: The workbook exceeds a limit.
        Exception: The file is damaged; what its parts raise.
    """
    with ZipFile(file) as archive:
        _require_harmless(archive)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about parts that are not read
        reader = ExcelReader(file, read_only=True, data_only=True, keep_links=False)
        reader.read_manifest()
        reader.read_strings()
        reader.read_workbook()
        apply_stylesheet(reader.archive, reader.wb)
        shown = _formats_that_change(reader.wb)
        budget = Budget()
        for entry, part in reader.parser.find_sheets():
            if part.Type.endswith("/worksheet"):
                with reader.archive.open(part.target) as stream:
                    parser = _Parser(
                        stream,
                        reader.shared_strings,
                        data_only=True,
                        epoch=reader.wb.epoch,
                        date_formats=reader.wb._date_formats,
                        timedelta_formats=reader.wb._timedelta_formats,
                    )
                    sheet = _sheet(entry.name, parser, shown, budget)
                yield sheet._replace(hidden="the sheet is hidden") if entry.state != "visible" and sheet.rows else sheet


def _require_harmless(archive: ZipFile) -> None:
    """Refuses what unpacks to too much, or has what no spreadsheet program writes."""
    entries = archive.infolist()
    if odd := {entry.compress_type for entry in entries} - {ZIP_STORED, ZIP_DEFLATED}:
        raise ValueError(f"packed by method {min(odd)}")
    total = sum(entry.file_size for entry in entries)
    if total > MOST_UNPACKED_BYTES:
        size = f"{total / 1e6:,.0f} MB unpacked, and the limit is {MOST_UNPACKED_BYTES // 1_000_000} MB"
        raise LimitError(f"its sheets have {size}; split the table into several files")
    for entry in entries:
        if entry.file_size > _MOST_SETTINGS_BYTES and _SETTINGS.fullmatch(entry.filename):
            limit = f"{_MOST_SETTINGS_BYTES // 1_000_000} MB"
            raise LimitError(f"{entry.filename} in it exceeds {limit}; copy the cells to a new workbook")
        part = archive.read(entry)
        if b"<!DOCTYPE" in part or part.startswith(_UTF_16):
            raise ValueError("a document type definition is in it")  # its entities could grow a hundredfold
        if entry.filename.endswith("workbook.xml") and _STRICT in part:  # openpyxl finds no sheet in it
            raise ValueError("a Strict Open XML Spreadsheet, and Excel's usual format is read")
        if part.count(b"<") - part.count(b"</") > _MOST_ELEMENTS:
            limit = f"the limit of {_MOST_ELEMENTS:,} elements of XML is reached"
            raise LimitError(f"{entry.filename} in it: {limit}; copy the cells to a new workbook")


def _formats_that_change(workbook: Any) -> dict[int, str]:
    """The number formats that show another text than the number, by index of the style."""
    shown = {}
    for index, style in enumerate(workbook._cell_styles):
        custom = style.numFmtId - BUILTIN_FORMATS_MAX_SIZE
        code = workbook._number_formats[custom] if custom >= 0 else builtin_format_code(style.numFmtId) or "General"
        if not _AS_IT_IS.fullmatch(code[:200].partition(";")[0]):
            shown[index] = code
    return shown


class _Parser(WorkSheetParser):
    """Marks a formula without a stored result."""

    def parse_cell(self, element: Any) -> dict[str, Any]:
        cell: dict[str, Any] = super().parse_cell(element)
        if is_blank(cell["value"]) and element.find(FORMULA_TAG) is not None:
            cell["data_type"] = "f"
        return cell


def _sheet(name: str, parser: _Parser, shown: Mapping[int, str], budget: Budget) -> Sheet:
    rows: list[tuple[int, Sequence[object]]] = []
    unsaved: set[tuple[int, int]] = set()
    hidden, last = [], 0
    for number, cells in parser.parse():
        place = f"sheet '{name}', row {number:,}"
        if not last < number <= _LAST_ROW:
            wrong = f"comes after row {last:,}" if number <= _LAST_ROW else f"is past the last, {_LAST_ROW:,}"
            raise LimitError(f"{place} {wrong}; copy the cells to a new workbook")
        last = number
        unsaved |= {(number, cell["column"] - 1) for cell in cells if cell["data_type"] == "f"}
        filled = {cell["column"]: _value(cell, shown) for cell in cells if not is_blank(cell["value"])}
        if not filled:
            continue
        values = tuple([filled.get(column) for column in range(1, max(filled) + 1)])
        budget.add(place, values)
        rows.append((number, values))
        row = parser.row_dimensions.pop(str(number), {})
        if row.get("hidden") in ("1", "true") or row.get("ht") == "0":
            hidden.append(number)
    said = f"{len(hidden)} rows are hidden, the first is row {hidden[0]}" if hidden else ""
    return Sheet(name, rows, frozenset(unsaved), said)


def _value(cell: Mapping[str, Any], shown: Mapping[int, str]) -> object:
    if cell["data_type"] != "n" or cell["style_id"] not in shown:
        return cell["value"]
    formatted = Formatted(cell["value"])
    formatted.code = shown[cell["style_id"]]
    return formatted
