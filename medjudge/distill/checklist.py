"""The points of a checklist, and which parts of a text carry them."""

import re
from collections.abc import Sequence, Set
from typing import NamedTuple

from medjudge.distill.wording import Wording, wording_of

_HEADING_LEAD = r"\W*(?:[一二三四五六七八九十IVX\d]{1,3}[、.．)）])?\s*[#*【\[]*"
_HEADING_TAIL = r"[】\]*]*\s*(?:[（(][^）)]*[）)])?\s*(?:[:：][*]*\s*|$)"
_ITEM = re.compile(r"\s*(?:[-*+•●]\s*|[（(]?\d{1,2}[.．、)）]\s*|[①-⑳]\s*)")
_ITEM_WITHIN = re.compile(r"(?<=[；;。])\s*(?=\d{1,2}[.．、)）]\s*\D)")
_WORDS = re.compile(r"\d+(?:\.\d+)?|[A-Za-zµμ]{2,}(?:-?\d+)?|[\u4e00-\u9fff]+")
_LOCATED = 0.3
"""The share of a point's terms that a reference must hold for the point to be found in it."""


class Point(NamedTuple):
    """One requirement."""

    text: str
    core: bool


class Carried(NamedTuple):
    """A point as a text carries it: for each of its terms the weight, and the parts of the text that hold it.

    A term weighs less the more parts hold it: what all parts speak of tells nothing about one of them.
    """

    core: bool
    terms: tuple[tuple[float, frozenset[int]], ...]


def points_of(checklist: str | None) -> list[Point]:
    """Reads the core and secondary points of a checklist, in either language.

    Points without a heading above them are core. Points on form, tone and wording are left out: no sentence of an
    answer carries them. No points where there is no checklist.
    """
    points: list[Point] = []
    core = True
    for line in (checklist or "").splitlines():
        for found, is_core in ((_heading(line, "core"), True), (_heading(line, "secondary"), False)):
            if found:
                core, line = is_core, line[found.end() :]
        for item in _ITEM_WITHIN.split(line):
            text = _ITEM.sub("", item, count=1).strip()
            if any(wording_of(language).form_labels.match(text) for language in ("en", "zh")):
                continue
            text = re.sub(r"^(?:[\u4e00-\u9fff]{2,6}要求|内容)[①-⑳\d]*\s*[:：]\s*", "", text)
            if re.search(r"\w", text):
                points.append(Point(text, core))
    return points


def is_checklist(text: str) -> bool:
    """Whether a text, given as a reference, is a list of requirements and no answer."""
    return any(_heading(line, "core") or _heading(line, "secondary") for line in text.splitlines())


def _heading(line: str, kind: str) -> re.Match[str] | None:
    for language in ("en", "zh"):
        names = "|".join(wording_of(language).said[kind])
        if found := re.match(f"{_HEADING_LEAD}(?:{names}){_HEADING_TAIL}", line, re.IGNORECASE):
            return found
    return None


def terms(text: str, wording: Wording) -> frozenset[str]:
    """What a text speaks of: numbers, words cut to a stem, and pairs of Chinese characters."""
    found: set[str] = set()
    for word in _WORDS.findall(text):
        if "\u4e00" <= word[0] <= "\u9fff":
            pairs = {word[at : at + 2] for at in range(len(word) - 1)}
            found |= {pair for pair in pairs if pair not in wording.stop_words and pair[0] not in wording.stop_words}
        elif word.lower() not in wording.stop_words:
            found.add(re.sub(r"(?:ies|es|ed|ing|s|ly)$", "", word.lower())[:7])
    return frozenset(found)


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
        asked = terms(wording.item_openers.sub("", point.text), wording)
        found = sorted(asked & holders.keys())
        if found and len(found) >= _LOCATED * len(asked):
            weighed = ((2.0 if term[0].isdigit() else 1.0) / len(holders[term]) for term in found)
            result.append(
                Carried(point.core, tuple(zip(weighed, (frozenset(holders[term]) for term in found), strict=True)))
            )
    return result


def remaining(point: Carried, dropped: Set[int]) -> float:
    """The share of a point that a text without these parts still carries, from 0 (lost) to 1 (as in the whole text)."""
    left = sum(weight for weight, holders in point.terms if not holders <= dropped)
    return left / sum(weight for weight, _ in point.terms)


def share(point: Carried, part: int) -> float:
    """The share of a point's terms that one part holds, however many other parts do."""
    return sum(part in holders for _, holders in point.terms) / len(point.terms)
