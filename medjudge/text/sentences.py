"""Where sentences begin and end."""

import re
from typing import NamedTuple

from medjudge.text.grammar import Grammar

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


class Clauses(NamedTuple):
    """A line's clauses, and whether each of them ends its sentence, shape (n clauses,) both."""

    texts: list[str]
    end_sentence: list[bool]


def sentence_starts(text: str, grammar: Grammar) -> list[int]:
    """Where sentences begin. In doubt two sentences count as one: a number, a letter or an abbreviation ends none."""
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
    """Whether each bracket and quotation mark of a text has its partner in it."""
    return all(text.count(pair[0]) == text.count(pair[1]) for pair in _BRACKETS) and not text.count('"') % 2


def _word_before(text: str, end: int) -> str:
    word = re.search(r"[\w.]*$", text[max(0, end - _LONGEST_WORD) : end])
    return word[0].lower() if word else ""


def _is_abbreviation(word: str, grammar: Grammar) -> bool:
    """Whether a full stop behind this word ends no sentence: a single letter is an initial."""
    return len(word) == 1 or word in grammar.abbreviations
