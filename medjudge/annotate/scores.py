"""Reads physicians' scores from the kinds of file that hospitals have."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import model_validator

from medjudge.annotate.cells import DIMENSIONS, KEY_FIELDS, SCORE_FIELDS, Row, column_name, score_values, whole_number
from medjudge.annotate.plan import rater_problem
from medjudge.annotate.tasks import LEVELS
from medjudge.errors import InputError
from medjudge.files import read_json, read_yaml_texts
from medjudge.records import PhysicianScore
from medjudge.store import read_records
from medjudge.tables.columns import Problems, in_english, known_in_chinese
from medjudge.tables.spreadsheets import CellNames, Sheet, column_letters, is_blank, read_delimited, read_sheets

_TABLES = (".csv", ".tsv", ".xlsx")
_LONGEST_LIST = 500
"""Characters of a list of headings in a message."""


def read_physician_scores(
    path: Path, rater_columns: Sequence[str] = (), label_map: Mapping[str, int] | None = None
) -> list[PhysicianScore]:
    """Reads physicians' scores from any supported kind of file.

    `.jsonl` holds the records themselves. `.csv`, `.tsv` and `.xlsx` are tables: long ones (one row per rater, with
    question_id, model, rater, score or the five dimensions, and optionally sample and comment) or wide ones
    (`rater_columns`).

    Args:
        path: The file.
        rater_columns: The raters of a wide table: each has a column of levels, or five such as `dr_a.safety`.
        label_map: Label -> level 1-5, for scores given as labels such as entailment. Case and spaces around a label do
            not matter; the numbers 1-5 keep their meaning. None where the caller takes no label map.

    Raises:
        InputError: The file cannot be read, or scores in it are invalid. For tables the message lists all
            problems, one per line, each with its place.
    """
    kind = path.suffix.lower()
    labels = None if label_map is None else _checked(label_map.items(), "label map")
    raters = [name.strip() for name in rater_columns]
    if raters and kind not in _TABLES:
        raise InputError(f"{path}: --rater-columns is for tables ({', '.join(_TABLES)}); omit it")
    folded = [name.casefold() for name in raters]
    if not all(folded) or len(set(folded)) < len(folded):
        raise InputError(f"--rater-columns {','.join(raters)}: name each column once, and leave none blank")
    if kind == ".jsonl":
        return _read_lines(path, labels)
    if kind in _TABLES:
        return _read_table(path, raters, labels)
    raise InputError(
        f"{path}: physicians' scores are read from .jsonl, .csv, .tsv and .xlsx; save or export it as one of these"
    )


def _read_table(path: Path, rater_columns: Sequence[str], labels: Mapping[str, int] | None) -> list[PhysicianScore]:
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
    """Turns rows, one per rater and answer, into records; one whose score cells are all blank gives none.

    Raises:
        InputError: A cell is invalid, a key is missing or repeated, or no row has a score.
    """
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
    listed = ", ".join(heading for heading in headings if heading)
    return listed if len(listed) <= _LONGEST_LIST else f"{listed[:_LONGEST_LIST]}..."


def _place(sheet: Sheet, number: int | None = None) -> str:
    row = f"row {sheet.rows[0][0] if number is None else number}"
    return row if sheet.name is None else f"sheet '{sheet.name}', {row}"


def _wrong_headings(sheet: Sheet, raters: Sequence[str]) -> list[str]:
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
    return problems + [f"column {name} appears twice" for name in read if headings.count(name.casefold()) > 1]


def _unsaved_scores(sheet: Sheet, raters: Sequence[str]) -> list[tuple[int, str]]:
    """Rows with scores that are formulas without a stored result; read as blank, they would be lost silently."""
    headings = _headings(sheet)
    scores = {column_name(field, rater).casefold() for rater in raters or [""] for field in SCORE_FIELDS}
    return [
        (
            number,
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


def _read_lines(path: Path, labels: Mapping[str, int] | None) -> list[PhysicianScore]:
    """The records of a .jsonl file; where there are labels, with the level of each."""

    class Labelled(PhysicianScore):
        @model_validator(mode="before")
        @classmethod
        def _level_of_label(cls, fields: Any) -> Any:
            if labels and isinstance(fields, dict) and isinstance(fields.get("score"), str):
                return {**fields, "score": whole_number("score", fields["score"], 1, 5, labels)}
            return fields

    records = read_records(path, Labelled, check=_problem_with_rater)
    return [PhysicianScore.model_validate(record.model_dump()) for record in records]


def _problem_with_rater(score: PhysicianScore) -> str | None:
    problem = rater_problem(score.rater)
    return f"rater '{score.rater}' {problem}" if problem else None


def parse_label_map(text: str) -> dict[str, int]:
    """Reads the level of each label.

    Args:
        text: `entailment=5,neutral=3,contradiction=1`, or the path of a file: .csv or .tsv with a label and a level in
            each row (with or without a heading `label,level`), .json or .yaml with one object of labels and levels.

    Returns:
        Casefolded label -> level 1-5.

    Raises:
        InputError: The file cannot be read, or an entry is not a label with its level; the message names the entry.
    """
    path = Path(text)
    kind = path.suffix.lower()
    if kind not in (".csv", ".tsv", ".json", ".yaml", ".yml"):
        entries = [entry.rpartition("=")[::2] if "=" in entry else (entry, None) for entry in text.split(",")]
        return _checked(entries, "label map")
    fields: Sequence[tuple[str, object]] | None
    if kind in (".csv", ".tsv"):
        rows = [cells for _, cells in read_delimited(path)]
        if rows and [cell.strip().casefold() for cell in rows[0]] in (["label", "level"], ["label", "score"]):
            rows = rows[1:]
        fields = [(cells[0], cells[1] if len(cells) == 2 else cells[1:]) for cells in rows]
    elif kind == ".json":
        content = read_json(path)
        fields = list(content.items()) if isinstance(content, dict) else None
    else:
        fields = read_yaml_texts(path)  # as texts: the labels yes and no would be True and False otherwise
    if fields is None:
        example = '{"entailment": 5}' if kind == ".json" else "entailment: 5"
        raise InputError(f"{path}: an object of labels and levels is expected, such as {example}")
    levels = _checked(fields, str(path))
    if not levels:
        raise InputError(f"{path}: has no label; a label and its level 1-5 are expected in each line")
    return levels


def _checked(entries: Iterable[tuple[str, object]], place: str) -> dict[str, int]:
    """The label map, casefolded."""
    levels: dict[str, int] = {}
    for label, value in entries:
        folded = label.strip().casefold()
        entry = f"{place}, entry '{label.strip()}{'' if value is None else f'={value}'}'"
        level = re.fullmatch(r"[1-5]", str(value).strip())
        if not folded or level is None or isinstance(value, bool):
            raise InputError(f"{entry}: a label and its level 1-5 are expected, such as entailment=5")
        if re.fullmatch(r"[1-5]", folded) and folded != level[0]:
            raise InputError(f"{entry}: the numbers 1-5 keep their meaning; remove it")
        if folded in levels:
            raise InputError(f"{entry}: this label is a duplicate")
        levels[folded] = int(level[0])
    return levels
