"""Reads physicians' scores from the kinds of file that hospitals have."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import model_validator

from medjudge.annotate.cells import whole_number
from medjudge.annotate.plan import rater_problem
from medjudge.annotate.tables import read_table
from medjudge.errors import InputError
from medjudge.files import read_json, read_yaml_texts
from medjudge.records import PhysicianScore
from medjudge.store import read_records
from medjudge.tables.spreadsheets import read_delimited

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
        return (
            read_records(path, PhysicianScore, check=_problem_with_rater)
            if not labels
            else _labelled_records(path, labels)
        )
    if kind in _TABLES:
        return read_table(path, raters, labels)
    raise InputError(
        f"{path}: physicians' scores are read from .jsonl, .csv, .tsv and .xlsx; save or export it as one of these"
    )


def _labelled_records(path: Path, labels: Mapping[str, int]) -> list[PhysicianScore]:
    class Labelled(PhysicianScore):
        @model_validator(mode="before")
        @classmethod
        def _level_of_label(cls, fields: Any) -> Any:
            if isinstance(fields, dict) and isinstance(fields.get("score"), str):
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
