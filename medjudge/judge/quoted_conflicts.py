"""Facts that an answer changes in a sentence which it otherwise takes from a reference word for word.

Nothing here is trained, and the encoder has no part in it. Where nearly all words are the same, what stands in the
place of a fact is compared with it even if the answer states that fact elsewhere: rows of a table and items of a list
repeat facts. Sentences in other words are left to `conflicts`.
"""

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from functools import cache

from medjudge.judge.alarms import LANGUAGES
from medjudge.judge.language import language_of
from medjudge.judge.points import sentence_spans
from medjudge.languages.texts import PACKAGED, Texts
from medjudge.text.facts import DENIAL, Fact, facts_of, same_fact
from medjudge.text.quotes import Change, Quote, Stretch, changed_quotes

_WORD = re.compile(r"[A-Za-z']+|[^\W\d_]")


class _QuoteTexts(Texts):
    """A language's `quotes.yaml`; its comments say what each list is for."""

    opposites: list[str | tuple[str, str]]
    beside_denials: list[str]
    drug_stems: list[str]
    drugs: list[str]
    same_drug: list[list[str]]


def misquoted(text: str, answer: str) -> list[Stretch]:
    """The sentences of a text that an answer quotes with another fact.

    Args:
        text: A reference or a checklist.
        answer: The answer.
    """
    quotes = changed_quotes(text, _sentences(text), answer, _sentences(answer))
    if not quotes:
        return []
    own, theirs = facts_of(text), facts_of(answer)
    return [
        quote.text
        for quote in quotes
        if any(_is_another(change, quote, (text, answer), (own, theirs)) for change in quote.changes)
    ]


def _sentences(text: str) -> list[tuple[int, int]]:
    return [(span.start, span.end) for span in sentence_spans(text, language_of(text, LANGUAGES))]


def _is_another(
    change: Change, quote: Quote, texts: tuple[str, str], facts: tuple[Sequence[Fact], Sequence[Fact]]
) -> bool:
    """Whether a change puts another fact in the place of one; what only moved within the sentence says the same."""
    own, theirs = _at(facts[0], change.text), _at(facts[1], change.quote)
    return (
        any(_is_exchanged(fact, theirs, quote, facts) for fact in own if fact.kind != DENIAL)
        or (
            _is_denied(own, theirs, change, texts)
            and _is_negative(facts[0], quote.text) != _is_negative(facts[1], quote.quote)
        )
        or _is_opposite(change, quote, texts)
        or _is_other_drug(change, quote, texts)
    )


def _at(facts: Sequence[Fact], stretch: Stretch) -> list[Fact]:
    return [fact for fact in facts if fact.start < stretch.end and fact.end > stretch.start]


def _is_exchanged(
    fact: Fact, theirs: Sequence[Fact], quote: Quote, facts: tuple[Sequence[Fact], Sequence[Fact]]
) -> bool:
    """Whether one of the same kind stands in a fact's place; two that changed places in their sentence say the same."""
    instead = [other for other in theirs if other.kind == fact.kind]
    if not instead or any(same_fact(fact, other) for other in theirs):
        return False
    of_text, of_quote = (
        sorted(other.value for other in _at(some, stretch) if other.kind == fact.kind)
        for some, stretch in zip(facts, (quote.text, quote.quote), strict=True)
    )
    return of_text != of_quote


def _is_negative(facts: Sequence[Fact], stretch: Stretch) -> bool:
    """Whether a stretch holds an odd number of denials."""
    return sum(fact.kind == DENIAL for fact in _at(facts, stretch)) % 2 == 1


def _is_denied(own: Sequence[Fact], theirs: Sequence[Fact], change: Change, texts: tuple[str, str]) -> bool:
    """Whether a denial came or went and nothing else: "unknown" for "not known" is no conflict."""
    denials = [[fact for fact in facts if fact.kind == DENIAL] for facts in (own, theirs)]
    if len(denials[0]) % 2 == len(denials[1]) % 2:
        return False
    return all(
        _words_beside(text, place, some) <= _auxiliaries()
        for text, place, some in zip(texts, change, denials, strict=True)
    )


def _words_beside(text: str, place: Stretch, denials: Sequence[Fact]) -> set[str]:
    return {
        match[0].lower()
        for match in _WORD.finditer(text, place.start, place.end)
        if not any(fact.start < match.end() and fact.end > match.start() for fact in denials)
    }


def _is_opposite(change: Change, quote: Quote, texts: tuple[str, str]) -> bool:
    """Whether a word stands in the place of its opposite, and not vice versa elsewhere in the sentence."""
    old, new = (text[slice(*place)].lower() for text, place in zip(texts, change, strict=True))
    if (old, new) not in _opposites():
        return False
    whole = [text[slice(*stretch)].lower() for text, stretch in zip(texts, (quote.text, quote.quote), strict=True)]
    return any(whole[0].count(word) != whole[1].count(word) for word in (old, new))


def _is_other_drug(change: Change, quote: Quote, texts: tuple[str, str]) -> bool:
    """Whether a drug that only one text has stands in the place of one that only the other has."""
    named = [
        Counter(_name(match) for match in _drugs().finditer(text, *stretch))
        for text, stretch in zip(texts, (quote.text, quote.quote), strict=True)
    ]
    lost, gained = named[0] - named[1], named[1] - named[0]
    if not lost or not gained:
        return False
    old, new = (_drugs_at(text, place) for text, place in zip(texts, change, strict=True))
    return bool(old & lost.keys()) and bool(new & gained.keys())


def _drugs_at(text: str, place: Stretch) -> set[str]:
    """The drugs that a place holds a part of, or touches if it is empty.

    What precedes a stem may be a verb: a name that is complete behind the place is none of the place.
    """
    reach = 1 if place.start == place.end else 0
    return {
        _name(match)
        for match in _drugs().finditer(text)
        if match.start() < place.end + reach
        and match.end() > place.start - reach
        and (match["name"] or not _drugs().fullmatch(text, place.end, match.end()))
    }


def _name(match: re.Match[str]) -> str:
    """The first of a drug's names that are known to be the same."""
    name = match[0].lower()
    return _first_names().get(name, name)


@cache
def _texts() -> list[_QuoteTexts]:
    return [PACKAGED.load(language, "quotes.yaml", _QuoteTexts) for language in PACKAGED.codes("quotes.yaml")]


@cache
def _opposites() -> frozenset[tuple[str, str]]:
    pairs = [(pair[0], pair[1]) for texts in _texts() for pair in texts.opposites]
    return frozenset(pairs + [(second, first) for first, second in pairs])


@cache
def _auxiliaries() -> frozenset[str]:
    return frozenset(word for texts in _texts() for word in texts.beside_denials)


@cache
def _drugs() -> re.Pattern[str]:
    stems = "|".join(stem for texts in _texts() for stem in texts.drug_stems)
    names = [name for texts in _texts() for name in texts.drugs]
    return re.compile(rf"(?P<name>{_any_of(names)})|(?:{stems})", re.IGNORECASE)


def _any_of(names: Iterable[str]) -> str:
    """A pattern of names, the longest first. A name in Latin letters is a whole word."""
    longest_first = sorted(names, key=len, reverse=True)
    return "|".join(rf"(?<![a-z]){name}(?![a-z])" if name.isascii() else name for name in longest_first)


@cache
def _first_names() -> dict[str, str]:
    return {name: names[0] for texts in _texts() for names in texts.same_drug for name in names}
