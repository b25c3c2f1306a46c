"""Sentences of an answer that are not about the matter: addressed to the reader or the judge, or repeated.

Greetings, filler, claims of authority, orders to the judge and quoted marks do not tell whether an answer is right, and
a judge that reads them can be moved by them. The alarm reads them nevertheless: a sentence that denies the whole answer
may look like one.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import nn

from medjudge.judge.points import Span, sentence_spans
from medjudge.judge.states import TextStates, layer_normed

_SHORTEST_REPEAT = 12
"""In characters: a shorter sentence may well be said twice."""
SURE = 3.0
"""The logit from which a sentence is left out. `eval/reader_asides.py` measures how many about the matter reach it."""


class Cut(NamedTuple):
    """What is left of an answer: its text and the states of its tokens."""

    text: str
    states: TextStates


class Sentence(NamedTuple):
    """A sentence: where it stands, and the rows of its tokens."""

    span: Span
    rows: np.ndarray


def sentences_of(text: str, states: TextStates, language: str) -> list[Sentence]:
    """The sentences of a text; one of which no token was read is left out."""
    starts = states.spans[:, 0]
    found = [
        Sentence(span, np.flatnonzero((starts >= span.start) & (starts < span.end)))
        for span in sentence_spans(text, language)
    ]
    return [sentence for sentence in found if len(sentence.rows)]


def sentence_vector(states: TextStates, sentence: Sentence) -> np.ndarray:
    """The mean of a sentence's normalised states, shape (len(LAYERS) * width,)."""
    rows = torch.from_numpy(states.states[sentence.rows].astype(np.float32))
    mean: np.ndarray = layer_normed(rows).mean(dim=0).numpy()
    return mean


def without_asides(text: str, states: TextStates, language: str, aside: nn.Linear) -> Cut | None:
    """An answer without asides and repeated sentences; None where it has none, or nothing else.

    Args:
        text: The answer.
        states: Of it.
        language: `en` or `zh`.
        aside: Gives the logit that a sentence is an aside, from its vector.
    """
    sentences = sentences_of(text, states, language)
    if len(sentences) < 2:
        return None
    vectors = torch.from_numpy(np.stack([sentence_vector(states, sentence) for sentence in sentences]))
    with torch.inference_mode():
        logits = aside(vectors.to(aside.weight)).squeeze(1).float().cpu().numpy()
    kept, said = [], set()
    for sentence, logit in zip(sentences, logits, strict=True):
        words = text[slice(*sentence.span)].strip()
        if logit < SURE and words not in said:
            kept.append(sentence)
        if len(words) >= _SHORTEST_REPEAT:
            said.add(words)
    if not kept or len(kept) == len(sentences):
        return None
    left = states.chosen(np.concatenate([sentence.rows for sentence in kept]))
    return Cut("\n".join(text[slice(*sentence.span)].strip() for sentence in kept), left)
