"""Grammar of a language, as far as texts are cut, moved and reworded; and where sentences begin and end."""

import re
from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from medjudge.languages.texts import PACKAGED, Languages, Texts

_CLOSING = "”’」』）】)"
_NEXT = r"A-Z0-9\u4e00-\u9fff"
_SENTENCE_END = re.compile(
    rf"。[{_CLOSING}]*\s*|(?<![！？])[！？]+(?![！？”’」』])\s*"
    rf"|(?<![.!?])[.!?]+[\"'”’)\]]*\s+(?=[\"'“‘(\[]?[{_NEXT}])"
)
_CLAUSE_END = re.compile(
    rf"[。！？](?![。！？])[{_CLOSING}]*"
    r"|[；;]\s*"
    rf"|(?<=[^.!?])[.!?][\"”'’)\]]*\s+(?=[\"“'(\[]?[{_NEXT}]|\([a-z]\))"
    r"|\s{2,}(?=- )"
)
_BRACKETS = ("()", "（）", "[]", "【】", "“”", "「」")
_LONGEST_WORD = 20


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


class Clauses(NamedTuple):
    """A line's clauses, and whether each of them ends its sentence, shape (n clauses,) both."""

    texts: list[str]
    end_sentence: list[bool]


def sentence_starts(text: str, grammar: Grammar) -> list[int]:
    """Starts of sentences. In doubt two sentences count as one: a number, a letter or an abbreviation ends none."""
    starts = [len(text) - len(text.lstrip())]
    for end in _SENTENCE_END.finditer(text):
        word = _word_before(text, end.start())
        doubtful = word.isdigit() or _is_abbreviation(word, grammar)
        if end.end() < len(text) and not (end[0][0] == "." and doubtful):
            starts.append(end.end())
    return starts


def clauses(line: str, grammar: Grammar) -> Clauses:
    """A line's sentences, cut at semicolons, too. None is cut within brackets or quotes, nor while it is very short."""
    texts: list[str] = []
    end_sentence: list[bool] = []
    start = 0
    for end in _CLAUSE_END.finditer(line):
        clause = line[start : end.end()]
        if end.end() == len(line) or len(clause) < grammar.shortest_sentence or not is_balanced(clause):
            continue
        word = _word_before(line, end.start())
        # "2. " in the middle of a line numbers what follows.
        if end[0][0] == "." and (_is_abbreviation(word, grammar) or (word.isdigit() and len(word) <= 2)):
            continue
        texts.append(clause)
        end_sentence.append(end[0][0] not in ";；")
        start = end.end()
    return Clauses([*texts, line[start:]], [*end_sentence, True])


def is_balanced(text: str) -> bool:
    """True if each bracket and quotation mark of a text has its partner in it."""
    return all(text.count(pair[0]) == text.count(pair[1]) for pair in _BRACKETS) and not text.count('"') % 2


def _word_before(text: str, end: int) -> str:
    word = re.search(r"[\w.]*$", text[max(0, end - _LONGEST_WORD) : end])
    return word[0].lower() if word else ""


def _is_abbreviation(word: str, grammar: Grammar) -> bool:
    """True if a full stop behind this word ends no sentence: a single letter is an initial."""
    return len(word) == 1 or word in grammar.abbreviations
