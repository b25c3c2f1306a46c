"""Forms of pairs: workbooks and Label Studio projects out, and what was filled in back."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from medjudge.annotate.label_studio import annotations, filled_in
from medjudge.annotate.pair_plan import FIELDS, PairFormTexts, PairToCompare, pair_texts
from medjudge.annotate.wrapping import lines_in, parts_of
from medjudge.errors import InputError
from medjudge.files import replacing, write_json, write_whole
from medjudge.pair_records import Preferred
from medjudge.tables.spreadsheets import Sheet, column_letters, is_blank, read_sheets

_FIRST_SHEET, _SHEET, _RATER = "Read me 说明", "Pairs 成对比较", "Rater 评分人"
_COLUMNS = ("id", *FIELDS, "preferred", "comment")
_WIDTHS = {"id": 9, "question": 40, "reference": 34, "checklist": 30, "preferred": 13, "comment": 30}
_ANSWER_WIDTH, _LINE_HEIGHT = 56, 15
_CHOICES: dict[str, Preferred] = {"a": "first", "b": "second", "tie": "tie", "平局": "tie"}
_LABELS: dict[Preferred, str] = {"first": "A", "tie": "tie", "second": "B"}


class FilledPair(NamedTuple):
    """A row as it came back: where it is, whose it is, and what was filled in; `cell` names the cell of the verdict."""

    place: str
    cell: str
    rater: str
    item_id: str
    preferred: object
    comment: object
    shown: dict[str, str]


def read_choice(value: object) -> Preferred | None:
    """The preference that a cell states: A, B or tie; None for a blank one.

    Raises:
        ValueError: It states something else.
    """
    if is_blank(value):
        return None
    choice = _CHOICES.get(str(value).strip().casefold())
    if choice is None:
        raise ValueError(f"is '{str(value).strip()[:40]}'; A, B or tie is expected, or an empty cell")
    return choice


def write_pair_workbook(path: Path, rater: str, listed: Sequence[PairToCompare]) -> None:
    """Writes one rater's workbook; a text of more than 24 lines goes on in rows marked `ID +1`, `ID +2` and so on.

    Raises:
        InputError: openpyxl is not installed.
    """
    try:
        from openpyxl import Workbook
        from openpyxl.styles import Alignment, Font, PatternFill, Protection
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
    wrapped, yellow = Alignment(wrap_text=True, vertical="top"), PatternFill("solid", fgColor="FFF8DC")
    for column, field in enumerate(_COLUMNS, 1):
        sheet.column_dimensions[column_letters(column - 1)].width = _WIDTHS.get(field, _ANSWER_WIDTH)
        heading = _text(sheet.cell(1, column), _headings()[field])
        heading.font, heading.alignment = Font(bold=True), wrapped
    sheet.freeze_panes = "B2"
    offered = DataValidation("list", formula1='"A,B,tie"', allow_blank=True)
    offered.showErrorMessage, offered.errorStyle = True, "stop"
    offered.error = "A, B or tie, or an empty cell. 请填写A、B或tie，或留空。"
    number = 2
    for entry in listed:
        parts = {field: parts_of(entry.texts[field], _WIDTHS.get(field, _ANSWER_WIDTH)) for field in FIELDS}
        for part in range(max(map(len, parts.values()))):
            shown = {field: pieces[part] for field, pieces in parts.items() if part < len(pieces)}
            shown["id"] = f"{entry.item.id} +{part}" if part else entry.item.id
            for column, field in enumerate(_COLUMNS, 1):
                cell = sheet.cell(number, column)
                cell.alignment = wrapped
                if field in shown:
                    _text(cell, shown[field])
                elif not part and field in ("preferred", "comment"):
                    cell.fill, cell.protection = yellow, Protection(locked=False)
            if not part:
                offered.add(f"{column_letters(_COLUMNS.index('preferred'))}{number}")
            tallest = max(lines_in(shown[field], _WIDTHS.get(field, _ANSWER_WIDTH)) for field in shown if field != "id")
            sheet.row_dimensions[number].height = (max(tallest, 2) + 1) * _LINE_HEIGHT
            number += 1
    sheet.add_data_validation(offered)
    for one in (front, sheet):
        one.protection.sheet = True
        one.protection.formatColumns = one.protection.formatRows = False
    with replacing(path) as file:
        workbook.save(file)


def read_pair_workbook(path: Path) -> list[FilledPair]:
    """Reads a workbook back.

    Raises:
        InputError: It is not a form of pairs.
    """
    sheets = {str(sheet.name): sheet for sheet in read_sheets(path)}
    front = sheets.get(_FIRST_SHEET)
    rows = front.rows if front else []
    rater = next((str(cells[1]).strip() for _, cells in rows if len(cells) > 1 and cells[0] == _RATER), "")
    if _SHEET not in sheets or not rater:
        missing = f"no sheet '{_SHEET}'" if _SHEET not in sheets else f"no sheet '{_FIRST_SHEET}' that names the rater"
        raise InputError(f"{path}: {missing}; a form of `medjudge annotate pairs export` is expected")
    return _rows(path, sheets[_SHEET], rater)


def _rows(path: Path, sheet: Sheet, rater: str) -> list[FilledPair]:
    headings = [" ".join(str(cell or "").split()) for cell in sheet.rows[0][1]] if sheet.rows else []
    missing = [name for name in _headings().values() if headings.count(" ".join(name.split())) != 1]
    if missing:
        raise InputError(f"{path}, sheet '{_SHEET}', row 1: no column '{missing[0]}', or two; restore the headings")
    column = {field: headings.index(" ".join(name.split())) for field, name in _headings().items()}
    rows = []
    for number, cells in sheet.rows[1:]:
        values = {field: cells[place] if place < len(cells) else None for field, place in column.items()}
        item_id = "" if is_blank(values["id"]) else str(values["id"]).strip()
        if " +" in item_id and is_blank(values["preferred"]):
            continue  # the rest of a long text
        cell = f"{column_letters(column['preferred'])}{number}"
        place = f"sheet '{_SHEET}', row {number}"
        rows.append(FilledPair(place, cell, rater, item_id, values["preferred"], values["comment"], {}))
    return rows


def write_pair_project(folder: Path, rater: str, listed: Sequence[PairToCompare]) -> Path:
    """Writes the tasks of one rater for Label Studio, and the labelling configuration `label-studio-pairs.xml`."""
    write_whole(folder / "label-studio-pairs.xml", pair_labelling_config())
    tasks = [{"data": {"pair": entry.item.id, "rater": rater, **entry.texts}} for entry in listed]
    write_json(folder / f"{rater}-pairs.json", tasks)
    return folder / f"{rater}-pairs.json"


def pair_labelling_config() -> str:
    """The labelling configuration: both answers side by side, and one choice with the keys 1, 2 and 3."""
    view = Element("View")
    for field in FIELDS[:3]:
        SubElement(view, "Header", value=_headings()[field], size="5")
        SubElement(view, "Text", name=field, value=f"${field}", valueType="text")
    beside = SubElement(view, "View", style="display: flex; gap: 2em")
    for field in FIELDS[3:]:
        side = SubElement(beside, "View", style="flex: 1")
        SubElement(side, "Header", value=_headings()[field], size="5")
        SubElement(side, "Text", name=field, value=f"${field}", valueType="text")
    english, chinese = _both()
    SubElement(view, "Header", value=f"{english.ask} {chinese.ask}", size="5")
    choices = SubElement(view, "Choices", name="preferred", toName="first", choice="single-radio", showInline="true")
    for number, name in enumerate(("first", "tie", "second"), 1):
        words = f"{english.choices[name]} {chinese.choices[name]}"  # type: ignore[index]
        SubElement(choices, "Choice", value=_LABELS[name], html=words, hotkey=str(number))  # type: ignore[index]
    SubElement(view, "Header", value=_headings()["comment"], size="5")
    SubElement(view, "TextArea", name="comment", toName="first", rows="3", maxSubmissions="1", editable="true")
    indent(view)
    return tostring(view, encoding="unicode") + "\n"


def read_pair_project(path: Path) -> list[FilledPair]:
    """Reads an export of Label Studio, JSON or JSON-MIN.

    Raises:
        InputError: It is no export of a project of pairs.
    """
    rows = []
    for annotation in annotations(path):
        data = annotation.data
        if "pair" not in data or "rater" not in data:
            raise InputError(
                f"{path}, {annotation.place}: data has no pair and rater, so this is not a form of `medjudge annotate "
                "pairs export`"
            )
        shown = {field: str(data[field]) for field in FIELDS if field in data}
        preferred, comment = filled_in(annotation, "preferred"), filled_in(annotation, "comment")
        rater, item_id = str(data["rater"]).strip(), str(data["pair"]).strip()
        rows.append(FilledPair(annotation.place, "", rater, item_id, preferred, comment, shown))
    return rows


@cache
def _both() -> tuple[PairFormTexts, PairFormTexts]:
    return pair_texts("en"), pair_texts("zh")


@cache
def _headings() -> dict[str, str]:
    """The headings in both languages, by field."""
    english, chinese = _both()
    return {"id": "ID", **{field: f"{name} {chinese.headings[field]}" for field, name in english.headings.items()}}


def _text(cell: Any, text: str) -> Any:
    """Sets a cell to exactly this text: no formula, number or error value."""
    cell.value, cell.data_type, cell.quotePrefix = text, "s", True
    return cell
