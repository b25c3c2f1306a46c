"""Reads physicians' scores from the kinds of file that hospitals have."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from textwrap import shorten

from medjudge.annotate.cells import DIMENSIONS, KEY_FIELDS, SCORE_FIELDS, Row, score_values
from medjudge.annotate.plan import rater_problem
from medjudge.annotate.tasks import LEVELS
from medjudge.errors import InputError
from medjudge.records import PhysicianScore
from medjudge.store import read_records
from medjudge.tables.columns import Problems, in_english, known_in_chinese
from medjudge.tables.spreadsheets import CellNames, Sheet, column_letters, is_blank, read_sheets

_TABLES = (".csv", ".tsv", ".xlsx")


def read_physician_scores(
    path: Path, rater_columns: Sequence[str] = (), label_map: Mapping[str, int] | None = None
) -> list[PhysicianScore]:
    """Reads physicians' scores from any supported kind of file.

    `.jsonl` holds the records themselves. `.csv`, `.tsv` and `.xlsx` are tables: long ones (one row per rater, with
    question_id, model, rater, score or the five dimensions, and optionally sample and comment) or wide ones
    (`rater_columns`).

    Args:
        path: The file.
        rater_columns: The raters of a wide table: each has a column of levels.
        label_map: Casefolded label -> level 1-5, for tables with labels such as entailment; the numbers 1-5 keep their
            meaning. None where the caller takes no label map.

    Raises:
        InputError: The file cannot be read, or scores in it are invalid. For tables the message lists all
            problems, one per line, each with its place.
    """
    kind = path.suffix.lower()
    raters = [name.strip() for name in rater_columns]
    if kind not in _TABLES:
        for option, given in (("--rater-columns", raters), ("--label-map", label_map)):
            if given:
                raise InputError(f"{path}: {option} is for tables ({', '.join(_TABLES)}); omit it")
    folded = [name.casefold() for name in raters]
    if not all(folded) or len(set(folded)) < len(folded):
        raise InputError(f"--rater-columns {','.join(raters)}: name each column once, and leave none blank")
    if kind == ".jsonl":
        return read_records(path, PhysicianScore, check=_problem_with_rater)
    if kind in _TABLES:
        return _read_table(path, raters, label_map)
    raise InputError(
        f"{path}: physicians' scores are read from .jsonl, .csv, .tsv and .xlsx; save or export it as one of these"
    )


def _read_table(path: Path, rater_columns: Sequence[str], labels: Mapping[str, int] | None) -> list[PhysicianScore]:
    """Reads a .csv, .tsv or .xlsx file; of a workbook every sheet with a column `question_id`."""
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
    problems = Problems(path)
    for sheet in scored:
        if wrong := _wrong_headings(sheet, rater_columns):
            for what in wrong:
                problems.add(_place(sheet), what)
            continue
        for number, what in [*sheet.misplaced().items(), *_unsaved_scores(sheet, rater_columns)]:
            problems.add(_place(sheet, number), what)
        rows += _rows(sheet, rater_columns)
    return _scores_of(rows, labels, problems)


def _scores_of(rows: Iterable[Row], labels: Mapping[str, int] | None, problems: Problems) -> list[PhysicianScore]:
    """Turns rows, one per rater and answer, into records; one whose score cells are all blank gives none."""
    records = []
    place_of_key: dict[tuple[object, ...], str] = {}
    repeated: set[str] = set()
    for row in rows:
        if all(is_blank(row.cells.get(field)) for field in SCORE_FIELDS):
            continue
        values, wrong = score_values(row, labels)
        for what in wrong:
            problems.add(row.place, str(what))
        key = tuple(values.get(name) for name in KEY_FIELDS)
        # A repeated row of a wide table is repeated for every rater; it is reported once.
        if key in place_of_key and row.place not in repeated:
            repeated.add(row.place)
            what = f"{' / '.join(map(str, key))} duplicates {place_of_key[key]}; remove one of the two"
            problems.add(row.place, what)
        if None not in key:
            place_of_key.setdefault(key, row.place)
        if not problems.lines:
            records.append(PhysicianScore.model_validate(values))
    problems.lines = list(dict.fromkeys(problems.lines))  # a key that a wide row lacks is missing for every rater
    problems.refuse()
    if not records:
        raise InputError(f"{problems.path}: has no score; every score cell is blank")
    return records


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
    return shorten(", ".join(heading for heading in headings if heading), 500, placeholder="...")


def _place(sheet: Sheet, number: int | None = None) -> str:
    row = f"row {sheet.rows[0][0] if number is None else number}"
    return row if sheet.name is None else f"sheet '{sheet.name}', {row}"


def _wrong_headings(sheet: Sheet, raters: Sequence[str]) -> list[str]:
    """Columns that the first row lacks or repeats, of those that are read."""
    headings = _headings(sheet)
    by_dimensions = not raters and any(name in headings for name in DIMENSIONS)
    scores = raters or (DIMENSIONS if by_dimensions else ["score"])
    wanted = ["question_id", "model", *([] if raters else ["rater"]), *scores]
    missing = [name for name in wanted if name.casefold() not in headings]
    if "score" in missing:
        missing[-1] = f"score (or {', '.join(DIMENSIONS)})"
    read = raters or [*SCORE_FIELDS, "comment"]
    problems = []
    if missing:
        hint = "" if raters else "; if each rater has a column, name the columns with --rater-columns"
        known = known_in_chinese(headings)
        problems.append(f"no column {', '.join(missing)}; the columns are: {_listed(headings)}{hint}{known}")
    repeated = [name for name in (*KEY_FIELDS, *read) if headings.count(name.casefold()) > 1]
    return problems + [f"column {name} appears twice" for name in repeated]


def _unsaved_scores(sheet: Sheet, raters: Sequence[str]) -> list[tuple[int, str]]:
    """Rows with scores that are formulas without a stored result; read as blank, they would be lost silently."""
    headings = _headings(sheet)
    scores = {name.casefold() for name in raters or SCORE_FIELDS}
    what = "holds a formula without a value; type the number"
    return [
        (number, f"{headings[column]} in {column_letters(column)}{number} {what}")
        for number, column in sorted(sheet.unsaved)
        if column < len(headings) and headings[column] in scores
    ]


def _rows(sheet: Sheet, raters: Sequence[str]) -> list[Row]:
    headings = _headings(sheet)
    letters = {heading: column_letters(index) for index, heading in enumerate(headings)}
    rows = []
    for number, cells in sheet.rows[1:]:
        by_heading = dict(zip(headings, cells, strict=False))  # a row may end at its last filled cell
        place = _place(sheet, number)
        if not raters:
            rows.append(Row(place, by_heading, at=CellNames(letters, number)))
        for rater in raters:
            column = rater.casefold()
            values = {name: by_heading.get(name) for name in ("question_id", "model", "sample")}
            values |= {"rater": rater, "score": by_heading.get(column), "comment": by_heading.get(f"{column}.comment")}
            at = CellNames({**letters, "score": letters[column]}, number)
            rows.append(Row(place, values, rater, at))
    return rows


def _problem_with_rater(score: PhysicianScore) -> str | None:
    problem = rater_problem(score.rater)
    return f"rater '{score.rater}' {problem}" if problem else None


def parse_label_map(text: str) -> dict[str, int]:
    """Reads the level of each label.

    Args:
        text: Such as `entailment=5,neutral=3,contradiction=1`.

    Returns:
        Casefolded label -> level 1-5.

    Raises:
        InputError: An entry is not a label with its level; the message names the entry.
    """
    levels: dict[str, int] = {}
    for entry in text.split(","):
        label, _, value = (part.strip() for part in entry.rpartition("="))
        place, folded = f"--label-map, entry '{entry.strip()}'", label.casefold()
        if not folded or not re.fullmatch(r"[1-5]", value):
            raise InputError(f"{place}: a label and its level 1-5 are expected, such as entailment=5")
        if re.fullmatch(r"[1-5]", folded) and folded != value:
            raise InputError(f"{place}: the numbers 1-5 keep their meaning; remove it")
        if folded in levels:
            raise InputError(f"{place}: this label is a duplicate")
        levels[folded] = int(value)
    return levels
