"""What all kinds of form have in common: the texts that they show, and what they hold when they come back."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from medjudge.annotate.cells import DIMENSIONS, Problem
from medjudge.annotate.items import ToScore
from medjudge.annotate.wording import form_texts
from medjudge.errors import InputError
from medjudge.tables.spreadsheets import CellNames

# XML 1.0 does not allow these characters, and no spreadsheet program shows them.
_CONTROL = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"}
_CONTROL |= {0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}


class FormRow(NamedTuple):
    """An item as it came back.

    Attributes:
        place: Where the row is in the file.
        item_id: As the file has it, known or not.
        texts: The texts that the form shows, by field.
        cells: What was filled in, by field.
        wrong: Problems that the reader found in the row.
        account: Who was signed in, where the form records it.
        at: The cells of the fields.
    """

    place: str
    rater: str
    item_id: str
    texts: Mapping[str, str]
    cells: Mapping[str, object]
    wrong: tuple[str, ...] = ()
    account: str | None = None
    at: CellNames = CellNames()


class Form(NamedTuple):
    """A file that came back; its `problems` belong to no item."""

    path: Path
    rows: list[FormRow]
    problems: list[Problem]


def score_fields(by_dimensions: bool) -> tuple[str, ...]:
    """The fields that a rater fills in: the five dimensions, or the score."""
    return tuple(DIMENSIONS) if by_dimensions else ("score",)


def texts(entry: ToScore) -> dict[str, str]:
    """The texts of an item by field; the question comes with the earlier turns of its conversation."""
    words = form_texts(entry.question.language, entry.languages)
    turns = [
        part
        for number, turn in enumerate(entry.earlier, 1)
        for part in (
            f"{words.earlier_question.format(number=number)}\n{turn.prompt}",
            f"{words.earlier_answer}\n{turn.answer or words.not_given}",
        )
    ]
    prompt = entry.question.prompt
    question = "\n\n".join([*turns, f"{words.current_question}\n{prompt}"]) if turns else prompt
    return {
        "question": printable(question),
        "reference": printable(entry.question.reference or words.not_given),
        "checklist": printable(entry.question.checklist or words.not_given),
        "answer": printable(entry.answer.text),
    }


def printable(text: str) -> str:
    """The text with control characters as visible symbols (U+2400 and so on), so that any file format can hold it."""
    return text.translate(_CONTROL)


def same_text(text: str, expected: str) -> bool:
    """Whether two texts are equal except for white space, which spreadsheet programs change."""
    return _bare(text) == _bare(expected)


def _bare(text: str) -> str:
    # openpyxl treats every "x005F_" as an escape of Excel, even where an author wrote it.
    return re.sub(r"\s+", "", text).replace("x005F_", "")


def require_no_problems(problems: Sequence[str]) -> None:
    """Raises InputError with all problems of the forms that came back, where there are any."""
    end = "nothing was imported"
    if len(problems) == 1:
        raise InputError(f"{problems[0]}; {end}")
    if problems:
        raise InputError("\n  ".join([f"{len(problems)} problems; {end}", *problems]))
