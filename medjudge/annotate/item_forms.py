"""Forms of items: workbooks and Label Studio projects out, and what was filled in back."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from medjudge.annotate.forms import printable
from medjudge.annotate.item_plan import CHOICES, FIELDS, AnswerToMark, ItemChoice, ItemFormTexts, item_form_texts
from medjudge.annotate.label_studio import annotations, filled_in
from medjudge.annotate.wrapping import lines_in, parts_of
from medjudge.errors import InputError
from medjudge.files import replacing, write_json, write_whole
from medjudge.tables.spreadsheets import Sheet, column_letters, is_blank, read_sheets

_FIRST_SHEET, _SHEET, _RATER = "Read me 说明", "Items 逐条核对", "Rater 评分人"
_COLUMNS = ("id", *FIELDS, "item", "verdict")
_WIDTHS = {"id": 16, "question": 40, "reference": 34, "answer": 56, "item": 48, "verdict": 22}
_LINE_HEIGHT = 15


class FilledItem(NamedTuple):
    """A verdict as it came back: where it is, whose it is, which item it is of, and what was filled in.

    Attributes:
        place: Where the row or task is.
        cell: The name of the verdict's cell; empty where there are no cells.
        rater: The rater that the form names.
        name: `ID.NUMBER` of answer and item.
        item: The item's text as the form has it.
        verdict: What was filled in.
    """

    place: str
    cell: str
    rater: str
    name: str
    item: str
    verdict: object


def read_verdict(value: object) -> ItemChoice | None:
    """The verdict that a cell states, in English or Chinese or both; None for a blank one.

    Raises:
        ValueError: It states something else.
    """
    if is_blank(value):
        return None
    stated = " ".join(str(value).replace("_", " ").split()).casefold()
    for choice in CHOICES:
        words = [texts.choices[choice].casefold() for texts in _both()]
        if stated in (*words, " ".join(words)):
            return choice
    raise ValueError(
        f"is '{str(value).strip()[:40]}'; {', '.join(map(offered, CHOICES))} is expected, or an empty cell"
    )


def offered(choice: ItemChoice) -> str:
    """A verdict as forms offer it: in both languages."""
    return " ".join(texts.choices[choice] for texts in _both())


def write_item_workbook(path: Path, rater: str, listed: Sequence[AnswerToMark]) -> None:
    """Writes one rater's workbook: a row for each item, with the texts of the answer beside its first rows.

    Raises:
        InputError: openpyxl is not installed.
    """
    try:
        from openpyxl import Workbook
        from openpyxl.styles import Alignment, Font
        from openpyxl.worksheet.datavalidation import DataValidation
    except ImportError:
        raise InputError(f"{path}: writing .xlsx needs openpyxl; pip install 'medjudge[annotate]'") from None
    workbook = Workbook()
    front, sheet = workbook.active, workbook.create_sheet(_SHEET)
    front.title = _FIRST_SHEET
    english, chinese = _both()
    rows = [(english.title, chinese.title), (_RATER, rater), *zip(english.steps, chinese.steps, strict=True)]
    for number, texts in enumerate(rows, 1):
        for column, text in enumerate(texts, 1):
            _text(front.cell(number, column), text).alignment = Alignment(wrap_text=True, vertical="top")
    for letter in "AB":
        front.column_dimensions[letter].width = 78
    for column, field in enumerate(_COLUMNS, 1):
        sheet.column_dimensions[column_letters(column - 1)].width = _WIDTHS[field]
        heading = _text(sheet.cell(1, column), _headings()[field])
        heading.font, heading.alignment = Font(bold=True), Alignment(wrap_text=True, vertical="top")
    sheet.freeze_panes = "B2"
    rule = DataValidation("list", formula1=f'"{",".join(map(offered, CHOICES))}"', allow_blank=True)
    rule.showErrorMessage, rule.errorStyle = True, "stop"
    rule.error = "One of the listed verdicts, or an empty cell. 请从列表中选择，或留空。"
    number = 2
    for entry in listed:
        number = _write_answer(sheet, number, entry, rule)
    sheet.add_data_validation(rule)
    for one in (front, sheet):
        one.protection.sheet = True
        one.protection.formatColumns = one.protection.formatRows = False
    with replacing(path) as file:
        workbook.save(file)


def _write_answer(sheet: Any, number: int, entry: AnswerToMark, rule: Any) -> int:
    """Writes the rows of one answer, and returns the number of the next row."""
    from openpyxl.styles import Alignment, PatternFill, Protection

    wrapped, yellow = Alignment(wrap_text=True, vertical="top"), PatternFill("solid", fgColor="FFF8DC")
    parts = {field: parts_of(entry.texts[field], _WIDTHS[field]) for field in FIELDS}
    for row in range(max(len(entry.items), *map(len, parts.values()))):
        shown = {field: pieces[row] for field, pieces in parts.items() if row < len(pieces)}
        of_item = row < len(entry.items)
        shown["id"] = f"{entry.answer.id}.{row + 1}" if of_item else f"{entry.answer.id} +{row}"
        if of_item:
            shown["item"] = printable(entry.items[row].text)
        for column, field in enumerate(_COLUMNS, 1):
            cell = sheet.cell(number, column)
            cell.alignment = wrapped
            if field in shown:
                _text(cell, shown[field])
            elif of_item and field == "verdict":
                cell.fill, cell.protection = yellow, Protection(locked=False)
                rule.add(f"{column_letters(column - 1)}{number}")
        tallest = max(lines_in(text, _WIDTHS[field]) for field, text in shown.items() if field != "id")
        sheet.row_dimensions[number].height = (max(tallest, 1) + 1) * _LINE_HEIGHT
        number += 1
    return number


def read_item_workbook(path: Path) -> list[FilledItem]:
    """Reads a workbook back.

    Raises:
        InputError: It is not a form of items.
    """
    sheets = {str(sheet.name): sheet for sheet in read_sheets(path)}
    front = sheets.get(_FIRST_SHEET)
    rows = front.rows if front else []
    rater = next((str(cells[1]).strip() for _, cells in rows if len(cells) > 1 and cells[0] == _RATER), "")
    if _SHEET not in sheets or not rater:
        missing = f"no sheet '{_SHEET}'" if _SHEET not in sheets else f"no sheet '{_FIRST_SHEET}' that names the rater"
        raise InputError(f"{path}: {missing}; a form of `medjudge annotate items export` is expected")
    return _rows(path, sheets[_SHEET], rater)


def _rows(path: Path, sheet: Sheet, rater: str) -> list[FilledItem]:
    headings = [" ".join(str(cell or "").split()) for cell in sheet.rows[0][1]] if sheet.rows else []
    missing = [name for name in _headings().values() if headings.count(" ".join(name.split())) != 1]
    if missing:
        raise InputError(f"{path}, sheet '{_SHEET}', row 1: no column '{missing[0]}', or two; restore the headings")
    column = {field: headings.index(" ".join(name.split())) for field, name in _headings().items()}
    rows = []
    for number, cells in sheet.rows[1:]:
        values = {field: cells[place] if place < len(cells) else None for field, place in column.items()}
        name = "" if is_blank(values["id"]) else str(values["id"]).strip()
        if " +" in name and is_blank(values["verdict"]):
            continue  # the rest of a long text
        cell = f"{column_letters(column['verdict'])}{number}"
        item = "" if values["item"] is None else str(values["item"])
        rows.append(FilledItem(f"sheet '{_SHEET}', row {number}", cell, rater, name, item, values["verdict"]))
    return rows


def write_item_project(folder: Path, rater: str, listed: Sequence[AnswerToMark]) -> Path:
    """Writes the tasks of one rater for Label Studio, one for each item, and `label-studio-items.xml`."""
    write_whole(folder / "label-studio-items.xml", item_labelling_config())
    tasks = [
        {
            "data": {
                "marked": f"{entry.answer.id}.{number}",
                "rater": rater,
                **entry.texts,
                "item": printable(item.text),
            }
        }
        for entry in listed
        for number, item in enumerate(entry.items, 1)
    ]
    write_json(folder / f"{rater}-items.json", tasks)
    return folder / f"{rater}-items.json"


def item_labelling_config() -> str:
    """The labelling configuration: the answer, one item, and one choice with the keys 1, 2 and 3."""
    view = Element("View")
    for field in (*FIELDS, "item"):
        SubElement(view, "Header", value=_headings()[field], size="5")
        SubElement(view, "Text", name=field, value=f"${field}", valueType="text")
    choices = SubElement(view, "Choices", name="verdict", toName="item", choice="single-radio", showInline="true")
    for number, choice in enumerate(CHOICES, 1):
        SubElement(choices, "Choice", value=offered(choice), hotkey=str(number))
    indent(view)
    return tostring(view, encoding="unicode") + "\n"


def read_item_project(path: Path) -> list[FilledItem]:
    """Reads an export of Label Studio, JSON or JSON-MIN.

    Raises:
        InputError: It is no export of a project of items.
    """
    rows = []
    for annotation in annotations(path):
        data = annotation.data
        if not {"marked", "rater", "item"} <= data.keys():
            raise InputError(
                f"{path}, {annotation.place}: data has no marked, rater and item, so this is not a form of `medjudge "
                "annotate items export`"
            )
        rater, name = str(data["rater"]).strip(), str(data["marked"]).strip()
        verdict = filled_in(annotation, "verdict")
        rows.append(FilledItem(annotation.place, "", rater, name, str(data["item"]), verdict))
    return rows


@cache
def _both() -> tuple[ItemFormTexts, ItemFormTexts]:
    return item_form_texts("en"), item_form_texts("zh")


@cache
def _headings() -> dict[str, str]:
    """The headings in both languages, by field."""
    english, chinese = _both()
    return {"id": "ID", **{field: f"{name} {chinese.headings[field]}" for field, name in english.headings.items()}}


def _text(cell: Any, text: str) -> Any:
    """Sets a cell to exactly this text: no formula, number or error value."""
    cell.value, cell.data_type, cell.quotePrefix = text, "s", True
    return cell
