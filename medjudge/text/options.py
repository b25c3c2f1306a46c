"""Multiple choice: the options of a question, and those that an answer chooses."""

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, lru_cache
from types import MappingProxyType
from typing import NamedTuple

from medjudge.languages.texts import PACKAGED, Texts

FILE = "answer_keys.yaml"
_LABELS = "ABCDEFGH"
_FEWEST = 2
"""Options of a multiple choice."""
_SHORTEST_TEXT = 2
"""In letters, of an option that is looked for in an answer."""
_OF_ITS_OWN = r"(?!\s*(?:is|are|项|选项)?\s*(?:is\b|are\b|not\b|wrong|incorrect|是|错|不|正确))"
"""A label with a predicate of its own does not belong to the list before it."""
_BETWEEN = r"\s*(?:(?:[、，,;；/&+]|and\b|or\b|和|与|及)\s*)?"
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
    negated_behind: list[str]


@cache
def key_texts() -> tuple[AnswerKeyTexts, ...]:
    """Those of all languages: texts mix them."""
    return tuple(PACKAGED.load(code, FILE, AnswerKeyTexts) for code in PACKAGED.codes(FILE))


class Plain(NamedTuple):
    """A text as it is compared, and where each of its characters stands in the text."""

    text: str
    places: list[int]


@lru_cache(maxsize=256)
def plain_with_places(text: str) -> Plain:
    """The letters and digits of a text in lower case, with percent signs, decimal points and ranges' hyphens."""
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
    if sign in ".-–~":
        return text[at - 1 : at].isdigit() and text[at + 1 : at + 2].isdigit()
    return sign.isalnum() or sign == "%"


@lru_cache(maxsize=1024)
def options_of(question: str) -> Mapping[str, str]:
    """The options of a question: label -> text; empty where it has none.

    Labels are `A.`, `B)`, `(C)` or `D、` in their order, at least A and B. An upper-case one needs no mark at the
    beginning of a line and before Chinese.
    """
    for labels, marked in ((_LABELS, True), (_LABELS.lower(), True), (_LABELS, False)):
        starts: list[re.Match[str]] = []
        at = 0
        for label in labels:
            found = _label(label, marked).search(question, at)
            if found is None:
                break
            starts.append(found)
            at = found.end()
        if len(starts) >= _FEWEST:
            texts = _option_texts(question, starts)
            if all(texts):
                return MappingProxyType(dict(zip(labels.upper(), texts, strict=False)))
    return MappingProxyType({})


def _option_texts(question: str, starts: Sequence[re.Match[str]]) -> list[str]:
    """The texts behind labels; where each option has its line, what follows the last one is none of it."""
    ends = [*(match.start() for match in starts[1:]), len(question)]
    texts = [question[match.end() : end] for match, end in zip(starts, ends, strict=True)]
    texts[-1] = texts[-1].split("\n" if "\n" in texts[0] else "\n\n")[0]
    return [text.strip(" \t\n，,;；") for text in texts]


@cache
def _label(label: str, marked: bool) -> re.Pattern[str]:
    if marked:
        return re.compile(rf"(?<![A-Za-z0-9'’])[(（\[【]?{label}\s?{_MARKS}\s*")
    before = r"(?:^|[？?：:。)）])[ \t]*" if label == _LABELS[0] else r"(?:^[ \t]*|(?<=\s))"
    return re.compile(rf"{before}{label}\s+(?=[^\W\d_a-zA-Z])|^[ \t]*{label}\s+", re.MULTILINE)


def letters_in(text: str, options: Mapping[str, str]) -> frozenset[str]:
    """The labels of options that a text consists of; empty where it says anything else.

    Args:
        text: Such as `B`, `A, C and D` or `(b)`.
        options: Of the question.
    """
    bare = text.strip(" \t\n()（）[]【】.。．*\"'“”")
    bare = re.sub(r"(?<=[A-Ha-h])\s*(?:选项|项)$", "", bare)
    labels = "".join(options)
    if options and re.fullmatch(rf"(?:[{labels}]{_BETWEEN})*[{labels}]", bare, re.IGNORECASE):
        return frozenset(re.sub(r"(?i)and|or", "", bare).upper()) & frozenset(labels)
    return frozenset()


def chosen_options(question: str, answer: str) -> frozenset[str]:
    """The labels of the options that an answer chooses; empty where it does not say so clearly.

    A statement such as "the answer is B" counts most, the last one of several. Then come a label at the beginning of
    the answer, statements about single options, labels at the beginning of lines, and at last the one option whose text
    the answer repeats.
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
    leading = _leading(answer, options, with_text=True)
    if len(leading) == 1:
        return leading
    said = "says_wrong" if _searches("asks_for_wrong", _stem(question, options)) else "says_right"
    of_options = frozenset[str]().union(*(found for _, found in _stated(said, labels, answer)))
    return of_options or _leading(answer, options) or _repeated(answer, options)


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
            if listed == "A" and _ARTICLE.match(answer, match.end()):
                continue
            letters = frozenset(re.sub(r"(?i)and|or", "", listed).upper()) & frozenset(labels)
            found.append((match.start("list"), letters))
    return sorted(found, key=lambda each: each[0])


@cache
def _patterns(kind: str, labels: str) -> tuple[re.Pattern[str], ...]:
    alone = _OF_ITS_OWN if kind == "chooses" else ""
    upper, lower = (f"{each}(?:{_BETWEEN}{each}{alone})*" for each in (f"[{labels}]", f"[{labels.lower()}]"))
    listed = (
        rf"(?P<list>(?-i:(?<![A-Za-z0-9]){upper}(?![A-Za-z0-9])"
        rf"|(?<![A-Za-z0-9]){lower}(?=[.)）、:：,，;；\]]|\s+(?:is|are)\b|\s*$|\s*\n)))"
    )
    expressions = [expression for texts in key_texts() for expression in getattr(texts, kind)]
    return tuple(re.compile(expression.replace("LIST", listed), re.IGNORECASE) for expression in expressions)


def _searches(kind: str, text: str) -> bool:
    return any(
        re.search(expression, text, re.IGNORECASE) for texts in key_texts() for expression in getattr(texts, kind)
    )


def _leading(answer: str, options: Mapping[str, str], with_text: bool = False) -> frozenset[str]:
    """The options at the beginning of an answer, or at the beginning of its lines; none where all are listed.

    Args:
        with_text: Whether only a label counts that stands alone or before its option's text.
    """
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
        if (match[2] and not with_text) or not text or text.startswith(plain(options[label])[:8]):
            chosen.add(label)
    return frozenset(chosen) if len(chosen) < len(options) else frozenset()


def _repeated(answer: str, options: Mapping[str, str]) -> frozenset[str]:
    """The one option whose text an answer repeats; none where it repeats several or discusses them at length."""
    said = plain(answer)
    texts = {label: plain(text) for label, text in options.items()}
    if len(said) > _LONGER * sum(map(len, texts.values())) + 20:
        return frozenset()
    left, found = said, set()
    # The longest first: "acute leukaemia" does not say "leukaemia".
    for label, text in sorted(texts.items(), key=lambda each: -len(each[1])):
        if len(text) >= _SHORTEST_TEXT and text in left:
            left = left.replace(text, " ")
            found.add(label)
    return frozenset(found) if len(found) == 1 else frozenset()


def option_labels(found: frozenset[str]) -> Iterator[str]:
    """Labels in their order."""
    yield from sorted(found)
