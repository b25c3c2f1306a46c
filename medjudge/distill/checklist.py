"""The points of a checklist, and which parts of a text carry them."""

import re
from collections.abc import Sequence, Set
from typing import NamedTuple

from medjudge.distill.wording import Wording, all_wordings
from medjudge.languages.texts import PACKAGED, Languages

_HEADING_LEAD = r"\W*(?:[一二三四五六七八九十IVX\d]{1,3}[、.．)）])?\s*[#*【\[]*"
_HEADING_TAIL = r"[】\]*]*\s*(?:[（(][^）)]*[）)])?\s*(?:[:：][*]*\s*|$)"
_ITEM = re.compile(r"\s*(?:[-*+•●]\s*|[（(]?\d{1,2}[.．、)）]\s*|[①-⑳]\s*)")
_ITEM_WITHIN = re.compile(r"(?<=[；;。])\s*(?=\d{1,2}[.．、)）]\s*\D)")
_WORDS = re.compile(r"\d+(?:\.\d+)?|[A-Za-zµμ]{2,}(?:-?\d+)?|[\u4e00-\u9fff]+")
_LOCATED = 0.3
"""The share of a point's terms that a reference must hold for the point to be found in it."""


class Point(NamedTuple):
    """One requirement, and whether it is a core or a secondary one."""

    text: str
    core: bool


class Carried(NamedTuple):
    """A point as a text carries it: for each of its terms the weight, and the parts of the text that hold it.

    A term weighs less the more parts hold it: what all parts speak of tells nothing about one of them.
    """

    core: bool
    terms: tuple[tuple[float, frozenset[int]], ...]


def points_of(checklist: str | None, languages: Languages = PACKAGED) -> list[Point]:
    """Reads the core and secondary points of a checklist, in any language that has word lists.

    Points without a heading above them are core. Points on form, tone and wording are left out: no sentence of an
    answer carries them. No points where there is no checklist.
    """
    points: list[Point] = []
    core = True
    for line in (checklist or "").splitlines():
        for is_core in (True, False):
            if heading := _heading(line, is_core, languages):
                core, line = is_core, line[heading.end() :]
        for item in _ITEM_WITHIN.split(line):
            text = _ITEM.sub("", item, count=1).strip()
            if any(wording.form_labels.match(text) for wording in all_wordings(languages)):
                continue
            text = re.sub(r"^(?:[\u4e00-\u9fff]{2,6}要求|内容)[①-⑳\d]*\s*[:：]\s*", "", text)
            if re.search(r"\w", text):
                points.append(Point(text, core))
    return points


def is_checklist(text: str, languages: Languages = PACKAGED) -> bool:
    """Whether a text that stands as a reference is a list of requirements and no answer."""
    return any(
        _heading(line, is_core=True, languages=languages) or _heading(line, is_core=False, languages=languages)
        for line in text.splitlines()
    )


def _heading(line: str, is_core: bool, languages: Languages) -> re.Match[str] | None:
    for wording in all_wordings(languages):
        names = "|".join(wording.texts.core if is_core else wording.texts.secondary)
        if heading := re.match(f"{_HEADING_LEAD}(?:{names}){_HEADING_TAIL}", line, re.IGNORECASE):
            return heading
    return None


def terms(text: str, wording: Wording) -> frozenset[str]:
    """What a text speaks of: numbers, words cut to a stem, and pairs of Chinese characters."""
    result: set[str] = set()
    for word in _WORDS.findall(text):
        if "\u4e00" <= word[0] <= "\u9fff":
            pairs = {word[at : at + 2] for at in range(len(word) - 1)}
            result |= {pair for pair in pairs if pair not in wording.stop_words and pair[0] not in wording.stop_words}
        elif word.lower() not in wording.stop_words:
            result.add(re.sub(r"(?:ies|es|ed|ing|s|ly)$", "", word.lower())[:7])
    return frozenset(result)


def carried(points: Sequence[Point], parts: Sequence[frozenset[str]], wording: Wording) -> list[Carried]:
    """The points that a text's parts carry; those that cannot be found in it are left out.

    Args:
        points: Of the checklist.
        parts: The terms of each part, shape (n parts,).
        wording: Of the text's language.
    """
    holders: dict[str, set[int]] = {}
    for number, part in enumerate(parts):
        for term in part:
            holders.setdefault(term, set()).add(number)
    result = []
    for point in points:
        point_terms = terms(wording.item_openers.sub("", point.text), wording)
        located = sorted(point_terms & holders.keys())
        if located and len(located) >= _LOCATED * len(point_terms):
            weights = ((2.0 if term[0].isdigit() else 1.0) / len(holders[term]) for term in located)
            parts_of_terms = (frozenset(holders[term]) for term in located)
            result.append(Carried(point.core, tuple(zip(weights, parts_of_terms, strict=True))))
    return result


def remaining(point: Carried, dropped: Set[int]) -> float:
    """The share of a point that a text without these parts still carries, from 0 (lost) to 1 (as in the whole text)."""
    left = sum(weight for weight, holders in point.terms if not holders <= dropped)
    return left / sum(weight for weight, _ in point.terms)


def share(point: Carried, part: int) -> float:
    """The share of a point's terms that one part holds, however many other parts do."""
    return sum(part in holders for _, holders in point.terms) / len(point.terms)
