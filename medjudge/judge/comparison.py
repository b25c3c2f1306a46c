"""The numbers about an answer that need no training: how near it lies to what it is compared with."""

from collections.abc import Sequence
from math import log
from typing import NamedTuple

import numpy as np

from medjudge.judge.evidence import Evidence, nearness, unit
from medjudge.judge.states import TextStates

_COSINE, _SPREAD = 0.87, 0.045
"""Mean and spread of the cosines of a question or reference with its answers (MEDIQA, LiveQA, graded answers)."""
_BEGINNING = 128
"""Tokens."""
PARTS = 3
NUMBERS = 4 * PARTS + 2 + 6 + 5
REFERENCE_THERE, CHECKLIST_THERE = 7, 11
"""The numbers that are 1 where the answer was compared with a reference, or with a checklist."""
ECHOED = 13
"""The number that says how much of the answer is the question's words, in units of `_ECHO_SPREAD` from `_ECHO`."""
_ECHO, _ECHO_SPREAD = 0.2, 0.15
NEAREST = (0.6, 0.2, 0.0, 0.0, 0.3, 0.3, 0.1, 0.0, 0.1, 0.4, 0.2, 0.0)
"""Weights of the first numbers that make the untrained baseline: whole texts, mean and least nearness of points."""


class Reading(NamedTuple):
    """One answer with what it is compared with.

    Attributes:
        parts: The states of question, reference and checklist; None where there is none.
        answer: The answer's states.
        evidence: Of every point of every part.
    """

    parts: tuple[TextStates | None, TextStates | None, TextStates | None]
    answer: TextStates
    evidence: Sequence[Evidence]


def compared(reading: Reading) -> np.ndarray:
    """The numbers of an answer, shape (`NUMBERS`,).

    For each of question, reference and checklist: the cosine of the whole texts, the mean and the least nearness of
    its points, and whether it is there. Then the answer's length and its echo of the question; the answer beside the
    question; the answer beside the reference; the words of the checklist that it has. Cosines lie close together: each
    is taken from their mean in units of their spread. What cannot be compared is 0.
    """
    values: list[float] = []
    for kind, part in enumerate(reading.parts):
        near = [nearness(piece) for piece in reading.evidence if piece.kind == kind]
        if part is None or not near:
            values += [0.0, 0.0, 0.0, 0.0]
            continue
        cosines = (float(part.whole @ reading.answer.whole), float(np.mean(near)), float(np.min(near)))
        values += [*map(_standard, cosines), 1.0]
    question, reference, checklist = reading.parts
    answer = reading.answer
    echoed = 0.0 if question is None else float(np.isin(answer.ids, question.ids).mean())
    values += [log(1 + len(answer.ids)) - 5, echo_number(echoed)]
    values += _beside_question(question, answer) if question is not None and len(question.ids) else [0.0] * 6
    values += _beside_reference(reference, answer) if reference is not None and len(reference.ids) else [0.0] * 4
    values.append(_words_there(checklist, answer) if checklist is not None and len(checklist.ids) else 0.0)
    return np.array(values, np.float32)


def echo_number(share: float) -> float:
    """The number `ECHOED` of an answer of whose tokens this share stands in the question."""
    return (share - _ECHO) / _ECHO_SPREAD


def _standard(cosine: float) -> float:
    return (cosine - _COSINE) / _SPREAD


def _beside_question(question: TextStates, answer: TextStates) -> list[float]:
    """How near the answer's tokens lie to the question, how evenly, how its beginning does, and how it repeats."""
    cosines = unit(question.last) @ unit(answer.last).T
    beginning = answer.last[:_BEGINNING].astype(np.float32).mean(axis=0)
    beginning /= max(float(np.linalg.norm(beginning)), 1e-6)
    of_answer = cosines.max(axis=0)
    return [
        _standard(float(of_answer.mean())),
        float(of_answer.std()) / _SPREAD,
        _standard(float(np.quantile(cosines.max(axis=1), 0.1))),
        _standard(float(question.whole @ beginning)),
        _words_there(question, answer),
        len(np.unique(answer.ids)) / len(answer.ids) * 4 - 2,
    ]


def _beside_reference(reference: TextStates, answer: TextStates) -> list[float]:
    """How near the answer's tokens lie to the reference, the words of it that it has, and how much longer it is."""
    of_answer = (unit(reference.last) @ unit(answer.last).T).max(axis=0)
    longer = log((1 + len(answer.ids)) / (1 + len(reference.ids)))
    return [_standard(float(of_answer.mean())), _words_there(reference, answer), longer, min(longer, 0.0)]


def _words_there(text: TextStates, answer: TextStates) -> float:
    """The share of a text's tokens that the answer has too, from -2 to 2."""
    return float(np.isin(text.ids, answer.ids).mean()) * 4 - 2
