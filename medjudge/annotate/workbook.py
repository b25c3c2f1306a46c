"""Scoring forms as workbooks: one per rater, one sheet per category; only the cells to fill in are unlocked."""

import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import zip_longest
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from rich.cells import cell_len

from medjudge.annotate.cells import DIMENSIONS, cell_name
from medjudge.annotate.tasks import LEVELS, Task
from medjudge.annotate.units import Unit, printable
from medjudge.annotate.wording import Message, VerdictTexts, form_texts, message, page_texts
from medjudge.errors import InputError
from medjudge.files import replacing
from medjudge.rubrics.render import standard
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.tables.spreadsheets import CellNames, Sheet, column_letters, is_blank, read_sheets

_FIRST_SHEET = "Read me 说明"
_RATER = "Rater 评分人"
_WIDTHS = {"id": 9, "question": 34, "reference": 32, "checklist": 26, "answer": 58, "comment": 30}
_WIDTHS |= {"first": 48, "second": 48, "item": 40, "verdict": 22}
_SCORE_WIDTH, _GUIDANCE_WIDTH = 11, 78
_SCREEN = 1290
"""Pixels for the columns up to the last one to fill in: a screen 1366 wide, without the borders of the window."""
MOST_LINES = 24
"""The most lines of a row: well below the 409 points at which Excel cuts a row off."""
_LINE_HEIGHT = 15
_CONTINUATION = re.compile(r"(\S+) \+(\d+)")


class FormRow(NamedTuple):
    """A row of a form, and those that continue its texts, as they came back.

    Attributes:
        place: Where the row is in the file.
        item_id: As the file has it, known or not.
        texts: The texts that the form shows, by field.
        cells: What was filled in, by field.
        wrong: Problems that the reader found in the row.
        at: The cells of the fields.
    """

    place: Message
    item_id: str
    texts: Mapping[str, str]
    cells: Mapping[str, object]
    wrong: Sequence[Message] = ()
    at: CellNames = CellNames()


class Form(NamedTuple):
    """A rater's file that came back; its `problems`, each with its place, belong to no row."""

    path: Path
    rater: str
    rows: list[FormRow]
    problems: list[tuple[Message, Message]]


def write_workbook(path: Path, rater: str, listed: Sequence[Unit], task: Task = LEVELS) -> None:
    """Writes one rater's form.

    A text that needs more than 24 lines of its column continues in further rows, marked `ID +1`, `ID +2` and so on. No
    cell comes near Excel's limit of 32,767 characters, and nothing is cut off. Nothing that is added to the texts names
    a model; an answer that names its own is shown as it is.

    Args:
        path: The .xlsx file; written completely or not at all.
        rater: Named on the first sheet.
        listed: At least one unit, in the order of the rows in their sheet.
    """
    from openpyxl import Workbook  # takes a while to import

    workbook = Workbook()
    workbook.properties.creator = "medjudge"
    workbook.properties.title = f"Scoring form of {rater}"
    _write_first_sheet(workbook.active, rater, listed, task)
    for name in [task.sheet] if task.sheet else listed[0].scheme.category_ids:
        if units := [unit for unit in listed if name in (task.sheet, unit.question.category)]:
            _write_sheet(workbook.create_sheet(name), units, task)
    with replacing(path) as file:
        workbook.save(file)


def read_workbook(path: Path, scheme: Scheme = LLMEVAL_MED, task: Task = LEVELS) -> Form:
    """Reads a form back, whatever was done to it.

    Raises:
        InputError: The file is not a workbook, or not a form of the task's `export`.
    """
    if path.suffix.lower() != ".xlsx":
        raise InputError(f"{path}: forms are read from .xlsx; save it as one")
    sheets = read_sheets(path)
    by_name = {str(task.sheet if sheet.name == task.former_sheet else sheet.name): sheet for sheet in sheets}
    fields = (
        {task.sheet: task.fields(False)}
        if task.sheet
        else {category.id: task.fields(category.scored_by == "dimensions") for category in scheme.categories}
    )
    found = {name: of_sheet for name, of_sheet in fields.items() if name in by_name}
    rows = [cells for sheet in sheets for _, cells in sheet.rows if len(cells) > 1]
    rater = next((str(cells[1]).strip() for cells in rows if cells[0] == _RATER and not is_blank(cells[1])), None)
    if not found or rater is None:
        wanted = f"sheet '{task.sheet}'" if task.sheet else "sheet of a category"
        missing = f"no {wanted}" if not found else f"no sheet '{_FIRST_SHEET}' that names the rater"
        raise InputError(f"{path}: {missing}; a form that `medjudge {task.command} export` wrote is expected")
    form = Form(path, rater, [], [])
    for name, of_sheet in found.items():
        _read_sheet(form, by_name[name], of_sheet, task)
    return form


def _write_first_sheet(sheet: Any, rater: str, listed: Sequence[Unit], task: Task) -> None:
    """Instructions for the form: a column per language of the scheme."""
    from openpyxl.styles import Alignment, Font

    sheet.title = _FIRST_SHEET
    sheet.sheet_view.showGridLines = False
    languages = listed[0].scheme.languages if task is LEVELS else ("en", "zh")
    columns = [_guidance(listed, language, task) for language in languages]
    for column in range(max(len(columns), 2)):
        sheet.column_dimensions[column_letters(column)].width = _GUIDANCE_WIDTH
    # A language may describe the scoring in fewer steps than another.
    lines = list(zip_longest(*columns, fillvalue=("", False)))
    rows = [([text for text, _ in line], any(bold for _, bold in line)) for line in lines]
    rows.insert(1, ([_RATER, rater], True))
    for number, (texts_of_row, bold) in enumerate(rows, 1):
        for column, text in enumerate(texts_of_row, 1):
            cell = _text(sheet.cell(number, column), text)
            cell.alignment = Alignment(wrap_text=True, vertical="top")
            cell.font = Font(bold=bold, size=14 if number == 1 else 11)
        tallest = max(lines_in(text, _GUIDANCE_WIDTH) for text in texts_of_row)
        sheet.row_dimensions[number].height = tallest * _LINE_HEIGHT + 6
    _protect(sheet)


def _guidance(listed: Sequence[Unit], language: str, task: Task) -> list[tuple[str, bool]]:
    """The lines of the first sheet in one language, each with whether it is bold."""
    languages, scheme = listed[0].languages, listed[0].scheme
    words = form_texts(language, languages)
    if task is not LEVELS:
        own = languages.load(language, task.form_file, VerdictTexts)
        return [(own.title, True), (words.fill_in, False), *((step, False) for step in own.steps)]
    lines = [(words.title, True), (words.fill_in, False), *((step, False) for step in words.steps)]
    present = {unit.question.category for unit in listed}
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


def _write_sheet(sheet: Any, units: Sequence[Unit], task: Task) -> None:
    asked = task.fields(units[0].by_dimensions)
    open_fields = (*asked, *task.comments)
    fields = ["id", *task.shown, *open_fields]
    _write_headings(sheet, fields, task)
    styles = _styles()
    open_rows: dict[str, list[int]] = {}
    number = 2
    for unit in units:
        texts, ids = unit.texts, unit.rows
        parts = {field: parts_of(texts[field], _WIDTHS[field]) for field in task.shown if field in texts}
        for row in range(max(len(ids), *map(len, parts.values()))):
            shown = {field: pieces[row] for field, pieces in parts.items() if row < len(pieces)}
            shown["id"] = ids[row] if row < len(ids) else f"{unit.item.id} +{row}"
            if row < len(unit.points):
                shown["item"] = printable(unit.points[row])
            for column, field in enumerate(fields, 1):
                cell = sheet.cell(number, column)
                cell.alignment = styles.wrapped
                cell.border = styles.further if row else styles.first
                if field in shown:
                    _text(cell, shown[field])
                if row < len(ids) and field in open_fields:
                    cell.protection, cell.fill = styles.unlocked, styles.yellow
                    if field != "comment":
                        cell.alignment, cell.font = styles.centred, styles.large
            sheet.cell(number, 1).font = styles.small
            tallest = max(lines_in(text, _WIDTHS[field]) for field, text in shown.items() if field != "id")
            sheet.row_dimensions[number].height = (max(tallest, 2) + 1) * _LINE_HEIGHT
            if row < len(ids):
                open_rows.setdefault(unit.question.language, []).append(number)
            number += 1
    first_of = {unit.question.language: unit for unit in reversed(units)}
    for field in asked:
        for language, rows in open_rows.items():
            _offer(sheet, first_of[language], task, field, column_letters(fields.index(field)), rows)
    sheet.page_setup.orientation, sheet.page_setup.fitToHeight = "landscape", 0
    sheet.sheet_properties.pageSetUpPr.fitToPage = True
    _protect(sheet)


def _write_headings(sheet: Any, fields: Sequence[str], task: Task) -> None:
    styles = _styles()
    for column, field in enumerate(fields, 1):
        sheet.column_dimensions[column_letters(column - 1)].width = _WIDTHS.get(field, _SCORE_WIDTH)
        cell = _text(sheet.cell(1, column), task.headings[field])
        cell.font, cell.fill, cell.alignment = styles.bold, styles.grey, styles.heading
    sheet.row_dimensions[1].height = 4 * _LINE_HEIGHT
    sheet.freeze_panes = "B2"
    to_see = [_WIDTHS.get(field, _SCORE_WIDTH) for field in fields if field != "comment"]
    sheet.sheet_view.zoomScale = min(100, 100 * _SCREEN // sum(7 * width + 5 for width in to_see))
    sheet.print_title_rows = "1:1"


@cache
def _styles() -> SimpleNamespace:
    """The styles of cells, created once: openpyxl compares every new one with all others."""
    from openpyxl.styles import Alignment, Border, Font, PatternFill, Protection, Side

    line, faint = Side(style="thin", color="808080"), Side(style="hair", color="C0C0C0")
    return SimpleNamespace(
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


def _offer(sheet: Any, unit: Unit, task: Task, field: str, letter: str, rows: Sequence[int]) -> None:
    """A drop-down with what can be filled in, which says what it means and refuses everything else."""
    from openpyxl.worksheet.datavalidation import DataValidation

    offered = task.offered(field)
    rule = DataValidation("list", formula1=f'"{",".join(offered)}"', allow_blank=True)
    rule.showErrorMessage, rule.errorStyle = True, "stop"
    rule.error = f"One of {', '.join(offered)}, or an empty cell. 请从列表中选择，或留空。"
    rule.showInputMessage, rule.prompt = True, _prompt(unit, task, field)
    for row in rows:
        rule.add(f"{letter}{row}")
    sheet.add_data_validation(rule)


def _prompt(unit: Unit, task: Task, field: str) -> str:
    """The prompt of a cell to fill in: the meanings of the scores, in the language of the question."""
    language, languages = unit.question.language, unit.languages
    if task is not LEVELS:
        code = language if language in languages.codes(task.form_file) else "en"
        return languages.load(code, task.form_file, VerdictTexts).steps[0]
    if field in DIMENSIONS:
        return form_texts(language, languages).dimensions[field].meaning
    page = page_texts(language if language in languages.codes("scoring_page.yaml") else "en", languages)
    return "\n".join([*(f"{level} {caption}" for level, caption in page.captions.items()), page.ask_level])


def _protect(sheet: Any) -> None:
    """Locks all cells that are not unlocked, without a password; rows and columns can still be resized."""
    sheet.protection.sheet = True
    sheet.protection.formatColumns = sheet.protection.formatRows = False


def _text(cell: Any, text: str) -> Any:
    """Sets a cell to exactly this text: no formula, number or error value, and no escape that Excel would undo."""
    cell.value = re.sub(r"_(?=x[0-9A-Fa-f]{4}_)", "_x005F_", text)
    cell.data_type, cell.quotePrefix = "s", True
    return cell


class _Line(NamedTuple):
    """A row of a sheet; `part` counts the rows of its item from 0."""

    part: int
    at: CellNames
    values: Mapping[str, object]
    wrong: list[Message]

    def place(self, sheet: Sheet) -> Message:
        return message("place", sheet=sheet.name, row=self.at.row)


def _read_sheet(form: Form, sheet: Sheet, asked: Sequence[str], task: Task) -> None:
    """Adds the items of a sheet, in which the fields `asked` are filled in, to the form, and what belongs to none."""
    open_fields = (*asked, *task.comments)
    wanted = {field: _heading(task.headings[field]) for field in ("id", *task.shown, *open_fields)}
    headings = [_heading(cell) for cell in sheet.rows[0][1]] if sheet.rows else []
    if missing := [heading for heading in wanted.values() if headings.count(heading) != 1]:
        place = message("place", sheet=sheet.name, row=sheet.rows[0][0] if sheet.rows else 1)
        form.problems.append((place, message("no_column", heading=missing[0])))
        return
    column = {field: headings.index(heading) for field, heading in wanted.items()}
    letters = {field: column_letters(index) for field, index in column.items()}
    items: list[tuple[str, list[_Line]]] = []
    further: dict[str, list[_Line]] = {}
    for number, cells in sheet.rows[1:]:
        values = {field: cells[index] if index < len(cells) else None for field, index in column.items()}
        at, label = CellNames(letters, number), "" if is_blank(values["id"]) else str(values["id"]).strip()
        wrong = [
            message("no_heading", value=cell)
            for cell, heading in zip_longest(cells, headings)
            if not heading and not is_blank(cell)
        ]
        wrong += [
            message("formula", cell=cell_name(at, field))
            for field in open_fields
            if (number, column[field]) in sheet.unsaved
        ]
        if continuation := _CONTINUATION.fullmatch(label):
            further.setdefault(continuation[1], []).append(_Line(int(continuation[2]), at, values, wrong))
        else:
            items.append((label, [_Line(0, at, values, wrong)]))
    texts = ("item",) if "item" in task.shown else task.shown  # other texts run over several items
    for item_id, lines in items:  # a repeated item keeps its further rows where it first appears
        lines += sorted(further.pop(item_id.partition(".")[0], []), key=lambda line: line.part)
        first = lines[0]
        wrong = [what for line in lines for what in line.wrong]
        wrong += [
            message("misplaced", field=field, at=f"{letters[field]}{line.at.row}", to=f"{letters[field]}{first.at.row}")
            for line in lines[1:]
            for field in open_fields
            if not is_blank(line.values[field])
        ]
        shown = {
            field: "".join(str(line.values[field]) for line in lines if line.values[field] is not None)
            for field in texts
        }
        filled = {field: first.values[field] for field in open_fields}
        form.rows.append(FormRow(first.place(sheet), item_id, shown, filled, wrong, first.at))
    for item_id, lines in further.items():
        form.problems.append((lines[0].place(sheet), message("first_row_missing", item=item_id)))


def _heading(cell: object) -> str:
    return "" if cell is None else " ".join(str(cell).split())


def parts_of(text: str, width: int) -> list[str]:
    """Cuts a text into parts of at most `MOST_LINES` lines, at line ends or spaces where possible.

    Args:
        width: Characters per line.
    """
    parts, part, left = [], "", MOST_LINES
    for line in text.splitlines(keepends=True):
        most = MOST_LINES * _usable(width) // (1 if line.isascii() else 2)  # a character is at most two wide
        # A line that does not fit into a part is cut at a space near the end of the part, or where the part is full.
        for piece in re.findall(rf"(?s).{{1,{most}}}\Z|.{{{most - 40},{most - 1}}} |.{{{most}}}", line):
            needed = lines_in(piece, width)
            if needed > left and part:
                parts.append(part)
                part, left = "", MOST_LINES
            part += piece
            left -= needed
    return [*parts, part]


def lines_in(text: str, width: int) -> int:
    """About how many lines a text takes in a column of `width` characters."""
    lines = text.rstrip("\n").splitlines() or [""]
    return sum(max(1, -(-cell_len(line) // _usable(width))) for line in lines)


def _usable(width: int) -> int:
    """Characters per line that are used: unbroken words leave a tenth of it empty."""
    return width * 9 // 10
