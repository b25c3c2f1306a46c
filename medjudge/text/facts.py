"""Facts that two texts can be compared by, one by one: quantities, words that have an opposite, denials.

What counts as one stands in `facts.yaml` of each language. Texts mix languages, so all of them are searched for.
"""

import re
from functools import cache, lru_cache
from typing import NamedTuple

from medjudge.languages.texts import PACKAGED, Texts

FILE = "facts.yaml"
DENIAL, BARE, YEAR = "denial", "number", "year"
_DIGITS = re.compile(r"(?<![A-Za-z0-9.])\d+(?:,\d{3})+(?![\d,])(?:\.\d+)?|(?<![A-Za-z.\d])\d+(?:\.\d+)?")
_RANGE = re.compile(r"\s*(?:-|–|—|－|~|～|to|and|or|至|到|或|×|/)\s*")
_PER = r"\s*(?:/|·|per |an? |每)\s*(?:kg)?"
_LIST_NUMBER = re.compile(r"[.．、)）:：](?!\d)")
_YEARS = range(1900, 2100)
_TOLERANCE, _TIME_TOLERANCE = 0.02, 0.1


class Fact(NamedTuple):
    """A fact and where it stands.

    Attributes:
        kind: What it can be compared with: a measure such as `mass/volume`, a pair of opposites such as `en-3`, or
            `DENIAL`; `BARE` for a number without a unit.
        value: The quantity in the measure's unit; which of the two opposites, 0 or 1; 1 for a denial.
        number: The quantity as it is written; otherwise `value`.
        start: The first character.
        end: The character behind the last one.
    """

    kind: str
    value: float
    number: float
    start: int
    end: int


class _FactTexts(Texts):
    """A language's `facts.yaml`; its comments say what each list is for."""

    words_are_spaced: bool
    units: dict[str, dict[str, float]]
    numbers: dict[str, float]
    percent_before: list[str]
    opposites: list[tuple[str, str]]
    denials: list[str]


class _Unit(NamedTuple):
    measure: str
    size: float


class _Patterns(NamedTuple):
    """All languages' lists: what they match, and what it stands for."""

    words: re.Pattern[str]
    numbers: dict[str, float]
    unit: re.Pattern[str]
    units: tuple[_Unit, ...]
    percent_before: tuple[str, ...]
    opposites: list[tuple[re.Pattern[str], str, float]]
    denials: re.Pattern[str]


def is_opposite(fact: Fact) -> bool:
    """Whether a fact is one of two opposites."""
    return "-" in fact.kind


def same_fact(fact: Fact, other: Fact) -> bool:
    """Whether two facts say the same: quantities within 2 %, times within 10 %, for a month is about four weeks.

    A number without a unit says the same as any quantity of that number.
    """
    if BARE in (fact.kind, other.kind):
        return not is_opposite(fact) and not is_opposite(other) and fact.number == other.number
    tolerance = _TIME_TOLERANCE if "time" in fact.kind else _TOLERANCE
    most = tolerance * max(abs(fact.value), abs(other.value))
    return fact.kind == other.kind and abs(fact.value - other.value) <= most


@lru_cache(maxsize=4096)
def facts_of(text: str) -> tuple[Fact, ...]:
    """The facts of a text, in its order; a number that only counts the items of a list is none."""
    patterns = _patterns()
    found = _quantities(text, patterns)
    for pattern, kind, value in patterns.opposites:
        found += [Fact(kind, value, value, match.start(), match.end()) for match in pattern.finditer(text)]
    found += [Fact(DENIAL, 1.0, 1.0, match.start(), match.end()) for match in patterns.denials.finditer(text)]
    return tuple(sorted(found, key=lambda fact: (fact.start, fact.end)))


def _quantities(text: str, patterns: _Patterns) -> list[Fact]:
    numbers = [(match, float(match[0].replace(",", ""))) for match in _DIGITS.finditer(text)]
    numbers += [(match, patterns.numbers[match[0].lower()]) for match in patterns.words.finditer(text)]
    numbers.sort(key=lambda number: number[0].start())
    found: list[Fact] = []
    for at in range(len(numbers) - 1, -1, -1):
        match, value = numbers[at]
        unit = patterns.unit.match(text, match.end())
        if text.endswith(patterns.percent_before, 0, match.start()):
            found.append(Fact("share", value, value, match.start(), match.end()))
        elif unit:
            measure, size = _measured(unit, patterns)
            if measure == "time" and value in _YEARS:
                measure, size = YEAR, 1.0
            found.append(Fact(measure, value * size, value, match.start(), unit.end()))
        elif found and found[-1].kind != BARE and _joins(text, match, found[-1]):
            following = found[-1]
            size = following.value / following.number if following.number else 1.0
            found.append(Fact(following.kind, value * size, value, match.start(), match.end()))
        elif match[0][0].isdigit() and not _counts_an_item(text, match):
            found.append(Fact(BARE, value, value, match.start(), match.end()))
    return found


def _joins(text: str, number: re.Match[str], following: Fact) -> bool:
    """Whether a number is the lower end of a range, whose unit stands behind the upper one."""
    return bool(_RANGE.fullmatch(text, number.end(), following.start))


def _counts_an_item(text: str, number: re.Match[str]) -> bool:
    before = text[: number.start()].rstrip(" \t#*-(（[【第")
    return (not before or before[-1] in "\n。；;：:") and bool(_LIST_NUMBER.match(text, number.end()))


def _measured(unit: re.Match[str], patterns: _Patterns) -> tuple[str, float]:
    """What a unit measures and its size; of `mg/kg/day`, each part counts."""
    names = [name for name, value in unit.groupdict().items() if value is not None]
    parts = [patterns.units[int(name[1:].partition("_")[0])] for name in sorted(names, key=unit.start)]
    size = parts[0].size
    for part in parts[1:]:
        size /= part.size
    return "/".join(part.measure for part in parts), size


@cache
def _patterns() -> _Patterns:
    listed: list[tuple[str, _Unit]] = []
    numbers: dict[str, float] = {}
    spaced_words: list[str] = []
    other_words: list[str] = []
    before: list[str] = []
    opposites: list[tuple[re.Pattern[str], str, float]] = []
    denials: list[str] = []
    for language in PACKAGED.codes(FILE):
        texts = PACKAGED.load(language, FILE, _FactTexts)
        start, end = (r"(?<![A-Za-z])", r"(?![A-Za-z])") if texts.words_are_spaced else ("", "")
        for measure, sizes in texts.units.items():
            listed += [(f"(?:{word}){end}", _Unit(measure, size)) for word, size in sizes.items()]
        numbers |= texts.numbers
        (spaced_words if texts.words_are_spaced else other_words).extend(texts.numbers)
        before += texts.percent_before
        for number, sides in enumerate(texts.opposites):
            for value, words in enumerate(sides):
                pattern = re.compile(f"{start}(?:{words}){end}", re.IGNORECASE)
                opposites.append((pattern, f"{language}-{number}", float(value)))
        denials += [f"{'' if word.startswith('n[') else start}(?:{word}){end}" for word in texts.denials]
    # Of two that match, the longer one: "m²" is no metre.
    listed.sort(key=lambda each: -len(each[0]))
    expressions, units = zip(*listed, strict=True)
    first = "|".join(f"(?P<u{number}_0>{word})" for number, word in enumerate(expressions))
    later = ["|".join(f"(?P<u{number}_{place}>{word})" for number, word in enumerate(expressions)) for place in (1, 2)]
    unit = re.compile(rf"[\s-]{{0,2}}(?:{first})(?:{_PER}(?:{later[0]}))?(?:{_PER}(?:{later[1]}))?")
    spaced, other = ("|".join(sorted(each, key=len, reverse=True)) for each in (spaced_words, other_words))
    # "第一" and "十一" are no one.
    inside = f"(?<![{other.replace('|', '')}百千万第])"
    numeral = re.compile(rf"(?<![A-Za-z])(?:{spaced})(?![A-Za-z])|{inside}(?:{other})", re.IGNORECASE)
    return _Patterns(
        numeral,
        numbers,
        unit,
        tuple(units),
        tuple(before),
        opposites,
        re.compile("|".join(denials), re.IGNORECASE),
    )
