"""Sentences that one text takes from another almost word for word, and what it changed in them."""

import re
from collections import Counter
from collections.abc import Sequence
from difflib import SequenceMatcher
from typing import NamedTuple

_TOKEN = re.compile(r"[A-Za-z]+|\d+(?:[.,]\d+)*|[^\W\d_]|[%℃°<>≥≤]")
_LEAST_SHARED = 5
"""The tokens that a quote shares with its sentence at least."""
_LEAST_SIMILAR = 0.8
"""The share of both sentences' tokens that stand in the same order in both."""


class Stretch(NamedTuple):
    """A stretch of a text, in characters."""

    start: int
    end: int


class Change(NamedTuple):
    """What stands in the text, and what the quote has in its place; either may be of length 0."""

    text: Stretch
    quote: Stretch


class Quote(NamedTuple):
    """A sentence, the almost equal one of the other text, and the changes, in order."""

    text: Stretch
    quote: Stretch
    changes: tuple[Change, ...]


class _Sentence(NamedTuple):
    stretch: Stretch
    tokens: tuple[str, ...]
    places: tuple[Stretch, ...]
    counts: Counter[str]


def changed_quotes(
    text: str, sentences: Sequence[tuple[int, int]], other: str, other_sentences: Sequence[tuple[int, int]]
) -> list[Quote]:
    """The sentences of a text that another one quotes with a change.

    A sentence that both texts have word for word is left out, and is not paired with another one: rows of a table
    resemble each other. Of two sentences that resemble a third, the nearer one is its quote.

    Args:
        text: The text that may be quoted.
        sentences: Its sentences, in characters.
        other: The text that may quote it.
        other_sentences: Its sentences.
    """
    own, theirs = _read(text, sentences), _read(other, other_sentences)
    same = {each.tokens for each in own} & {each.tokens for each in theirs}
    own = [each for each in own if each.tokens not in same]
    theirs = [each for each in theirs if each.tokens not in same]
    pairs = [
        (similar, at, to)
        for at, mine in enumerate(own)
        for to, their in enumerate(theirs)
        if (similar := _similar(mine, their)) >= _LEAST_SIMILAR
    ]
    quotes, taken_own, taken_theirs = [], set(), set()
    for _, at, to in sorted(pairs, reverse=True):
        if at not in taken_own and to not in taken_theirs:
            taken_own.add(at)
            taken_theirs.add(to)
            quotes.append(_quote(own[at], theirs[to]))
    return quotes


def _read(text: str, sentences: Sequence[tuple[int, int]]) -> list[_Sentence]:
    read = []
    for start, end in sentences:
        matches = list(_TOKEN.finditer(text, start, end))
        tokens = tuple(match[0].lower() for match in matches)
        places = tuple(Stretch(*match.span()) for match in matches)
        read.append(_Sentence(Stretch(start, end), tokens, places, Counter(tokens)))
    return read


def _similar(mine: _Sentence, theirs: _Sentence) -> float:
    """The share of tokens in the same order, between 0 and 1; 0 where it cannot reach the least."""
    both, shorter = len(mine.tokens) + len(theirs.tokens), min(len(mine.tokens), len(theirs.tokens))
    if 2 * shorter < _LEAST_SIMILAR * both:
        return 0.0
    shared = (mine.counts & theirs.counts).total()
    if shared < _LEAST_SHARED or 2 * shared < _LEAST_SIMILAR * both:
        return 0.0
    return SequenceMatcher(None, mine.tokens, theirs.tokens, autojunk=False).ratio()


def _quote(mine: _Sentence, theirs: _Sentence) -> Quote:
    changes = []
    codes = SequenceMatcher(None, mine.tokens, theirs.tokens, autojunk=False).get_opcodes()
    for kind, start, end, from_, to in codes:
        if kind != "equal":
            changes.append(Change(_stretch(mine, start, end), _stretch(theirs, from_, to)))
    return Quote(mine.stretch, theirs.stretch, tuple(changes))


def _stretch(sentence: _Sentence, start: int, end: int) -> Stretch:
    """The characters of some tokens; of none, the place between their neighbours."""
    if start < end:
        return Stretch(sentence.places[start].start, sentence.places[end - 1].end)
    place = sentence.places[start - 1].end if start else sentence.stretch.start
    return Stretch(place, place)
