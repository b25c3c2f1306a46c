"""Verdicts that need no reader: on a point that the answer has word for word, and on one that it contradicts."""

from collections.abc import Sequence

import numpy as np

from medjudge.judge.comparison import Reading
from medjudge.judge.conflicts import facts_by_token, is_contradicted
from medjudge.judge.evidence import KINDS, Evidence
from medjudge.judge.quoted_conflicts import misquoted
from medjudge.judge.states import TextStates
from medjudge.text.answer_keys import Stated, names

MET, CONTRADICTED, UNSURE = 0, 2, -1
"""As in `reader.VERDICTS`; and where the reader decides."""
SURE = 0.95
"""The share of a verdict that is sure."""


def sure_verdicts(texts: Sequence[str], reading: Reading, stated: Stated | None = None) -> np.ndarray:
    """What is sure of each piece of evidence: `MET`, `CONTRADICTED` or `UNSURE`, (pieces,).

    Args:
        texts: Question, reference, checklist and answer.
        reading: Of these texts.
        stated: How the answer states the key that the reference is; None where it is none, or the answer is not clear.
    """
    answer = facts_by_token(texts[-1], reading.answer)
    parts = [
        None if states is None else facts_by_token(text, states)
        for text, states in zip(texts[:3], reading.parts, strict=True)
    ]
    wrong = [
        [] if states is None or KINDS[kind] == "question" else misquoted(text, texts[-1])
        for kind, (text, states) in enumerate(zip(texts[:3], reading.parts, strict=True))
    ]

    def verdict(piece: Evidence) -> int:
        part, states = parts[piece.kind], reading.parts[piece.kind]
        if KINDS[piece.kind] == "question" or part is None or states is None:
            return UNSURE
        if stated in ("right", "wrong") and KINDS[piece.kind] == "reference":
            return MET if stated == "right" else CONTRADICTED
        start, end = _place(states, piece)
        if names(texts[piece.kind][start:end], texts[-1]):
            return MET
        if any(each.start < end and each.end > start for each in wrong[piece.kind]):
            return CONTRADICTED
        return CONTRADICTED if is_contradicted(piece, part, answer) else UNSURE

    return np.array([verdict(piece) for piece in reading.evidence])


def with_sure(verdicts: np.ndarray, sure: np.ndarray) -> np.ndarray:
    """Probabilities of met, open and contradicted, (pieces, 3), where `sure_verdicts` says something, that."""
    said = np.eye(verdicts.shape[1])[np.maximum(sure, 0)]
    return np.where((sure != UNSURE)[:, None], (1 - SURE) * verdicts + SURE * said, verdicts)


def _place(states: TextStates, piece: Evidence) -> tuple[int, int]:
    """Where a point stands in its text, in characters."""
    return int(states.spans[piece.point[0], 0]), int(states.spans[piece.point[-1], 1])
