"""The points of reference and checklist that an answer is compared with, and a rationale from the verdicts on them."""

import re
from collections.abc import Sequence
from typing import NamedTuple

from medjudge.languages.texts import PACKAGED, Texts
from medjudge.records import PointVerdict
from medjudge.text.grammar import grammar_of, sentence_starts

MOST_POINTS = 32
"""The most points of one text; the sentences of a longer one are joined until there are no more."""
_SHORTEST = 12
"""A stretch with fewer characters joins the next one: a number, a heading, a name."""
_ITEM = re.compile(r"^\s*(?:[-*+•●#]+\s*|[（(]?\d{1,2}[.．、)）]\s*|[①-⑳]\s*|[一二三四五六七八九十]{1,2}[、.]\s*)+")
_HEADING = re.compile(r"[：:】\]*]+\s*$")
_VERDICTS_FILE = "point_verdicts.yaml"


class Span(NamedTuple):
    """A stretch of a text, in characters."""

    start: int
    end: int


def reference_points(reference: str, language: str) -> list[Span]:
    """The sentences of a reference, at most `MOST_POINTS`.

    Args:
        language: The language of its grammar, such as `en`.
    """
    grammar = grammar_of(language)
    joined: list[Span] = []
    for line in _lines(reference):
        starts = [line.start + start for start in sentence_starts(reference[line.start : line.end], grammar)]
        for start, end in zip(starts, [*starts[1:], line.end], strict=True):
            if not reference[start:end].strip():
                continue
            if joined and joined[-1].end - joined[-1].start < _SHORTEST:
                start = joined.pop().start
            joined.append(Span(start, end))
    return _at_most(joined)


def checklist_points(checklist: str) -> list[Span]:
    """The items of a checklist without numbers, bullets and headings, at most `MOST_POINTS`."""
    spans = []
    for line in _lines(checklist):
        text = checklist[line.start : line.end]
        if _HEADING.search(text):
            continue
        item = _ITEM.match(text)
        start = line.start + (item.end() if item else 0)
        if re.search(r"\w", checklist[start : line.end]):
            spans.append(Span(start, line.end))
    return _at_most(spans or [Span(0, len(checklist))])


def _lines(text: str) -> list[Span]:
    lines, start = [], 0
    for line in text.splitlines(keepends=True):
        if line.strip():
            lines.append(Span(start, start + len(line.rstrip())))
        start += len(line)
    return lines


def _at_most(spans: list[Span]) -> list[Span]:
    """Joins the two neighbours that are shortest together until few enough are left."""
    spans = list(spans)
    while len(spans) > MOST_POINTS:
        at = min(range(len(spans) - 1), key=lambda index: spans[index + 1].end - spans[index].start)
        spans[at : at + 2] = [Span(spans[at].start, spans[at + 1].end)]
    return spans


def point_rationale(points: Sequence[PointVerdict], language: str) -> str | None:
    """A line for each point that an answer misses or contradicts.

    Args:
        points: The verdicts.
        language: Of the question; the rationale is in English where the package has no texts in this language.

    Returns:
        None where there is no point.
    """
    if not points:
        return None
    known = PACKAGED.codes(_VERDICTS_FILE)
    texts = PACKAGED.load(language if language in known else "en", _VERDICTS_FILE, _PointTexts)
    lines = []
    for point in points:
        if point.verdict != "met":
            denied = point.verdict == "contradicted"
            line, share = (texts.contradicted, point.contradicted) if denied else (texts.missed, point.open)
            lines.append(f"- {line.format(probability=f'{share:.2f}', point=point.point)}")
    return "\n".join(lines) or texts.all_met.format(count=len(points))


class _PointTexts(Texts):
    """A language's `point_verdicts.yaml`."""

    all_met: str
    missed: str
    contradicted: str
