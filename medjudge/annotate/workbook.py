"""Scoring forms as workbooks: one per rater, one sheet per category; only the cells to fill in are unlocked."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.annotate.cells import DIMENSIONS, Problem
from medjudge.annotate.forms import Form, FormRow, printable, score_fields, texts
from medjudge.annotate.items import ToScore
from medjudge.annotate.wording import DIMENSION_WORDS, HEADINGS, FormTexts, form_texts
from medjudge.annotate.wrapping import lines_in, parts_of
from medjudge.errors import InputError
from medjudge.files import replacing
from medjudge.rubrics.render import standard
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.tables.spreadsheets import CellNames, Sheet, column_letters, is_blank, read_sheets

_FIRST_SHEET = "Read me 说明"
_RATER = "Rater 评分人"
_HEADINGS = {
    "id": "ID",
    **HEADINGS,
    "score": "Score 评分 1–5",
    **{name: f"{words.en} {words.zh} 0–{DIMENSIONS[name]}" for name, words in DIMENSION_WORDS.items()},
    "comment": "Comment 备注",
    "problem": "To fix 需要修改",
}
_WIDTHS = {"id": 9, "question": 40, "reference": 40, "checklist": 34, "answer": 66, "comment": 30, "problem": 40}
_SCORE_WIDTH, _GUIDANCE_WIDTH = 13, 78
_LINE_HEIGHT = 15
_CONTINUATION = re.compile(r"(\S+) \+(\d+)")


def write_workbook(
    path: Path,
    rater: str,
    listed: Sequence[ToScore],
    filled: Mapping[str, Mapping[str, object]] | None = None,
    problems: Mapping[str, str] | None = None,
) -> None:
    """Writes one rater's form.

    A text that needs more than 24 lines of its column continues in further rows, marked `ID +1`, `ID +2` and so on. No
    cell comes near Excel's limit of 32,767 characters, and nothing is cut off. Nothing that is added to the texts names
    a model; an answer that names its own is shown as it is.

    Args:
        path: The .xlsx file; written completely or not at all.
        rater: Named on the first sheet.
        listed: Items, at least one, in the order of the rows in the sheet of their category.
        filled: Item id -> cells to fill in beforehand.
        problems: Item id -> what has to be fixed; shown beside the row.

    Raises:
        InputError: openpyxl is not installed.
    """
    try:
        from openpyxl import Workbook
    except ImportError:
        raise InputError(f"{path}: writing .xlsx needs openpyxl; pip install 'medjudge[annotate]'") from None
    workbook = Workbook()
    workbook.properties.creator = "medjudge"
    workbook.properties.title = f"Scoring form of {rater}"
    _write_first_sheet(workbook.active, rater, listed)
    for category in listed[0].scheme.category_ids:
        if items := [entry for entry in listed if entry.question.category == category]:
            _write_category(workbook.create_sheet(category), items, filled or {}, problems or {})
    with replacing(path) as file:
        workbook.save(file)


def read_workbook(path: Path, scheme: Scheme = LLMEVAL_MED) -> Form:
    """Reads a form back, whatever was done to it.

    Raises:
        InputError: The file is not a workbook, or not a form of `medjudge annotate export`.
    """
    sheets = read_sheets(path)
    by_name = {str(sheet.name): sheet for sheet in sheets}
    categories = [category for category in scheme.categories if category.id in by_name]
    rater = next(
        (
            str(cells[1]).strip()
            for sheet in sheets
            for _, cells in sheet.rows
            if len(cells) > 1 and cells[0] == _RATER and not is_blank(cells[1])
        ),
        None,
    )
    if not categories or rater is None:
        missing = "no sheet of a category" if not categories else f"no sheet '{_FIRST_SHEET}' that names the rater"
        raise InputError(f"{path}: {missing}; a form that `medjudge annotate export` wrote is expected")
    rows: list[FormRow] = []
    problems: list[Problem] = []
    for category in categories:
        fields = score_fields(category.scored_by == "dimensions")
        sheet_rows, sheet_problems = _read_category(by_name[category.id], category.id, fields, rater)
        rows += sheet_rows
        problems += sheet_problems
    return Form(path, rows, problems)


def _write_first_sheet(sheet: Any, rater: str, listed: Sequence[ToScore]) -> None:
    """How to score: a column per language of the scheme."""
    from openpyxl.styles import Alignment, Font
    from openpyxl.utils import get_column_letter

    sheet.title = _FIRST_SHEET
    sheet.sheet_view.showGridLines = False
    scheme = listed[0].scheme
    columns = [_guidance(listed, form_texts(language, listed[0].languages), language) for language in scheme.languages]
    for column in range(1, max(len(columns), 2) + 1):
        sheet.column_dimensions[get_column_letter(column)].width = _GUIDANCE_WIDTH
    # A language may describe the scoring in fewer steps than another.
    lines = list(zip_longest(*columns, fillvalue=("", False)))
    rows = [[text for text, _ in line] for line in lines]
    bold = [any(is_bold for _, is_bold in line) for line in lines]
    rows.insert(1, [_RATER, rater])
    bold.insert(1, True)
    for number, texts_of_row in enumerate(rows, 1):
        for column, text in enumerate(texts_of_row, 1):
            cell = _text(sheet.cell(number, column), text)
            cell.alignment = Alignment(wrap_text=True, vertical="top")
            cell.font = Font(bold=bold[number - 1], size=14 if number == 1 else 11)
        tallest = max(lines_in(text, _GUIDANCE_WIDTH) for text in texts_of_row)
        sheet.row_dimensions[number].height = tallest * _LINE_HEIGHT + 6
    _protect(sheet)


def _guidance(listed: Sequence[ToScore], words: FormTexts, language: str) -> list[tuple[str, bool]]:
    """The lines of the first sheet in one language, each with whether it is bold."""
    lines = [(words.title, True), (words.fill_in, False), *((step, False) for step in words.steps)]
    scheme, present = listed[0].scheme, {entry.question.category for entry in listed}
    for category in scheme.categories:
        if category.id not in present:
            continue
        title, levels = standard(category.id, language, scheme)
        lines.append((f"{category.id} · {title}", True))
        if category.scored_by == "dimensions":
            lines += [
                (f"{texts.name} 0–{DIMENSIONS[name]} · {texts.meaning}", False)
                for name, texts in words.dimensions.items()
            ]
        else:
            lines.append((levels, False))
    return lines


def _write_category(
    sheet: Any,
    items: Sequence[ToScore],
    filled: Mapping[str, Mapping[str, object]],
    problems: Mapping[str, str],
) -> None:
    from openpyxl.utils import get_column_letter

    scores = score_fields(items[0].by_dimensions)
    open_fields = (*scores, "comment")
    fields = ["id", *HEADINGS, *open_fields, *(["problem"] if problems else [])]
    _write_headings(sheet, fields)
    styles = _styles()
    first_rows: list[int] = []
    number = 2
    for entry in items:
        item_id = entry.item.id
        shown = {**texts(entry), **({"problem": printable(problems.get(item_id, ""))} if problems else {})}
        parts = {field: parts_of(text, _WIDTHS[field]) for field, text in shown.items()}
        first_rows.append(number)
        for part in range(max(map(len, parts.values()))):
            row_texts = {field: pieces[part] for field, pieces in parts.items() if part < len(pieces)}
            row_texts["id"] = f"{item_id} +{part}" if part else item_id
            for column, field in enumerate(fields, 1):
                cell = sheet.cell(number, column)
                cell.alignment = styles.wrapped
                cell.border = styles.further if part else styles.first
                if field in row_texts:
                    _text(cell, row_texts[field])
            sheet.cell(number, 1).font = styles.small
            tallest = max(lines_in(row_texts[field], _WIDTHS[field]) for field in row_texts if field != "id")
            sheet.row_dimensions[number].height = (max(tallest, 2) + 1) * _LINE_HEIGHT
            number += 1
        for field in open_fields:
            cell = sheet.cell(first_rows[-1], fields.index(field) + 1)
            cell.protection, cell.fill = styles.unlocked, styles.yellow
            _fill_in(cell, filled.get(item_id, {}).get(field))
            if field != "comment":
                cell.alignment, cell.font = styles.centred, styles.large
    for field in scores:
        _offer_scores(sheet, field, get_column_letter(fields.index(field) + 1), first_rows)
    sheet.page_setup.orientation, sheet.page_setup.fitToHeight = "landscape", 0
    sheet.sheet_properties.pageSetUpPr.fitToPage = True
    _protect(sheet)


def _write_headings(sheet: Any, fields: Sequence[str]) -> None:
    from openpyxl.utils import get_column_letter

    styles = _styles()
    for column, field in enumerate(fields, 1):
        sheet.column_dimensions[get_column_letter(column)].width = _WIDTHS.get(field, _SCORE_WIDTH)
        cell = _text(sheet.cell(1, column), _HEADINGS[field])
        cell.font, cell.fill, cell.alignment = styles.bold, styles.grey, styles.heading
    sheet.row_dimensions[1].height = 4 * _LINE_HEIGHT
    sheet.freeze_panes = "B2"
    sheet.print_title_rows = "1:1"


class _Styles(NamedTuple):
    """Styles, created once: openpyxl compares every new one with all others."""

    wrapped: Any
    centred: Any
    heading: Any
    first: Any
    further: Any
    small: Any
    bold: Any
    large: Any
    yellow: Any
    grey: Any
    unlocked: Any


@cache
def _styles() -> _Styles:
    from openpyxl.styles import Alignment, Border, Font, PatternFill, Protection, Side

    line, faint = Side(style="thin", color="808080"), Side(style="hair", color="C0C0C0")
    return _Styles(
        wrapped=Alignment(wrap_text=True, vertical="top"),
        centred=Alignment(horizontal="center", vertical="top"),
        heading=Alignment(wrap_text=True, vertical="center", horizontal="center"),
        first=Border(top=line, left=faint, right=faint),
        further=Border(top=faint, left=faint, right=faint),
        small=Font(size=8, color="808080"),
        bold=Font(bold=True),
        large=Font(bold=True, size=14),
        yellow=PatternFill("solid", fgColor="FFF8DC"),
        grey=PatternFill("solid", fgColor="E7ECF2"),
        unlocked=Protection(locked=False),
    )


def _offer_scores(sheet: Any, field: str, letter: str, rows: Sequence[int]) -> None:
    """A drop-down with the allowed scores, which refuses everything else."""
    from openpyxl.worksheet.datavalidation import DataValidation

    low, high = (0, DIMENSIONS[field]) if field in DIMENSIONS else (1, 5)
    rule = DataValidation("list", formula1=f'"{",".join(map(str, range(low, high + 1)))}"', allow_blank=True)
    rule.showErrorMessage, rule.errorStyle = True, "stop"
    rule.errorTitle = "Not on the scale 超出范围"
    rule.error = f"A whole number from {low} to {high}, or an empty cell. 请填写{low}至{high}的整数，或留空。"
    for row in rows:
        rule.add(f"{letter}{row}")
    sheet.add_data_validation(rule)


def _protect(sheet: Any) -> None:
    """Locks all cells that are not unlocked, without a password; rows and columns can still be resized."""
    sheet.protection.sheet = True
    sheet.protection.formatColumns = sheet.protection.formatRows = False


def _text(cell: Any, text: str) -> Any:
    """Sets a cell to exactly this text: no formula, number or error value, and no escape that Excel would undo."""
    cell.value = re.sub(r"_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", text)
    cell.data_type, cell.quotePrefix = "s", True
    return cell


def _fill_in(cell: Any, value: object) -> None:
    if isinstance(value, str):
        _text(cell, printable(value))
    elif value is not None:
        cell.value = value


class _SheetContent(NamedTuple):
    """The items of a sheet, and what belongs to none of them."""

    rows: list[FormRow]
    problems: list[Problem]


class _Line(NamedTuple):
    """A row of a sheet; `part` counts the rows of its item from 0."""

    number: int
    item_id: str
    part: int
    values: Mapping[str, object]
    wrong: list[str]


def _read_category(sheet: Sheet, category: str, scores: Sequence[str], rater: str) -> _SheetContent:
    """Reads the items of a sheet.

    Args:
        scores: The score fields of the category.
    """
    open_fields = (*scores, "comment")
    fields = ["id", *HEADINGS, *open_fields]
    headings = [_heading(cell) for cell in sheet.rows[0][1]] if sheet.rows else []
    if missing := [_HEADINGS[field] for field in fields if headings.count(_HEADINGS[field]) != 1]:
        what = f"no column '{missing[0]}', or two of them; restore the headings"
        return _SheetContent([], [Problem(f"sheet '{category}', row 1", what)])
    column = {field: headings.index(_HEADINGS[field]) for field in fields}
    letters = {field: column_letters(index) for field, index in column.items()}
    items: list[list[_Line]] = []
    further: dict[str, list[_Line]] = {}
    for number, cells in sheet.rows[1:]:
        line = _line(number, cells, headings, column)
        line.wrong.extend(
            f"{CellNames(letters, number).name(field)} holds a formula without a value; type the "
            f"{'text' if field == 'comment' else 'number'}"
            for field in open_fields
            if (number, column[field]) in sheet.unsaved
        )
        if line.part:
            further.setdefault(line.item_id, []).append(line)
        else:
            items.append([line])
    for item in items:  # a repeated item keeps its further rows where it first appears
        item += sorted(further.pop(item[0].item_id, []), key=lambda line: line.part)
    problems = [
        Problem(f"sheet '{category}', row {lines[0].number}", f"the first row of item {item_id} is missing")
        for item_id, lines in further.items()
    ]
    return _SheetContent([_row(item, category, open_fields, rater, letters) for item in items], problems)


def _heading(cell: object) -> str:
    return "" if cell is None else " ".join(str(cell).split())


def _line(number: int, cells: Sequence[object], headings: Sequence[str], column: Mapping[str, int]) -> _Line:
    values = {field: cells[index] if index < len(cells) else None for field, index in column.items()}
    label = "" if is_blank(values["id"]) else str(values["id"]).strip()
    continuation = _CONTINUATION.fullmatch(label)
    item_id, part = (continuation[1], int(continuation[2])) if continuation else (label, 0)
    stray = [
        cell for index, cell in enumerate(cells) if not is_blank(cell) and "".join(headings[index : index + 1]) == ""
    ]
    wrong = [f"'{cell}' is in a column without a heading; scores have columns of their own" for cell in stray]
    return _Line(number, item_id, part, values, wrong)


def _row(
    item: Sequence[_Line], category: str, open_fields: Sequence[str], rater: str, letters: Mapping[str, str]
) -> FormRow:
    first = item[0]
    wrong = [what for line in item for what in line.wrong]
    for line in item[1:]:
        misplaced = [field for field in open_fields if not is_blank(line.values[field])]
        wrong += [
            f"{field} is in {letters[field]}{line.number}; move it to {letters[field]}{first.number}"
            for field in misplaced
        ]
    shown = {
        field: "".join("" if line.values[field] is None else str(line.values[field]) for line in item)
        for field in HEADINGS
    }
    cells = {field: first.values[field] for field in open_fields}
    return FormRow(
        f"sheet '{category}', row {first.number}",
        rater,
        first.item_id,
        shown,
        cells,
        tuple(wrong),
        at=CellNames(letters, first.number),
    )
