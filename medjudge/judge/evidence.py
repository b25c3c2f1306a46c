"""For each point: the tokens of an answer that are nearest to it, and how near.

Nothing here is trained. The mean over a point's tokens of the best cosine with the answer's tokens is the judge's
untrained baseline.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from medjudge.judge.points import PartKind, Span
from medjudge.judge.states import TextStates

KINDS: tuple[PartKind, ...] = ("question", "reference", "checklist")
MOST_POINT_TOKENS = 64
"""A longer point is read in pieces of equal length."""
MOST_QUESTION_TOKENS = 96
"""Of a longer question, a third of these from its beginning and the others from its end."""
MOST_ANSWER_TOKENS = 64
_SHARPNESS = 20.0
_NEIGHBOURS = 9
"""The tokens over which nearness is spread, so that a negation beside a near token is taken too."""


class Evidence(NamedTuple):
    """A point and the nearest tokens of an answer, both as rows of their texts' states.

    Attributes:
        kind: The index of its kind in `KINDS`.
        number: Which point of its text it belongs to.
        point: Rows of the text that holds the point, shape (p,).
        answer: Rows of the answer, in its order, shape (a,).
        point_match: The best cosine of each point token with any token of the answer, shape (p,).
        answer_match: The best cosine of each of these answer tokens with any token of the point, shape (a,).
        point_partner: The row of the answer that gives it, shape (p,).
        answer_partner: The row of the point's text that gives it, shape (a,).
    """

    kind: int
    number: int
    point: np.ndarray
    answer: np.ndarray
    point_match: np.ndarray
    answer_match: np.ndarray
    point_partner: np.ndarray
    answer_partner: np.ndarray


class Part(NamedTuple):
    """A text that an answer is compared with, and the stretches of it that are its points."""

    kind: int
    states: TextStates
    points: Sequence[Span]


def evidence_of(part: Part, answer: TextStates) -> list[Evidence]:
    """The evidence for each point of a part; a point without tokens is left out."""
    if not len(answer.ids):
        return []
    rows = unit(answer.last)
    found = []
    for number, span in enumerate(part.points):
        for point in _pieces(part, span):
            found.append(_evidence(part, number, point, rows))
    return found


def unit(states: np.ndarray) -> np.ndarray:
    """States of length 1, float32, shape as given."""
    states = states.astype(np.float32)
    return states / np.maximum(np.linalg.norm(states, axis=1, keepdims=True), 1e-6)


def _pieces(part: Part, span: Span) -> list[np.ndarray]:
    starts, ends = part.states.spans[:, 0], part.states.spans[:, 1]
    rows = np.flatnonzero((ends > span.start) & (starts < span.end))
    if KINDS[part.kind] == "question":
        if len(rows) > MOST_QUESTION_TOKENS:
            head = MOST_QUESTION_TOKENS // 3
            rows = np.concatenate([rows[:head], rows[head - MOST_QUESTION_TOKENS :]])
        return [rows] if len(rows) else []
    count = -(-len(rows) // MOST_POINT_TOKENS)
    return list(np.array_split(rows, count)) if count else []


def _evidence(part: Part, number: int, point: np.ndarray, answer: np.ndarray) -> Evidence:
    similar = unit(part.states.last[point]) @ answer.T
    near = np.exp(_SHARPNESS * (similar - similar.max(axis=1, keepdims=True)))
    mass = np.convolve((near / near.sum(axis=1, keepdims=True)).sum(axis=0), np.ones(_NEIGHBOURS), "same")
    mass = mass[: len(answer)] if len(answer) >= _NEIGHBOURS else np.ones(len(answer))
    chosen = np.sort(np.argsort(-mass, kind="stable")[:MOST_ANSWER_TOKENS])
    return Evidence(
        part.kind,
        number,
        point,
        chosen,
        similar.max(axis=1),
        similar[:, chosen].max(axis=0),
        similar.argmax(axis=1),
        point[similar[:, chosen].argmax(axis=0)],
    )


def nearness(evidence: Evidence) -> float:
    """The mean over a point's tokens of the best cosine with the answer's tokens, between -1 and 1."""
    return float(evidence.point_match.mean())
