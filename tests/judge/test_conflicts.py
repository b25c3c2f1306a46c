"""Facts of an answer that contradict a point's, with states in which a word is near to itself and to its place."""

import numpy as np
import pytest

from medjudge.judge.conflicts import facts_by_token, is_contradicted
from medjudge.judge.evidence import Part, evidence_of
from medjudge.judge.points import Span
from medjudge.judge.states import TextStates

WIDTH, COMMON = 64, 63
"""The states' width, and what all of them share: cosines of a real encoder are high, too."""
IN_PLACE = {"take": 0, "apixaban": 1, "with": 3, "a": 4, "meal": 5, "for": 6, "pain": 8, "daily": 9, "rest": 20}


def states(text: str) -> TextStates:
    """One token a word; words that can stand in each other's place have the same state."""
    words, spans, start = text.split(), [], 0
    for word in words:
        begin = text.index(word, start)
        start = begin + len(word)
        spans.append((begin, start))
    rows = np.zeros((len(words), 2 * WIDTH), np.float16)
    for row, word in enumerate(words):
        place = IN_PLACE.get(word.strip(",.").lower())
        if place is None:  # numbers, units and small words are near to each other
            place = 30 if word[0].isdigit() else 31 if word in ("mg", "g", "days", "weeks") else 32
        rows[row, [place, WIDTH + place]] = 1.0
    rows[:, [COMMON, WIDTH + COMMON]] = 3.0
    whole = rows[:, WIDTH:].astype(np.float32).mean(axis=0)
    ids = np.array([sum(map(ord, word)) for word in words], np.int32)
    return TextStates(ids, np.array(spans, np.int32), rows, whole / np.linalg.norm(whole), 0)


def contradicted(point: str, answer: str) -> bool:
    part, said = states(point), states(answer)
    pieces = evidence_of(Part(1, part, [Span(0, len(point))]), said)
    return any(is_contradicted(piece, facts_by_token(point, part), facts_by_token(answer, said)) for piece in pieces)


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("Take apixaban 5 mg with a meal daily.", False),
        ("Take apixaban 50 mg with a meal daily.", True),
        ("Take apixaban 5 g with a meal daily.", True),
        ("Take apixaban 5000 µg with a meal daily.", False),
        ("Take apixaban 4 to 6 mg with a meal daily.", False),
        ("Take apixaban with a meal daily.", False),
        ("Take apixaban 50 mg with a meal daily, or take 5 mg.", False),
    ],
)
def test_another_quantity_in_its_place_is_a_conflict_and_a_missing_one_is_none(answer: str, expected: bool) -> None:
    assert contradicted("Take apixaban 5 mg with a meal daily.", answer) is expected


def test_a_quantity_of_another_sentence_is_no_conflict() -> None:
    assert not contradicted("Take apixaban 5 mg with a meal daily.", "Rest for pain. " * 12 + "Rest 50 mg rest rest.")


def test_a_denied_clause_contradicts_the_same_clause_without_the_denial() -> None:
    assert contradicted("Take apixaban with a meal", "Do not take apixaban with a meal")
    assert contradicted("Do not take apixaban with a meal", "Take apixaban with a meal")
    assert not contradicted("Do not take apixaban with a meal", "Never take apixaban with a meal")
    assert not contradicted("Take apixaban with a meal", "Do not rest, take apixaban with a meal")
