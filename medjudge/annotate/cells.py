"""Reads the cells of a physician's score, without guessing."""

import re
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from medjudge.annotate.plan import rater_problem
from medjudge.annotate.wording import Message, message
from medjudge.records import MTGDimensions
from medjudge.tables.spreadsheets import CellNames, Formatted, artefact, is_blank

DIMENSIONS = {name: 1 if name == "safety" else 5 for name in MTGDimensions.model_fields}
"""The five MTG dimensions, each with the upper end of its scale; all start at 0."""

KEY_FIELDS = ("question_id", "model", "sample", "rater")
SCORE_FIELDS = ("score", *DIMENSIONS)
_MEANT_AS_BLANK = {"na", "n/a", "#n/a", "nan", "null", "none", "-", "–", "—", "/"}


class Row(NamedTuple):
    """One rater's cells for one answer.

    The fields of `cells` are question_id, model, sample, rater, score, the five dimensions and comment. `column` is the
    heading of the score in a wide table. `at` names the cells of the fields.
    """

    place: str
    cells: Mapping[str, object]
    column: str = "score"
    at: CellNames = CellNames()

    def name(self, field: str) -> Message | str:
        """A field as problems name it."""
        return cell_name(self.at, field, self.column if field == "score" else field)


class CellError(ValueError):
    """A cell that cannot be read."""

    def __init__(self, what: Message | str) -> None:
        super().__init__(str(what))
        self.what = what


def whole_number(
    name: Message | str, value: object, low: int, high: int, labels: Mapping[str, int] | None = None
) -> int | None:
    """Reads a cell as a whole number, without guessing: 4, 4.0 and "4" are four; 4.5 and "4 - good" are errors.

    Args:
        name: The name of the cell in errors.
        value: As it is in the file.
        low: Lower end of the scale.
        high: Upper end of the scale.
        labels: Casefolded label -> number, used if the cell holds no number on the scale; None where labels are not
            allowed.

    Returns:
        The number, or None where the cell is blank.

    Raises:
        CellError: The cell holds anything else.
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
        off = "zero_or_one" if (low, high) == (0, 1) else "off_scale"
        raise CellError(message(off, cell=name, value=number, low=low, high=high))
    if label in _MEANT_AS_BLANK:
        raise CellError(message("meant_as_blank", cell=name, value=_shown(value)))
    if labels is None or not isinstance(value, str) or re.fullmatch(r"[-+]?\d+[.,]\d+", label):
        wrong = "zero_or_one" if (low, high) == (0, 1) else "converted" if artefact(value) else "no_whole_number"
        raise CellError(message(wrong, cell=name, value=_shown(value), low=low, high=high))
    if not labels:
        raise CellError(f"{name} is {_shown(value)}; which level is it? --label-map 'entailment=5,neutral=3'")
    raise CellError(f"{name} is {_shown(value)}; the label map has only {', '.join(labels)}")


def _integer(value: object) -> int | None:
    if isinstance(value, bool) or (isinstance(value, Formatted) and "%" in value.code):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return int(value) if value.is_integer() else None
    # German Excel writes a decimal comma; before three zeros it could separate thousands.
    match = re.fullmatch(r"([-+]?\d{1,9})(\.0+|,0{1,2})?", value.strip()) if isinstance(value, str) else None
    return int(match[1]) if match else None


def _shown(value: object) -> str:
    if what := artefact(value):
        return what
    text = f"'{value.strip()}'" if isinstance(value, str) else str(value)
    return text if len(text) <= 60 else f"{text[:56]}...'"


def score_values(row: Row, labels: Mapping[str, int] | None) -> tuple[dict[str, Any], list[Message | str]]:
    """The fields of a PhysicianScore as far as they can be read from a row, and what is wrong with the others.

    Args:
        labels: As for `whole_number`.
    """
    values: dict[str, Any] = {}
    wrong: list[Message | str] = []
    readers: dict[str, Callable[..., object]] = {"question_id": _name, "model": _name, "rater": _rater}
    readers |= {"sample": _sample, "comment": _comment, "score": partial(whole_number, low=1, high=5, labels=labels)}
    readers |= {field: partial(whole_number, low=0, high=high) for field, high in DIMENSIONS.items()}
    for field, read in readers.items():
        try:
            values[field] = read(row.name(field), row.cells.get(field))
        except CellError as error:
            wrong.append(error.what)
    blank = [row.name(field) for field in DIMENSIONS if is_blank(row.cells.get(field))]
    if len(blank) < len(DIMENSIONS):
        if blank:
            wrong.append(message("dimensions_missing", cells=blank))
        elif not is_blank(row.cells.get("score")):
            wrong.append(message("score_and_dimensions", cell=row.name("score")))
        values["dimensions"] = {field: values.get(field) for field in DIMENSIONS}
    return {field: value for field, value in values.items() if field not in DIMENSIONS}, wrong


def cell_name(at: CellNames, field: str, heading: str = "") -> Message | str:
    """A field, or its heading in the file, and its cell where the file has cells."""
    letters = at.letters.get(field)
    return message("cell", field=heading or field, at=f"{letters}{at.row}") if letters else heading or field


def _name(name: Message | str, value: object) -> str:
    if is_blank(value):
        raise CellError(f"{name} is missing in a row with a score (of merged cells only the first has a value)")
    if isinstance(value, bool) or artefact(value):
        raise CellError(message("type_again", cell=name, value=_shown(value)))
    # Excel stores every number as a float; an id 17.0 was typed as 17.
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def _rater(name: Message | str, value: object) -> str:
    rater = _name(name, value)
    if problem := rater_problem(rater):
        raise CellError(f"rater '{rater}' {problem}")
    return rater


def _sample(name: Message | str, value: object) -> int:
    number = 0 if is_blank(value) else _integer(value)
    if number is None or number < 0:
        raise CellError(f"{name} is {_shown(value)}; a whole number from 0 on is expected")
    return number


def _comment(name: Message | str, value: object) -> str | None:
    if artefact(value):
        raise CellError(message("type_again", cell=name, value=_shown(value)))
    return None if is_blank(value) else str(value).strip()
