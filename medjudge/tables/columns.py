"""Reads the rows of a table by the names of their columns, and collects what is wrong with a file."""

import re
from collections.abc import Collection, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple
from unicodedata import normalize

from medjudge.errors import InputError, notify
from medjudge.tables.spreadsheets import Sheet, artefact, column_letters, is_blank, read_sheets

_LISTED = 20
_CHINESE = {
    "id": "编号 题号 题目编号 问题编号 问题id",
    "category": "类别 分类",
    "subcategory": "子类别",
    "prompt": "问题 题目 提问",
    "reference": "参考答案 标准答案",
    "checklist": "打分要点 评分要点 检查清单",
    "language": "语言",
    "difficulty": "难度",
    "scene": "场景",
    "round": "轮次",
    "model": "模型 模型名称",
    "text": "回答 模型回答 答复",
    "sample": "样本",
    "rater": "评分人 评分者 评分医生 医生",
    "score": "评分 得分 分数",
    "comment": "备注 评语",
    "instruction_following": "指令遵循",
    "correctness": "正确性",
    "effectiveness": "有效性",
    "readability": "可读性",
    "safety": "安全性",
}
_ENGLISH = {name: field for field, names in _CHINESE.items() for name in names.split()}
_OF_ANSWERS = {"model", "text", "score", "rater"}
_notify_once = cache(notify)  # a file is looked at before it is read


class TableRow(NamedTuple):
    """A row: the number that a spreadsheet program shows, and the text of each cell, by column."""

    number: int
    cells: dict[str, str]


def plain(name: str) -> str:
    """A heading without upper case, full-width letters, spaces and hyphens: `question_id` of `Question ID`."""
    return re.sub(r"[\s-]+", "_", normalize("NFKC", name).strip().lower())


def in_english(headings: Sequence[str]) -> list[str]:
    """Headings with the Chinese names of fields in English; others stay as they are.

    Beside a model, an answer or a score, 编号 is `question_id` and 答案 the answer, otherwise `id` and `reference`.
    """
    bare = [re.sub(r"[(（][^()（）]*[)）]$", "", normalize("NFKC", heading).strip().lower()) for heading in headings]
    fields = [_ENGLISH.get(name, heading) for name, heading in zip(bare, headings, strict=True)]
    of_answers = not _OF_ANSWERS.isdisjoint(map(plain, fields))
    same = {"id": "question_id"} if of_answers else {}
    for place, name in enumerate(bare):
        if name in _ENGLISH:
            fields[place] = same.get(fields[place], fields[place])
        elif name == "答案":
            fields[place] = "text" if of_answers and "text" not in fields else "reference"
    return fields


def known_in_chinese(headings: Collection[str]) -> str:
    """The end of a message: which Chinese headings are understood, where a file has Chinese ones; else nothing."""
    if not any("\u3400" <= character <= "\u9fff" for heading in headings for character in heading):
        return ""
    listed = (f"{names.partition(' ')[0]} = {field}" for field, names in _CHINESE.items())
    return f"; Chinese headings that are understood: 问题编号 = question_id, {', '.join(listed)}"


def read_rows(problems: "Problems", columns: Sequence[str], others: Collection[str] = ()) -> list[TableRow]:
    """The rows of a .csv, .tsv or .xlsx table that has these columns; of a workbook, the first sheet that has them.

    Upper and lower case, spaces and hyphens of a heading do not matter, and Chinese headings are understood. Columns
    that are not named are read under their own headings. A row with a problem is left out.

    Args:
        problems: Of the file. Cells without a heading are added, and cells of the named columns that hold what a
            spreadsheet program made of them.
        columns: That the table must have.
        others: That it may have. Where neither these nor `columns` are named, no two headings may be the same.

    Raises:
        InputError: A column is missing or occurs twice, or the file cannot be read.
    """
    path = problems.path
    sheets = read_sheets(path)
    if not sheets:
        raise InputError(f"{path}: has no sheet of cells; save the table as .xlsx again")
    wanted = {plain(name): name for name in (*columns, *others)}
    missing, headings = [*columns], [""]
    for sheet in sheets:
        written = ["" if cell is None else str(cell).strip() for cell in sheet.rows[0][1]] if sheet.rows else []
        headings = [wanted.get(plain(heading), heading) for heading in in_english(written)]
        missing = [name for name in columns if name not in headings]
        if not missing:
            _require_different(path, written, headings, columns)
            return list(_rows(problems, sheet, headings, frozenset(wanted.values())))
    expected = f"a table with the columns {', '.join(columns)} is expected{known_in_chinese(headings)}"
    raise InputError(f"{path}: no column {missing[0]}; {expected}")


def _require_different(path: Path, written: Sequence[str], headings: Sequence[str], columns: Sequence[str]) -> None:
    """Refuses columns of one name: only one of their cells would be read."""
    places: dict[str, list[int]] = {}
    for place, heading in enumerate(headings):
        if heading and (not columns or heading in columns):
            places.setdefault(plain(heading), []).append(place)
    twice = [
        f"{' and '.join(f'{written[place]} in {column_letters(place)}1' for place in same)} are one column"
        for same in places.values()
        if len(same) > 1
    ]
    if twice:
        raise InputError(f"{path}: {'; '.join(twice)}; rename or remove all but one; nothing was read")


def _rows(problems: "Problems", sheet: Sheet, headings: Sequence[str], used: frozenset[str]) -> Iterator[TableRow]:
    misplaced = sheet.misplaced()
    checked = [(column, heading) for column, heading in enumerate(headings) if heading in used]
    for number, filled in sheet.rows[1:]:
        cells = [*filled, *[None] * (len(headings) - len(filled))]  # a row may end at its last filled cell
        wrong = [misplaced[number]] if number in misplaced else []
        for column, heading in [] if wrong else checked:
            place = f"{heading} in {column_letters(column)}{number}"
            if (number, column) in sheet.unsaved:
                wrong.append(f"{place} holds a formula without a value; type it")
            elif what := artefact(cells[column]) or _no_name(heading, cells[column]):
                wrong.append(f"{place} is {what}; format the column as text and type it again")
        for what in wrong:
            problems.add(f"row {number}", what)
        if not wrong:
            yield TableRow(number, dict(zip(headings, map(_text, cells), strict=False)))
    if not misplaced:
        _say_shifted(problems.path, sheet, headings)


def _no_name(heading: str, value: object) -> str | None:
    """The reason why a cell is no name of a question or model, or None: TRUE, or 1.23E+11 as a text."""
    number = isinstance(value, str) and re.fullmatch(r"\d([.,]\d+)?E\+\d+", value.strip())
    if heading.endswith(("id", "model", "group")) and (number or isinstance(value, bool)):
        return f"{value}, which the spreadsheet program made of a name"
    return None


def _text(cell: object) -> str:
    if isinstance(cell, float) and cell.is_integer():
        return str(int(cell))  # a workbook may hold 17 as 17.0
    return "" if cell is None else str(cell).strip()


def _say_shifted(path: Path, sheet: Sheet, headings: Sequence[str]) -> None:
    """Names a cell of a CSV file that may be the rest of the text before it: the number of cells is right by chance."""
    if sheet.name is not None or not sheet.rows or any(str(cell)[:1] == " " for cell in sheet.rows[0][1]):
        return
    for number, cells in sheet.rows[1:]:
        for before, cell, heading in zip(cells, cells[1:], headings[1:], strict=False):
            if str(cell)[:1] == " " and not is_blank(cell) and not is_blank(before):
                fix = "if it belongs to the text before it, quote texts that contain a separator"
                _notify_once(f"{path}, row {number}: {heading} begins with a space; {fix}")
                return


class Problems:
    """The problems of the file at `path`, reported together."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lines: list[str] = []

    def add(self, place: str, what: str) -> None:
        """Notes a problem."""
        self.lines.append(f"{place}: {what}")

    def refuse(self) -> None:
        """Raises InputError where anything is wrong."""
        count = len(self.lines)
        if count == 1:
            raise InputError(f"{self.path}, {self.lines[0]}; nothing was read")
        if count:
            more = [f"and {count - _LISTED:,} more"] if count > _LISTED else []
            summary = f"{self.path}: {count:,} problems; nothing was read"
            raise InputError("\n  ".join([summary, *self.lines[:_LISTED], *more]))
