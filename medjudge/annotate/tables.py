"""Tables of scores, as spreadsheet programs write them, turned into records; every problem is told at once."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from datetime import date, time, timedelta
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.annotate.scale import HEADINGS
from medjudge.errors import InputError
from medjudge.records import MTGDimensions, PhysicianScore

DIMENSIONS = {name: 1 if name == "safety" else 5 for name in MTGDimensions.model_fields}
"""The five MTG dimensions, each with the upper end of its scale; all start at 0."""

_KEYS = ("question_id", "model", "sample", "rater")
_SCORES = ("score", *DIMENSIONS)
_LISTED = 20
_MEANT_AS_BLANK = {"na", "n/a", "#n/a", "nan", "null", "none", "-", "–", "—", "/"}


class Sheet(NamedTuple):
    """Rows that are not blank, each with the number that a spreadsheet program shows; CSV has no `name`.

    `unsaved` holds row number and column (from 0) of formulas whose result is not stored, so that they read as blank.
    """

    name: str | None
    rows: list[tuple[int, Sequence[object]]]
    unsaved: frozenset[tuple[int, int]] = frozenset()


class Row(NamedTuple):
    """One rater's cells for one answer.

    `cells` go by question_id, model, sample, rater, score, the five dimensions and comment. `column` is the rater's own
    column in a wide table, so that a problem is told with the heading that stands in the file.
    """

    place: str
    cells: Mapping[str, object]
    column: str = ""


class Problem(NamedTuple):
    """What is wrong, and where in the file."""

    place: str
    what: str


def read_table(path: Path, rater_columns: Sequence[str], labels: Mapping[str, int]) -> list[PhysicianScore]:
    """Reads a .csv, .tsv or .xlsx file; of a workbook every sheet whose heading has `question_id`.

    Args:
        path: The file.
        rater_columns: The raters of a wide table; each has a column of levels, or five such as `dr_a.safety`. Empty for
            a long table with the columns `rater` and `score`, or the five dimensions.
        labels: Casefolded label -> level, for cells that hold no level.

    Raises:
        InputError: The file cannot be read, lacks a column, or has wrong cells. Several problems come as a summary and
            one line each.
    """
    sheets = read_sheets(path) if path.suffix.lower() == ".xlsx" else [Sheet(None, [*read_delimited(path)])]
    filled = [sheet for sheet in sheets if sheet.rows]
    chosen = [sheet for sheet in filled if "question_id" in _headings(sheet)]
    if any(HEADINGS["answer"].casefold() in _headings(sheet) for sheet in filled):
        raise InputError(f"{path}: a form of `medjudge annotate export`; `medjudge annotate import` takes it in first")
    if not chosen:
        there = "; ".join(f"{_place(sheet)}: {_listed(_headings(sheet))}" for sheet in filled)
        raise InputError(f"{path}: no column question_id; the columns there are: {there or 'none, it is empty'}")
    rows: list[Row] = []
    problems: list[Problem] = []
    for sheet in chosen:
        wrong = _wrong_headings(sheet, rater_columns)
        problems += wrong or [*_overfull_rows(sheet), *_unsaved_scores(sheet, rater_columns)]
        rows += [] if wrong else _rows(sheet, rater_columns)
    return physician_scores(path, rows, labels, problems)


def physician_scores(
    path: Path, rows: Iterable[Row], labels: Mapping[str, int], problems: Sequence[Problem] = ()
) -> list[PhysicianScore]:
    """Turns rows into records; a row whose score cells are all blank was not scored and gives none.

    Args:
        path: The file that errors name.
        rows: One a rater and answer.
        labels: Casefolded label -> level, for cells that hold no level.
        problems: Those found before; they are told together with those of the rows.

    Raises:
        InputError: A cell is wrong, a key is missing or stands twice, or no row has a score.
    """
    found = list(problems)
    records = []
    seen: dict[tuple[object, ...], str] = {}
    told: set[str] = set()
    for row in rows:
        if is_unscored(row.cells):
            continue
        values, wrong = score_values(row, labels)
        found += [Problem(row.place, what) for what in wrong]
        key = tuple(values.get(name) for name in _KEYS)
        # A row of a wide table that stands twice does so for every rater; it is told once.
        if key in seen and row.place not in told:
            told.add(row.place)
            found.append(
                Problem(row.place, f"{' / '.join(map(str, key))} stands already in {seen[key]}; remove one of the two")
            )
        if None not in key:
            seen.setdefault(key, row.place)
        if not found:
            records.append(PhysicianScore.model_validate(values))
    if found:
        raise _refusal(path, found)
    if not records:
        raise InputError(f"{path}: no score in it, every score cell is blank")
    return records


def whole_number(name: str, value: object, low: int, high: int, labels: Mapping[str, int] | None = None) -> int | None:
    """A cell as a whole number, without guessing: 4, 4.0 and "4" are four, 4.5 and "4 - good" are errors.

    Args:
        name: What the error calls the cell.
        value: As the file gives it.
        low: Lower end of the scale.
        high: Upper end of the scale.
        labels: Casefolded label -> number, asked where the cell holds no number of the scale; None where no label can
            stand.

    Returns:
        The number, or None where the cell is blank.

    Raises:
        ValueError: The cell holds something else.
    """
    if is_blank(value):
        return None
    number = _integer(value)
    if number is not None and low <= number <= high:
        return number
    label = str(value if number is None else number).strip().casefold()
    if labels and label in labels:
        return labels[label]
    if number is not None:
        raise ValueError(f"{name} is {number}, and the scale goes from {low} to {high}")
    if label in _MEANT_AS_BLANK:
        raise ValueError(f"{name} is {_shown(value)}; leave the cell blank where this rater did not score")
    if labels is None or not isinstance(value, str) or re.fullmatch(r"[-+]?\d+[.,]\d+", label):
        raise ValueError(f"{name} is {_shown(value)}, and a whole number from {low} to {high} is expected")
    if not labels:
        raise ValueError(f"{name} is {_shown(value)}; a label needs a label map, such as 'entailment=5,neutral=3'")
    raise ValueError(f"{name} is {_shown(value)}, and the label map knows only {', '.join(labels)}")


def _integer(value: object) -> int | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    # A comma is a decimal one where Excel speaks German; with three zeros after it, it could be one of thousands.
    match = re.fullmatch(r"([-+]?\d{1,9})(\.0+|,0{1,2})?", value.strip()) if isinstance(value, str) else None
    return int(match[1]) if match else None


def is_blank(value: object) -> bool:
    """Whether a cell is empty, or holds nothing but white space."""
    return value is None or (isinstance(value, str) and not value.strip())


def _shown(value: object) -> str:
    if isinstance(value, date | time | timedelta):
        return f"{value}, which the spreadsheet program took for a date or time"
    text = f"'{value.strip()}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:56]}...'"


def is_unscored(cells: Mapping[str, object]) -> bool:
    """Whether score and dimensions are all blank."""
    return all(is_blank(cells.get(field)) for field in _SCORES)


def score_values(row: Row, labels: Mapping[str, int]) -> tuple[dict[str, Any], list[str]]:
    """The fields of a PhysicianScore, and what is wrong with the cells, one sentence each."""
    values: dict[str, Any] = {}
    wrong: list[str] = []

    def read(field: str, reader: Any, *arguments: object) -> None:
        name = _column(field, row.column)
        try:
            values[field] = reader(name, row.cells.get(field), *arguments)
        except ValueError as error:
            wrong.append(str(error))

    for field in ("question_id", "model", "rater"):
        read(field, _name)
    read("sample", _sample)
    read("comment", _comment)
    read("score", whole_number, 1, 5, labels)
    for field, high in DIMENSIONS.items():
        read(field, whole_number, 0, high)
    blank = [_column(field, row.column) for field in DIMENSIONS if is_blank(row.cells.get(field))]
    if len(blank) < len(DIMENSIONS):
        if blank:
            wrong.append(f"no {', '.join(blank)}; the five dimensions are scored together or not at all")
        elif not is_blank(row.cells.get("score")):
            wrong.append(
                f"both {_column('score', row.column)} and the five dimensions are filled; leave one of the two"
            )
        values["dimensions"] = {field: values.get(field) for field in DIMENSIONS}
    return {field: value for field, value in values.items() if field not in DIMENSIONS}, wrong


def _column(field: str, rater: str) -> str:
    """The heading under which a field stands: as it is called, or the rater's in a wide table."""
    if not rater or field in _KEYS:
        return field
    return rater if field == "score" else f"{rater}.{field}"


def _name(name: str, value: object) -> str:
    if is_blank(value):
        raise ValueError(f"{name} is missing, and a score is there (of merged cells only the first holds the value)")
    if isinstance(value, bool | date | time | timedelta):
        raise ValueError(f"{name} is {_shown(value)}; format the column as text and type it again")
    # Excel stores every number as a float; an id 17.0 was typed as 17.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _sample(name: str, value: object) -> int:
    number = 0 if is_blank(value) else _integer(value)
    if number is None or number < 0:
        raise ValueError(f"{name} is {_shown(value)}, and a whole number from 0 on is expected")
    return number


def _comment(name: str, value: object) -> str | None:
    return None if is_blank(value) else str(value).strip()


def _refusal(path: Path, problems: Sequence[Problem]) -> InputError:
    problems = list(dict.fromkeys(problems))  # a key that is missing in a wide row is missing for every rater
    if len(problems) == 1:
        return InputError(f"{path}, {problems[0].place}: {problems[0].what}; nothing was read")
    lines = [f"  {path.name}, {place}: {what}" for place, what in problems[:_LISTED]]
    more = [f"  and {len(problems) - _LISTED} more"] if len(problems) > _LISTED else []
    return InputError("\n".join([f"{path}: {len(problems)} problems; nothing was read", *lines, *more]))


def _headings(sheet: Sheet) -> list[str]:
    return ["" if cell is None else str(cell).strip().casefold() for cell in sheet.rows[0][1]]


def _listed(headings: Sequence[str]) -> str:
    return ", ".join(heading for heading in headings if heading)


def _place(sheet: Sheet, number: int | None = None) -> str:
    row = f"row {sheet.rows[0][0] if number is None else number}"
    return row if sheet.name is None else f"sheet '{sheet.name}', {row}"


def _wrong_headings(sheet: Sheet, raters: Sequence[str]) -> list[Problem]:
    """What the first row lacks, or has twice, of the columns that are read."""
    headings = _headings(sheet)
    missing = [name for name in ("question_id", "model", *([] if raters else ["rater"])) if name not in headings]
    read = list(_KEYS)
    for rater in raters or [""]:
        score = _column("score", rater)
        dimensions = [_column(name, rater) for name in DIMENSIONS]
        absent = [name for name in dimensions if name.casefold() not in headings]
        if len(absent) < len(dimensions):
            missing += absent
        elif score.casefold() not in headings:
            missing.append(f"{score} (or {', '.join(dimensions)})")
        read += [score, *dimensions, _column("comment", rater)]
    problems = []
    if missing:
        hint = "" if raters else "; where each rater has a column, name them by --rater-columns"
        problems.append(f"no column {', '.join(missing)}; the columns there are: {_listed(headings)}{hint}")
    problems += [f"column {name} stands twice" for name in read if headings.count(name.casefold()) > 1]
    return [Problem(_place(sheet), what) for what in problems]


def _overfull_rows(sheet: Sheet) -> list[Problem]:
    """Rows of a CSV file with more cells than headings: a separator that nobody quoted has shifted the scores."""
    width = len(sheet.rows[0][1])
    return [
        Problem(_place(sheet, number), f"{len(cells)} cells under {width} headings; quote texts that hold a separator")
        for number, cells in sheet.rows[1:]
        if sheet.name is None and not all(map(is_blank, cells[width:]))
    ]


def _unsaved_scores(sheet: Sheet, raters: Sequence[str]) -> list[Problem]:
    """Scores that are formulas which no program has computed; read as blank they would be lost without a word."""
    headings = _headings(sheet)
    scores = {_column(field, rater).casefold() for rater in raters or [""] for field in _SCORES}
    return [
        Problem(_place(sheet, number), f"{headings[column]} holds a formula without a value; type the number")
        for number, column in sorted(sheet.unsaved)
        if column < len(headings) and headings[column] in scores
    ]


def _rows(sheet: Sheet, raters: Sequence[str]) -> list[Row]:
    headings = _headings(sheet)
    rows = []
    for number, cells in sheet.rows[1:]:
        by_heading = dict(zip(headings, cells, strict=False))  # a row may end at its last filled cell
        keys = {name: by_heading.get(name) for name in _KEYS}
        for rater in raters or [""]:
            own = {field: by_heading.get(_column(field, rater).casefold()) for field in (*_SCORES, "comment")}
            rows.append(Row(_place(sheet, number), {**keys, **({"rater": rater} if rater else {}), **own}, rater))
    return rows


def read_delimited(path: Path) -> list[tuple[int, list[str]]]:
    """The rows of a CSV file that are not blank, each with the number that a spreadsheet program shows.

    The separator is the one of comma, semicolon and tab that cuts the first row into most cells. A file that is not
    UTF-8 is read as GB18030, the encoding of Chinese Excel, where it decodes.

    Raises:
        InputError: The file is missing, in another encoding, or has a quote that nothing closes.
    """
    text = _decoded(path)
    first = text.lstrip().splitlines()[:1]
    separator = max(",;\t", key=lambda one: len(next(csv.reader(first, delimiter=one), [])))
    rows = []
    number = 0
    try:
        # Strict, because a quote that is never closed would otherwise swallow all rows after it.
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
    """All sheets of an .xlsx workbook; of formulas the stored results, and where there is none.

    Raises:
        InputError: The file cannot be read, or openpyxl is not installed.
    """
    try:
        from openpyxl import load_workbook
    except ImportError:
        raise InputError(f"{path}: reading .xlsx needs openpyxl; pip install 'medjudge[annotate]'") from None
    try:
        # Read twice: a cell comes either with its formula or with the result that was stored.
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
