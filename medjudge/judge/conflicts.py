"""Facts that an answer states otherwise than a point: another dose, the opposite, a denial.

Nothing here is trained. The encoder's states say which words of the answer stand where the point's words do
(`point_partner` of the evidence), and the facts there are compared. What is only missing is no conflict.
"""

import re
from typing import NamedTuple

import numpy as np

from medjudge.judge.evidence import Evidence
from medjudge.judge.states import TextStates
from medjudge.text.facts import BARE, DENIAL, Fact, facts_of, is_opposite, same_fact

_BESIDE = 8
"""The tokens on either side of a fact that must stand beside the answer's fact too."""
_CLOSE = 16
"""The tokens around the answer's fact that stand beside it."""
_RANGE = 4
"""The most characters between the ends of a range."""
_FEWEST = 3
"""The fewest tokens of a clause that can be denied."""
_CLAUSE_END = re.compile(
    r"[,;:!?，。；：！？\n()（）]|\.(?!\d)|\b(?:but|which|because|if|when|unless)\b|但|如果", re.IGNORECASE
)


class Least(NamedTuple):
    """The least mean cosine of the tokens beside a fact, and the least share of them in the same place."""

    near: float
    together: float


OF_FACT, OF_DENIAL = Least(0.90, 0.7), Least(0.96, 0.7)
"""Chosen by `eval/reader_facts.py`: claims made by rule, altered texts, texts that answer a question independently."""


class FactsOfText(NamedTuple):
    """The facts of a text by its tokens.

    Attributes:
        facts: All of them.
        fact_at: The quantity or opposite that a token belongs to, as an index of `facts`, else -1, shape (tokens,).
        clause: The number of a token's clause, shape (tokens,).
        denied: Whether a token's clause holds an odd number of denials, shape (tokens,).
    """

    facts: tuple[Fact, ...]
    fact_at: np.ndarray
    clause: np.ndarray
    denied: np.ndarray


def facts_by_token(text: str, states: TextStates) -> FactsOfText:
    """The facts of a text, from its states."""
    facts = facts_of(text)
    starts, ends = states.spans[:, 0], states.spans[:, 1]
    fact_at = np.full(len(starts), -1)
    for number, fact in enumerate(facts):
        if fact.kind != DENIAL:
            fact_at[(ends > fact.start) & (starts < fact.end)] = number
    breaks = np.array([match.end() for match in _CLAUSE_END.finditer(text)], int)
    clause = np.searchsorted(breaks, starts, side="right")
    denials = np.searchsorted(breaks, [fact.start for fact in facts if fact.kind == DENIAL], side="right")
    counts = np.bincount(denials.astype(int), minlength=len(breaks) + 1)
    return FactsOfText(facts, fact_at, clause, counts[clause] % 2 == 1)


def is_contradicted(piece: Evidence, part: FactsOfText, answer: FactsOfText) -> bool:
    """Whether an answer surely states a fact of a point otherwise.

    Args:
        piece: The point with its evidence.
        part: The facts of the text that holds the point.
        answer: The facts of the answer.
    """
    return other_fact(piece, part, answer, OF_FACT) or denied(piece, part, answer, OF_DENIAL)


def other_fact(piece: Evidence, part: FactsOfText, answer: FactsOfText, least: Least) -> bool:
    """Whether the answer states another quantity, or the opposite, in the place of a fact of the point."""
    of_point = part.fact_at[piece.point]
    for number in dict.fromkeys(of_point[of_point >= 0].tolist()):
        fact = part.facts[number]
        if fact.kind == BARE or any(same_fact(fact, other) for other in answer.facts):
            continue
        rows = np.flatnonzero(of_point == number)
        partners = answer.fact_at[piece.point_partner[rows]]
        # A fact that the text states elsewhere is no wrong one.
        instead = [
            at
            for at in dict.fromkeys(partners[partners >= 0].tolist())
            if answer.facts[at].kind == fact.kind and not any(same_fact(answer.facts[at], own) for own in part.facts)
        ]
        if (
            instead
            and not _covers(answer.facts, instead[0], fact)
            and _in_its_place(piece, rows, np.flatnonzero(answer.fact_at == instead[0]), least)
        ):
            return True
    return False


def _covers(facts: tuple[Fact, ...], at: int, fact: Fact) -> bool:
    """Whether one of the facts is an end of a range in which another text's fact lies."""
    ends = [other for other in facts[max(0, at - 1) : at + 2] if other.kind == fact.kind]
    touching = [other for other in ends if max(other.start, facts[at].start) - min(other.end, facts[at].end) <= _RANGE]
    values = [other.value for other in touching]
    return not is_opposite(fact) and min(values) <= fact.value <= max(values)


def _in_its_place(piece: Evidence, rows: np.ndarray, place: np.ndarray, least: Least) -> bool:
    """Whether the tokens beside a fact, the rows of a point, stand beside the answer's fact, the rows `place`."""
    before = np.arange(max(0, rows[0] - _BESIDE), rows[0])
    behind = np.arange(rows[-1] + 1, min(len(piece.point), rows[-1] + 1 + _BESIDE))
    beside = np.concatenate([before, behind])
    if not len(beside):
        return False
    partners = piece.point_partner[beside]
    together = (partners >= place[0] - _CLOSE) & (partners <= place[-1] + _CLOSE)
    return bool(piece.point_match[beside].mean() >= least.near and together.mean() >= least.together)


def denied(piece: Evidence, part: FactsOfText, answer: FactsOfText, least: Least) -> bool:
    """Whether a clause of the answer says the same as a clause of the point, and one of the two denies it."""
    clauses = part.clause[piece.point]
    for number in np.unique(clauses):
        rows = np.flatnonzero(clauses == number)
        if len(rows) < _FEWEST:
            continue
        theirs, counts = np.unique(answer.clause[piece.point_partner[rows]], return_counts=True)
        said = answer.denied[answer.clause == theirs[counts.argmax()]][0]
        if part.denied[piece.point[rows[0]]] == said:
            continue
        together = counts.max() / counts.sum()
        if piece.point_match[rows].mean() >= least.near and together >= least.together:
            return True
    return False
