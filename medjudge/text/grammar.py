"""How a language is written, as far as texts are cut, moved and reworded."""

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from medjudge.languages.texts import PACKAGED, Languages, Texts


class Grammar(NamedTuple):
    """One language's patterns, made of the word lists in its `grammar.yaml`.

    Attributes:
        edge: What stands at both edges of a word in a pattern. Empty where no spaces separate words.
        space: What stands between two words or sentences.
        stop: What ends a plain sentence.
        shortest_sentence: Characters below which a sentence is not cut off from what follows it.
        refers_back: Matches a word that refers to what stands before it.
        goes_on: Matches, at the beginning, a word that continues what stands before it.
        sequence: Matches words that say that the order matters.
        abbreviations: Words behind which a full stop ends no sentence, in lower case.
    """

    edge: str
    space: str
    stop: str
    shortest_sentence: int
    refers_back: re.Pattern[str]
    goes_on: re.Pattern[str]
    sequence: re.Pattern[str]
    abbreviations: frozenset[str]

    def any_of(self, words: Iterable[str], before: str | None = None, after: str | None = None) -> re.Pattern[str]:
        """A pattern for any of these words, in capitals or not.

        Args:
            words: Regular expressions.
            before: What must precede them; the edge of a word if omitted.
            after: What must follow them; the edge of a word if omitted.
        """
        before, after = (self.edge if side is None else side for side in (before, after))
        return re.compile(f"{before}(?:{'|'.join(words)}){after}", re.IGNORECASE)


class _WordLists(Texts):
    words_are_spaced: bool
    stop: str
    shortest_sentence: int
    refers_back: list[str]
    goes_on: list[str]
    sequence: list[str]
    sequence_start: list[str]
    abbreviations: list[str]


@cache
def grammar_of(language: str, languages: Languages = PACKAGED) -> Grammar:
    """The grammar of a language, read once."""
    lists = languages.load(language, "grammar.yaml", _WordLists)
    # Chinese writes no spaces between words: \b would never match there.
    edge, space = (r"\b", " ") if lists.words_are_spaced else ("", "")

    def any_of(words: Iterable[str]) -> str:
        return f"{edge}(?:{'|'.join(words)}){edge}"

    def pattern(expression: str) -> re.Pattern[str]:
        return re.compile(expression, re.IGNORECASE)

    return Grammar(
        edge=edge,
        space=space,
        stop=lists.stop,
        shortest_sentence=lists.shortest_sentence,
        refers_back=pattern(any_of(lists.refers_back)),
        goes_on=pattern(rf"\W*{any_of(lists.goes_on)}"),
        sequence=pattern(rf"{any_of(lists.sequence)}|^\W*{any_of(lists.sequence_start)}"),
        abbreviations=frozenset(lists.abbreviations),
    )
