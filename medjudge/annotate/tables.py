"""Reads tables of physicians' scores: long ones with a column `rater`, and wide ones with a column for each rater."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from medjudge.annotate.cells import DIMENSIONS, KEY_FIELDS, SCORE_FIELDS, Problem, Row, column_name, physician_scores
from medjudge.annotate.tasks import LEVELS
from medjudge.errors import InputError
from medjudge.records import PhysicianScore
from medjudge.tables.columns import in_english, known_in_chinese
from medjudge.tables.spreadsheets import CellNames, Sheet, column_letters, read_sheets

_LONGEST_LIST = 500
"""Characters of a list of headings in a message."""


def read_table(path: Path, rater_columns: Sequence[str], labels: Mapping[str, int] | None) -> list[PhysicianScore]:
    """Reads a .csv, .tsv or .xlsx file; of a workbook every sheet with a column `question_id`.

    Args:
        path: The file.
        rater_columns: The raters of a wide table; each has a column of levels, or five such as `dr_a.safety`. Empty for
            a long table with the columns `rater` and `score`, or the five dimensions.
        labels: Casefolded label -> level, for cells that hold no level; None where labels are not allowed.

    Raises:
        InputError: The file cannot be read, lacks a column, or has invalid cells. Several problems are reported as a
            summary and one line each.
    """
    filled = [_with_english_headings(sheet, rater_columns) for sheet in read_sheets(path) if sheet.rows]
    scored = [sheet for sheet in filled if "question_id" in _headings(sheet)]
    if any(LEVELS.headings["answer"].casefold() in _headings(sheet) for sheet in filled):
        raise InputError(
            f"{path}: a form of `medjudge annotate export`; import it first with `medjudge annotate import`"
        )
    if not scored:
        columns = "; ".join(f"{_place(sheet)}: {_listed(_headings(sheet))}" for sheet in filled)
        known = known_in_chinese([heading for sheet in filled for heading in _headings(sheet)])
        raise InputError(f"{path}: no column question_id; its columns are: {columns or 'none, it is empty'}{known}")
    rows: list[Row] = []
    problems: list[Problem] = []
    for sheet in scored:
        wrong = _wrong_headings(sheet, rater_columns)
        problems += wrong or [*_misplaced(sheet), *_unsaved_scores(sheet, rater_columns)]
        rows += [] if wrong else _rows(sheet, rater_columns)
    return physician_scores(path, rows, labels, problems)


def _with_english_headings(sheet: Sheet, raters: Sequence[str]) -> Sheet:
    """The sheet with Chinese names of columns in English, but for those of raters."""
    (number, cells), *rows = sheet.rows
    written = ["" if cell is None else str(cell) for cell in cells]
    own = {rater.casefold() for rater in raters}
    english = [
        heading if heading.strip().casefold() in own else field
        for heading, field in zip(written, in_english(written), strict=True)
    ]
    return sheet._replace(rows=[(number, english), *rows])


def _headings(sheet: Sheet) -> list[str]:
    return ["" if cell is None else str(cell).strip().casefold() for cell in sheet.rows[0][1]]


def _listed(headings: Sequence[str]) -> str:
    listed = ", ".join(heading for heading in headings if heading)
    return listed if len(listed) <= _LONGEST_LIST else f"{listed[:_LONGEST_LIST]}..."


def _place(sheet: Sheet, number: int | None = None) -> str:
    row = f"row {sheet.rows[0][0] if number is None else number}"
    return row if sheet.name is None else f"sheet '{sheet.name}', {row}"


def _wrong_headings(sheet: Sheet, raters: Sequence[str]) -> list[Problem]:
    """Columns that the first row lacks or repeats, of those that are read."""
    headings = _headings(sheet)
    missing = [name for name in ("question_id", "model", *([] if raters else ["rater"])) if name not in headings]
    read = list(KEY_FIELDS)
    for rater in raters or [""]:
        score = column_name("score", rater)
        dimensions = [column_name(name, rater) for name in DIMENSIONS]
        absent = [name for name in dimensions if name.casefold() not in headings]
        if len(absent) < len(dimensions):
            missing += absent
        elif score.casefold() not in headings:
            missing.append(f"{score} (or {', '.join(dimensions)})")
        read += [score, *dimensions, column_name("comment", rater)]
    problems = []
    if missing:
        hint = "" if raters else "; if each rater has a column, name the columns with --rater-columns"
        known = known_in_chinese(headings)
        problems.append(f"no column {', '.join(missing)}; the columns are: {_listed(headings)}{hint}{known}")
    problems += [f"column {name} appears twice" for name in read if headings.count(name.casefold()) > 1]
    return [Problem(_place(sheet), what) for what in problems]


def _misplaced(sheet: Sheet) -> list[Problem]:
    return [Problem(_place(sheet, number), what) for number, what in sheet.misplaced().items()]


def _unsaved_scores(sheet: Sheet, raters: Sequence[str]) -> list[Problem]:
    """Scores that are formulas without a stored result; read as blank, they would be lost silently."""
    headings = _headings(sheet)
    scores = {column_name(field, rater).casefold() for rater in raters or [""] for field in SCORE_FIELDS}
    return [
        Problem(
            _place(sheet, number),
            f"{headings[column]} in {column_letters(column)}{number} holds a formula without a value; type the number",
        )
        for number, column in sorted(sheet.unsaved)
        if column < len(headings) and headings[column] in scores
    ]


def _rows(sheet: Sheet, raters: Sequence[str]) -> list[Row]:
    headings = _headings(sheet)
    letters = {heading: column_letters(index) for index, heading in enumerate(headings)}
    fields = (*KEY_FIELDS, *SCORE_FIELDS, "comment")
    column_of = {rater: {field: column_name(field, rater).casefold() for field in fields} for rater in raters or [""]}
    letters_of = {
        rater: {field: letters[column] for field, column in columns.items() if column in letters}
        for rater, columns in column_of.items()
    }
    rows = []
    for number, cells in sheet.rows[1:]:
        by_heading = dict(zip(headings, cells, strict=False))  # a row may end at its last filled cell
        for rater, columns in column_of.items():
            values = {field: by_heading.get(column) for field, column in columns.items()}
            if rater:
                values["rater"] = rater
            rows.append(Row(_place(sheet, number), values, rater, CellNames(letters_of[rater], number)))
    return rows
