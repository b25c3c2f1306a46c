"""References that are no text to compare with: the key of an objective question, and notes that there is no reference.

A key is the letters of the right options, true or false, or a few terms or numbers. Whether an answer states it needs
no model. What keys and answers look like stands in `answer_keys.yaml` of each language.
"""

import re
import unicodedata
from functools import cache, lru_cache
from typing import Literal, NamedTuple

from medjudge.text.options import (
    chosen_options,
    key_texts,
    letters_in,
    option_labels,
    options_of,
    plain,
    plain_with_places,
)

_LONGEST_KEY, _LONGEST_NOTE = 40, 40
"""In characters; two Latin ones count as one."""
_MOST_TERMS = 6
_REPEATED = 1.5
_SENTENCE = re.compile(r"[。！!？?\n]|[.;；](?=\s|$)")
_IN_BRACKETS = re.compile(r"[(（\[【][^)）\]】]*[)）\]】]")
_FORMULA = re.compile(r"[=^{}\\*+<>]|\b\w-\w\b")
"""Formulas are written in many ways."""
_QUOTED = re.compile(r"[“\"「『]([^”\"」』]+)[”\"」』]")
_SLASH = r"(?<![A-Za-z0-9%])/|/(?![A-Za-z0-9])"
"""A slash between alternatives, and not between units."""
_WORD_BEFORE, _WORD_BEHIND = re.compile(r"[A-Za-z][A-Za-z]$"), re.compile(r"[A-Za-z](?!e?s\b)[A-Za-z0-9]")
_NUMBER = re.compile(r"(?<![\d.])[-+]?\d+(?:\.\d+)?(?![\d.]*\d)")

Stated = Literal["right", "wrong", "term"]
"""An answer states the key's option or truth, or another one, or all of the key's terms."""


class AnswerKey(NamedTuple):
    """The key of an objective question.

    Attributes:
        options: Labels of the right options; empty where the question has none.
        truth: Whether the question's statement is true; None where the key says neither.
        terms: What an answer has to name, each with its alternatives; empty for the other kinds.
    """

    options: frozenset[str] = frozenset()
    truth: bool | None = None
    terms: tuple[tuple[str, ...], ...] = ()


@lru_cache(maxsize=1024)
def is_no_reference(reference: str) -> bool:
    """Whether a reference only notes that there is none, such as "subjective question"."""
    bare = unicodedata.normalize("NFKC", reference).strip(" \t\n()[]【】。.")
    if not bare or _width(bare) > _LONGEST_NOTE:
        return not bare
    return any(re.match(note, bare, re.IGNORECASE) for texts in key_texts() for note in texts.no_reference)


@lru_cache(maxsize=1024)
def key_of(question: str, reference: str) -> AnswerKey | None:
    """The key that a reference is; None where it is a text to compare with.

    Args:
        question: Its options tell what the letters of a key stand for.
        reference: Of a width of at most 40 for a key of terms, any length for the texts of options.
    """
    bare = _without_heading(reference)
    options = options_of(question)
    if options and (letters := letters_in(bare, options) or _labelled(bare, question)):
        return AnswerKey(options=letters)
    if (truth := _truth_of(bare)) is not None:
        return AnswerKey(truth=truth)
    if 0 < _width(bare) <= _LONGEST_KEY and not _SENTENCE.search(bare.rstrip("。.;；")):
        terms = _terms_of(bare, question)
        return AnswerKey(terms=terms) if terms else None
    return None


def in_words(question: str, reference: str) -> str:
    """A reference as a text to compare with: the right options in words for letters, nothing for a note."""
    if is_no_reference(reference):
        return ""
    key = key_of(question, reference)
    if key is None or not key.options or _width(reference) > _LONGEST_KEY:
        return reference
    options = options_of(question)
    return "\n".join(f"{label}. {options[label]}" for label in option_labels(key.options))


def stated(question: str, reference: str, answer: str) -> Stated | None:
    """Whether an answer states the key; None where the reference is no key, or the answer does not say clearly.

    An answer that chooses some of several right options is wrong, and so is one that only repeats the question. An
    answer that does not name an option or a term may have another word for it, so this says nothing.
    """
    key = key_of(question, reference)
    if key is None:
        return None
    if key.options:
        chosen = chosen_options(question, answer)
        chosen = chosen or _true_or_false_options(question, answer)
        if chosen:
            return "right" if chosen == key.options else "wrong"
        return "wrong" if _only_repeats(question, answer) else None
    if key.truth is not None:
        said = stated_truth(answer)
        return None if said is None else "right" if said == key.truth else "wrong"
    return "term" if _names_all(key.terms, answer) else None


def _true_or_false_options(question: str, answer: str) -> frozenset[str]:
    """The option that an answer means by affirming or denying, where the options are words such as right and wrong."""
    truths = {label: _truth_of(text) for label, text in options_of(question).items()}
    said = stated_truth(answer)
    if said is None or None in truths.values():
        return frozenset()
    return frozenset(label for label, truth in truths.items() if truth == said)


def _only_repeats(question: str, answer: str) -> bool:
    """Whether an answer is the question once more, and little else."""
    asked, said = plain(question), plain(answer)
    return asked in said and len(said) < _REPEATED * len(asked)


def stated_truth(answer: str) -> bool | None:
    """Whether an answer affirms or denies; None where it says neither, or both.

    How it begins counts most; then what its sentences say of the statement.
    """
    text = _without_heading(answer.replace("*", "")).strip(" \t\n#\"“'(（【[")
    begins = {truth for truth, pattern in _truths("affirms", "denies") if pattern.match(text)}
    if len(begins) == 1:
        return begins.pop()
    said = {truth for truth, pattern in _truths("calls_true", "calls_false") if pattern.search(text)}
    return said.pop() if len(said) == 1 else None


def _width(text: str) -> float:
    return sum(0.5 if sign.isascii() else 1.0 for sign in text)


def _without_heading(reference: str) -> str:
    headings = "|".join(texts.heading for texts in key_texts())
    text = re.sub(
        rf"^\s*(?:{headings})\s*(?:[:：]|是|为|\s|(?=[A-Ha-h](?![A-Za-z])))\s*", "", reference, flags=re.IGNORECASE
    )
    return text.strip()


def _labelled(reference: str, question: str) -> frozenset[str]:
    """The labels of a reference whose lines are options of the question, label and text."""
    options, labels = options_of(question), set()
    for line in reference.splitlines():
        match = re.match(r"\s*[(（]?([A-Ha-h])\s?[.．、:：)）\s]\s*(.+)", line)
        label = match[1].upper() if match else ""
        if match is None or label not in options or plain(match[2]) != plain(options[label]):
            return frozenset()
        labels.add(label)
    return frozenset(labels)


def _truth_of(reference: str) -> bool | None:
    if _width(reference) > _LONGEST_KEY:
        return None
    bare = re.split(r"[，,;；]", _IN_BRACKETS.sub("", reference))[0].strip(" \t\n.。!！")
    for texts in key_texts():
        for truth, words in ((True, texts.affirmed), (False, texts.denied)):
            if bare.casefold() in words:
                return truth
    return None


def _terms_of(reference: str, question: str) -> tuple[tuple[str, ...], ...]:
    """The terms of a key, each with its alternatives; what stands in quotes, where something does.

    None where the question has one alternative of each, or one is too short to be looked for.
    """
    if _FORMULA.search(reference):
        return ()
    text = _IN_BRACKETS.sub("", reference)
    if quoted := _QUOTED.findall(text):
        marked = any(re.search(words, _QUOTED.sub("", text)) for texts in key_texts() for words in texts.alternatives)
        groups = [tuple(quoted)] if marked else [(each,) for each in quoted]
    else:
        leads = "|".join(lead for texts in key_texts() for lead in texts.leads)
        parts = re.split(
            rf"[，、;；]|,(?!\d{{3}})|{_words('separators')}", re.sub(rf"^(?:{leads})", "", text, flags=re.IGNORECASE)
        )
        groups = [tuple(re.split(rf"{_SLASH}|{_words('alternatives')}", part)) for part in parts]
    terms = tuple(tuple(term.strip(" \t\n.。") for term in group if plain(term)) for group in groups)
    terms = tuple(group for group in terms if group)
    short = any(len(plain(term)) < 2 and not term.isdigit() for group in terms for term in group)
    if not terms or len(terms) > _MOST_TERMS or short:
        return ()
    asked = plain(question)
    return () if all(any(plain(term) in asked for term in group) for group in terms) else terms


def _words(kind: str) -> str:
    """A pattern of all languages' words of a list."""
    words = [word for texts in key_texts() for word in getattr(texts, kind)]
    return "|".join(rf"\b{word}\b" if word.isascii() else word for word in words)


def _names_all(terms: tuple[tuple[str, ...], ...], answer: str) -> bool:
    return all(any(names(term, answer) for term in group) for group in terms)


def names(term: str, answer: str) -> bool:
    """Whether a text names a term without denying it; a bare number counts in its first or last sentence only."""
    if _NUMBER.fullmatch(term):
        sentences = [each for each in _SENTENCE.split(answer) if each.strip()]
        return any(_same_number(term, sentence) for sentence in sentences[:1] + sentences[-1:])
    said, wanted = plain_with_places(answer), plain(term)
    if not wanted:
        return False
    for match in _whole(wanted).finditer(said.text):
        start, end = said.places[match.start()], said.places[match.end() - 1] + 1
        if not _is_inside_a_word(answer, start, end) and not _is_denied(answer[:start], answer[end:]):
            return True
    return False


def _is_inside_a_word(text: str, start: int, end: int) -> bool:
    """Whether a stretch is a part of a longer word of a script with spaces; a plural is none."""
    return bool(_WORD_BEFORE.search(text[:start] + text[start]) or _WORD_BEHIND.match(text[end - 1 :]))


@lru_cache(maxsize=1024)
def _whole(wanted: str) -> re.Pattern[str]:
    """A term that no digit makes a part of a longer number: 5 mg is not said by 15 mg."""
    before, behind = (r"(?<![\d.])" if wanted[0].isdigit() else ""), (r"(?![\d.])" if wanted[-1].isdigit() else "")
    return re.compile(before + re.escape(wanted) + behind)


def _same_number(number: str, text: str) -> bool:
    return any(
        float(match[0]) == float(number) and not _is_denied(text[: match.start()], text[match.end() :])
        for match in _NUMBER.finditer(text)
    )


def _is_denied(before: str, behind: str) -> bool:
    texts = key_texts()
    return any(re.search(words, before[-40:], re.IGNORECASE) for each in texts for words in each.negated) or any(
        re.match(words, behind, re.IGNORECASE) for each in texts for words in each.negated_behind
    )


@cache
def _truths(affirming: str, denying: str) -> list[tuple[bool, re.Pattern[str]]]:
    """The patterns of two lists of all languages: what affirms, and what denies."""

    def pattern(kind: str) -> re.Pattern[str]:
        words = [word for texts in key_texts() for word in getattr(texts, kind)]
        return re.compile("|".join(f"(?:{word})" for word in words), re.IGNORECASE)

    return [(True, pattern(affirming)), (False, pattern(denying))]
