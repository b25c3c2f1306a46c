"""What every form has in common: the texts that it shows, and what is found in it when it comes back."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from medjudge.annotate.cells import DIMENSIONS, Problem
from medjudge.annotate.items import ToScore
from medjudge.records import Category

_EARLIER = {
    "en": ("[Earlier question {}]", "[Its answer]", "[Question to score]"),
    "zh": ("【先前的问题{}】", "【对它的回答】", "【待评的问题】"),
}
_NONE = {"en": "(none given)", "zh": "（未提供）"}
# XML 1.0 has no place for these, and no spreadsheet program shows them.
_CONTROL = {code: 0x2400 + code for code in range(32) if chr(code) not in "\t\n\r"}
_CONTROL |= {0xFFFE: 0xFFFD, 0xFFFF: 0xFFFD}


class FormRow(NamedTuple):
    """An item as it came back: `item_id` and `cells` as they were found, `texts` as far as the form shows them.

    `wrong` tells what the reader found out of place in the row. `account` is who was signed in, where a form knows.
    """

    place: str
    rater: str
    item_id: str
    texts: Mapping[str, str]
    cells: Mapping[str, object]
    wrong: tuple[str, ...] = ()
    account: str | None = None


class Form(NamedTuple):
    """A file that came back; `problems` belong to no item."""

    path: Path
    rows: list[FormRow]
    problems: list[Problem]


def score_fields(category: Category) -> tuple[str, ...]:
    """What is filled in for an answer of a category: the five dimensions for MTG, else the score."""
    return tuple(DIMENSIONS) if category == "MTG" else ("score",)


def texts(one: ToScore) -> dict[str, str]:
    """The texts of an item by name; the question comes with the earlier turns of its conversation."""
    language = one.question.language
    earlier, reply, now = _EARLIER[language]
    turns = [
        part
        for number, (prompt, answer) in enumerate(one.earlier, 1)
        for part in (f"{earlier.format(number)}\n{prompt}", f"{reply}\n{answer or _NONE[language]}")
    ]
    question = "\n\n".join([*turns, f"{now}\n{one.question.prompt}"]) if turns else one.question.prompt
    return {
        "question": printable(question),
        "reference": printable(one.question.reference or _NONE[language]),
        "checklist": printable(one.question.checklist or _NONE[language]),
        "answer": printable(one.answer.text),
    }


def printable(text: str) -> str:
    """The text with control characters as visible signs (U+2400 and so on), so that any file format can hold it."""
    return text.translate(_CONTROL)


def same_text(found: str, expected: str) -> bool:
    """Whether two texts are the same but for white space, which spreadsheet programs change on their own."""
    return _bare(found) == _bare(expected)


def _bare(text: str) -> str:
    # openpyxl takes every "x005F_" for an escape of Excel, also where an author wrote it.
    return re.sub(r"\s+", "", text).replace("x005F_", "")
