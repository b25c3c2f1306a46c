"""Multiple choice: the options of a question, and those that an answer chooses."""

import re
import unicodedata
from collections.abc import Iterator, Mapping
from functools import cache, lru_cache
from types import MappingProxyType
from typing import NamedTuple

from medjudge.languages.texts import PACKAGED, Texts

FILE = "answer_keys.yaml"
_LABELS = "ABCDEFGH"
_FEWEST = 2
_BETWEEN = r"\s*(?:[、，,;；/&+]|and\b|or\b|和|与|及)?\s*"
_MARKS = r"[.．、:：)）\]】]"
_ARTICLE = re.compile(r"\s+(?!is\b|are\b|because\b|since\b|as\b|and\b)[a-z]")
"""What stands behind an "A" that is no label."""
_LONGER = 3.0
"""An answer that is longer than all options together by this factor discusses them, and does not repeat its choice."""


class AnswerKeyTexts(Texts):
    """A language's `answer_keys.yaml`; the English one says what each list is for."""

    heading: str
    no_reference: list[str]
    affirmed: list[str]
    denied: list[str]
    affirms: list[str]
    denies: list[str]
    calls_true: list[str]
    calls_false: list[str]
    chooses: list[str]
    says_right: list[str]
    says_wrong: list[str]
    asks_for_wrong: list[str]
    leads: list[str]
    separators: list[str]
    alternatives: list[str]
    negated: list[str]


@cache
def key_texts() -> tuple[AnswerKeyTexts, ...]:
    """Those of all languages: texts mix them."""
    return tuple(PACKAGED.load(code, FILE, AnswerKeyTexts) for code in PACKAGED.codes(FILE))


class Plain(NamedTuple):
    """A text as it is compared, and where each of its characters stands in the text."""

    text: str
    places: list[int]


def plain_with_places(text: str) -> Plain:
    """The letters and digits of a text in lower case, decimal points and percent signs too."""
    signs: list[str] = []
    places: list[int] = []
    for at, sign in enumerate(text):
        kept = "".join(each for each in unicodedata.normalize("NFKC", sign).casefold() if _counts(each, text, at))
        signs.append(kept)
        places += [at] * len(kept)
    return Plain("".join(signs), places)


def plain(text: str) -> str:
    """As `plain_with_places`, without the places."""
    return plain_with_places(text).text


def _counts(sign: str, text: str, at: int) -> bool:
    if sign == ".":
        return text[at - 1 : at].isdigit() and text[at + 1 : at + 2].isdigit()
    return sign.isalnum() or sign == "%"


@lru_cache(maxsize=1024)
def options_of(question: str) -> Mapping[str, str]:
    """The options of a question: label -> text; empty where it has none.

    Labels are `A.`, `B)`, `(C)` or `D、` in their order, at least A and B. An upper-case one needs no mark at the
    beginning of a line and before Chinese.
    """
    for labels, bare in ((_LABELS, True), (_LABELS.lower(), False)):
        starts: list[re.Match[str]] = []
        at = 0
        for label in labels:
            found = _label(label, bare).search(question, at)
            if found is None:
                break
            starts.append(found)
            at = found.end()
        if len(starts) >= _FEWEST:
            ends = [*(match.start() for match in starts[1:]), len(question)]
            texts = {
                label.upper(): question[match.end() : end].split("\n\n")[0].strip(" \t\n，,;；")
                for label, match, end in zip(labels, starts, ends, strict=False)
            }
            if all(texts.values()):
                return MappingProxyType(texts)
    return MappingProxyType({})


@cache
def _label(label: str, bare: bool) -> re.Pattern[str]:
    marked = rf"(?<![A-Za-z0-9'’])[(（\[【]?{label}\s?{_MARKS}\s*"
    unmarked = rf"|^[ \t]*{label}\s+|(?<![A-Za-z0-9'’]){label}\s+(?=[^\W\d_a-zA-Z])"
    return re.compile(marked + unmarked if bare else marked, re.MULTILINE)


def letters_in(text: str, options: Mapping[str, str]) -> frozenset[str]:
    """The labels of options that a text consists of; empty where it says anything else.

    Args:
        text: Such as `B`, `A, C and D` or `(b)`.
        options: Of the question.
    """
    bare = text.strip(" \t\n()（）[]【】.。．*\"'“”")
    labels = "".join(options)
    if options and re.fullmatch(rf"(?:[{labels}]{_BETWEEN})*[{labels}]", bare, re.IGNORECASE):
        return frozenset(re.sub(r"(?i)and|or", "", bare).upper()) & frozenset(labels)
    return frozenset()


def chosen_options(question: str, answer: str) -> frozenset[str]:
    """The labels of the options that an answer chooses; empty where it does not say so clearly.

    A statement such as "the answer is B" counts most, the last one of several. Then come labels at the beginning of the
    answer, statements about single options, and at last the options whose text the answer repeats.
    """
    options = options_of(question)
    if not options:
        return frozenset()
    if letters := letters_in(answer, options):
        return letters
    labels = "".join(options)
    concluded = _stated("chooses", labels, answer)
    if concluded:
        at, letters = concluded[-1]
        # "The answers are:", and then a line for each.
        return (_leading(answer[at:], options) if answer[:at].rstrip(" *").endswith("\n") else None) or letters
    asks_for_wrong = _searches("asks_for_wrong", _stem(question, options))
    said = "says_wrong" if asks_for_wrong else "says_right"
    return (
        _leading(answer, options)
        or frozenset().union(*(found for _, found in _stated(said, labels, answer)))
        or _repeated(answer, options)
    )


def _stem(question: str, options: Mapping[str, str]) -> str:
    """The question without its options."""
    for text in options.values():
        question = question.replace(text, "")
    return question


def _stated(kind: str, labels: str, answer: str) -> list[tuple[int, frozenset[str]]]:
    """Where an answer states options in one of a kind's forms, and which, in its order."""
    found = []
    for pattern in _patterns(kind, labels):
        for match in pattern.finditer(answer):
            listed = match["list"]
            if listed == "A" and re.match(
                r"\s+(?!is\b|are\b|because\b|since\b|as\b|and\b)[a-z]", answer[match.end() :]
            ):
                continue  # the article
            letters = frozenset(re.sub(r"(?i)and|or", "", listed).upper()) & frozenset(labels)
            found.append((match.start("list"), letters))
    return sorted(found, key=lambda each: each[0])


@cache
def _patterns(kind: str, labels: str) -> tuple[re.Pattern[str], ...]:
    upper, lower = f"[{labels}]", f"[{labels.lower()}]"
    listed = (
        rf"(?P<list>(?-i:(?<![A-Za-z0-9]){upper}(?:{_BETWEEN}{upper})*(?![A-Za-z0-9])"
        rf"|(?<![A-Za-z0-9]){lower}(?:{_BETWEEN}{lower})*(?=[.)）、:：,，;；\]]|\s+(?:is|are)\b|\s*$|\s*\n)))"
    )
    expressions = [expression for texts in key_texts() for expression in getattr(texts, kind)]
    return tuple(re.compile(expression.replace("LIST", listed), re.IGNORECASE) for expression in expressions)


def _searches(kind: str, text: str) -> bool:
    # Case counts: "NOT" asks for the wrong one.
    return any(re.search(expression, text) for texts in key_texts() for expression in getattr(texts, kind))


def _leading(answer: str, options: Mapping[str, str]) -> frozenset[str]:
    """The options at the beginning of an answer, or at the beginning of its lines; none where all are listed."""
    labels = "".join(options)
    lines = [line.strip(" \t*#-") for line in answer.strip().splitlines() if line.strip()]
    if not lines:
        return frozenset()
    if first := letters_in(lines[0], options):
        return first
    chosen: set[str] = set()
    for number, line in enumerate(lines):
        match = re.match(rf"[(（\[【]?([{labels}{labels.lower()}])(?![A-Za-z0-9'’])\s*({_MARKS}?)\s*", line)
        if match is None:
            if number == 0:
                return frozenset()
            continue
        label, text = match[1].upper(), plain(line[match.end() :])
        if match[2] or text.startswith(plain(options[label])[:8]):
            chosen.add(label)
    return frozenset(chosen) if len(chosen) < len(options) else frozenset()


def _repeated(answer: str, options: Mapping[str, str]) -> frozenset[str]:
    """The options whose text an answer repeats, unless it repeats all of them or discusses them at length."""
    said = plain(answer)
    texts = {label: plain(text) for label, text in options.items()}
    if len(said) > _LONGER * sum(map(len, texts.values())) + 20:
        return frozenset()
    left, found = said, set()
    # The longest first: "acute leukaemia" does not say "leukaemia".
    for label, text in sorted(texts.items(), key=lambda each: -len(each[1])):
        if len(text) >= _FEWEST and text in left:
            left = left.replace(text, " ")
            found.add(label)
    return frozenset(found) if len(found) < len(options) else frozenset()


def mentions(label: str, question: str, answer: str) -> bool:
    """Whether an answer names an option in any way: its label or its text."""
    text = plain(options_of(question)[label])
    labelled = rf"(?<![A-Za-z]){label}(?![A-Za-z])|(?<![A-Za-z]){label.lower()}(?=[.)）、:：])"
    return text in plain(answer) or re.search(labelled, answer) is not None


def option_labels(found: frozenset[str]) -> Iterator[str]:
    """Labels in their order."""
    yield from sorted(found)
