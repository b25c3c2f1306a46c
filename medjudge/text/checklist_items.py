"""A question's items: its own, or those of a checklist that is numbered."""

import re
from functools import cache

from pydantic import ConfigDict

from medjudge.languages.texts import PACKAGED, Texts
from medjudge.records import Importance, Question, RubricItem

CORE_POINTS, SECONDARY_POINTS = 2.0, 1.0
"""Points of a core and a secondary item of a checklist; a checklist itself gives no points."""

_NUMBERED = re.compile(r"\s*(?:[（(]?(?P<number>\d{1,2})[.．、)）]|(?P<circled>[①-⑳]))\s*(?P<text>.*\S)\s*")
_CONTINUES = re.compile(r"\s+\S|[-*•·]\s*\S")
_LEAD = r"\W*(?:[一二三四五六七八九十IVX]{1,3}[、.．)）]\s*)?[#*【\[\s]*"
_TAIL = r"[】\]*]*\s*(?:[:：][*\s]*)?"


class _Headings(Texts):
    """The headings in a checklist, as regular expressions; the file holds more."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    core: list[str]
    secondary: list[str]


def items_of(question: Question) -> list[RubricItem]:
    """The items of a question: those that it carries, or those of its numbered checklist; none where it has neither."""
    if question.items is not None:
        return question.items
    return split_checklist(question.checklist or "") or []


def split_checklist(checklist: str) -> list[RubricItem] | None:
    """Split a checklist into items.

    It is split where every line is a heading of core or secondary requirements, a numbered item, or the continuation of
    one (indented, or with a bullet), and the numbers count from 1 under each heading. Items that stand under no heading
    are core. What is written twice counts once, where it stands first.

    Returns:
        The items in their order; None where the checklist is not numbered in this way.
    """
    texts: dict[str, Importance] = {}
    importance: Importance = "core"
    expected, open_item = 1, ""
    for line in checklist.splitlines():
        if not line.strip():
            continue
        heading = next((kind for pattern, kind in _headings() if pattern.fullmatch(line)), None)
        numbered = _NUMBERED.fullmatch(line)
        if heading is not None:
            importance, expected, open_item = heading, 1, ""
        elif numbered is not None:
            number = int(numbered["number"] or ord(numbered["circled"]) - ord("①") + 1)
            if number != expected:
                return None
            expected, open_item = expected + 1, numbered["text"]
            texts.setdefault(open_item, importance)
        elif open_item and _CONTINUES.match(line):
            longer = f"{open_item} {line.strip()}"
            texts = {longer if text == open_item else text: kind for text, kind in texts.items()}
            open_item = longer
        else:
            return None
    points: dict[Importance, float] = {"core": CORE_POINTS, "secondary": SECONDARY_POINTS}
    items = [RubricItem(text=text, points=points[kind], importance=kind) for text, kind in texts.items()]
    return items or None


@cache
def _headings() -> list[tuple[re.Pattern[str], Importance]]:
    """The lines that head core and secondary requirements, for each language that has word lists."""
    file = "graded_answers.yaml"
    patterns: list[tuple[re.Pattern[str], Importance]] = []
    for words in (PACKAGED.load(language, file, _Headings) for language in PACKAGED.codes(file)):
        lists: dict[Importance, list[str]] = {"core": words.core, "secondary": words.secondary}
        for kind, names in lists.items():
            patterns.append((re.compile(f"{_LEAD}(?:{'|'.join(names)}){_TAIL}", re.IGNORECASE), kind))
    return patterns
