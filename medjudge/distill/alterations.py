"""Facts of a text altered, so that it says something wrong: numbers, doses, units, sides, negations, drugs.

An alteration that finds nothing to alter gives None; one that is applied is there to be seen. What is altered in one
part is altered wherever it stands again, so that a text does not contradict itself; only negations and opposites turn
one claim.
"""

import re
from collections.abc import Callable, Sequence
from functools import cache
from random import Random
from typing import NamedTuple

from medjudge.distill.wording import Wording, wording_of
from medjudge.records import Language


class Altered(NamedTuple):
    """The parts after an alteration, and which of them it touched."""

    parts: list[str]
    touched: tuple[int, ...]


Alteration = Callable[[Sequence[str], int, Wording, Random], list[str] | None]

_NUMBER = r"\d+(?:,\d{3})+|\d+(?:\.\d+)?"
_NOT_INSIDE = r"(?<![A-Za-z0-9_.:/^*×+\-–~～到至])(?<!pH )(?<!pH)(?<!× )"
_DOSE_FACTORS = (10.0, 0.1, 5.0, 0.2)
_NUMBER_FACTORS = (2.0, 3.0, 4.0, 0.5, 0.25)
_ALSO_GIVEN = re.compile(rf"\s*[(（][^()（）\d]{{0,8}}(?:{_NUMBER})[^()（）\d]{{1,12}}[)）]")
"""The same value in another unit, in brackets behind it."""
_ALSO_BEFORE = re.compile(r"\d[^()（）\d]{1,12}[(（][^()（）\d]{0,8}$")
"""What stands before a value that is only the one before it in another unit."""


@cache
def _amount(language: Language, units: str) -> re.Pattern[str]:
    """A number or range with a unit of a list; groups: the numbers, what stands between, the unit."""
    said = wording_of(language).said
    known = "|".join(sorted(said[units], key=len, reverse=True))
    ranges = "|".join(said["range"])
    return re.compile(
        rf"{_NOT_INSIDE}(?P<numbers>(?:{_NUMBER})(?:\s*(?:{known})?\s*(?:{ranges})\s*(?:{_NUMBER}))?)"
        rf"(?P<gap>[\s-]?)(?P<unit>{known})(?![A-Za-z/])"
    )


def _found(units: str, text: str, wording: Wording, draw: Random) -> re.Match[str] | None:
    if units == "dose_units" and re.search("|".join(wording.said["not_doses"]), text, re.IGNORECASE):
        return None
    every = [
        match
        for match in _amount(wording.language, units).finditer(text)
        if re.search("[1-9]", match["numbers"]) and not _ALSO_BEFORE.search(text[: match.start()])
    ]
    return draw.choice(every) if every else None


def _everywhere(parts: Sequence[str], said: str, instead: str) -> list[str]:
    """An expression replaced in all parts, where it stands for itself and is no piece of a longer number or word."""
    edge = re.compile(rf"(?<![A-Za-z0-9.]){re.escape(said)}(?![A-Za-z0-9/])")
    return [edge.sub(lambda match: instead, part) for part in parts]


def _scaled(units: str, factors: Sequence[float]) -> Alteration:
    def change(parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
        found = _found(units, parts[at], wording, draw)
        if not found:
            return None
        numbers = re.findall(_NUMBER, found["numbers"])
        fitting = [factor for factor in factors if all(_fits(number, factor, found["unit"]) for number in numbers)]
        if not fitting:
            return None
        factor = draw.choice(fitting)
        also = _ALSO_GIVEN.match(parts[at], found.end())
        said = found[0] + (also[0] if also else "")
        values = found["numbers"] + "\0" + said[len(found["numbers"]) :]
        value, rest = re.sub(_NUMBER, lambda match: _times(match[0], factor), values).split("\0")
        if not also:
            rest = said[len(found["numbers"]) :]
        return _everywhere(parts, said, value + rest)

    return change


def _fits(number: str, factor: float, unit: str) -> bool:
    """Whether a number so changed reads like a number of its kind: whole ones stay whole, shares stay below 100 %."""
    value = float(number.replace(",", "")) * factor
    if unit in ("%", "percent", "per cent") and value > 100:
        return False
    # "1 hours" would give the change away.
    return "." in number or (value == round(value) and value != 1)


def _times(number: str, factor: float) -> str:
    return f"{float(number.replace(',', '')) * factor:.4f}".rstrip("0").rstrip(".")


def _unit(units: str) -> Alteration:
    def change(parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
        found = _found(units, parts[at], wording, draw)
        swaps = wording.said["unit_swaps"]
        if not found:
            return None
        head, slash, rest = found["unit"].partition("/")
        if head not in swaps:
            return None
        new = swaps[head] + slash + rest
        return _everywhere(parts, found[0], found["numbers"].replace(found["unit"], new) + found["gap"] + new)

    return change


def _other_side(parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
    sides = wording.said["laterality"]
    (left,), (right,) = sides["left"], sides["right"]
    edge = r"\b" if wording.language == "en" else ""
    either = re.compile(f"{sides['before']}{edge}(?:{left}|{right}){edge}{sides['after']}", re.IGNORECASE)
    if not either.search(parts[at]):
        return None
    other = {left: right, right: left}
    return [either.sub(lambda match: _as_before(match[0], other[match[0].lower()]), part) for part in parts]


def _negated(rules: str) -> Alteration:
    def change(parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
        part = parts[at]
        statement = rules == "negated_statements"
        if statement and (part.rstrip().endswith(("?", "？")) or _denies(part, wording)):
            return None
        hits = [
            (match.start(), match, instead)
            for pattern, instead in _rules(wording.language, rules)
            for match in pattern.finditer(part)
            if not (statement and _is_aside(part[: match.start()], wording))
        ]
        if not hits:
            return None
        _, match, instead = min(hits, key=lambda hit: hit[0]) if statement else draw.choice(hits)
        new = match.expand(instead)
        # "@" stands before a word that begins the sentence no longer.
        new = re.sub(r"@(\w)", lambda letter: letter[1].lower(), new)
        return [*parts[:at], part[: match.start()] + new + part[match.end() :], *parts[at + 1 :]]

    return change


@cache
def _rules(language: Language, rules: str) -> list[tuple[re.Pattern[str], str]]:
    return [(re.compile(pattern), instead) for pattern, instead in wording_of(language).said[rules]]


def _denies(part: str, wording: Wording) -> bool:
    found = wording.negations.search(part)
    # "否则" and the like are rare in a statement; in doubt it is left alone.
    return bool(found) or "n't" in part


def _is_aside(before: str, wording: Wording) -> bool:
    clause = re.split(r"[,;:，；：。]", before)[-1]
    return bool(wording.subordinates.search(clause))


def _opposite(parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
    other = _other_word(wording.language)
    hits = list(_either_word(wording.language).finditer(parts[at]))
    if not hits:
        return None
    match = draw.choice(hits)
    new = _as_before(match[0], other[match[0].lower()])
    return [*parts[:at], parts[at][: match.start()] + new + parts[at][match.end() :], *parts[at + 1 :]]


@cache
def _other_word(language: Language) -> dict[str, str]:
    pairs = wording_of(language).said["opposites"]
    return {one: other for pair in pairs for one, other in (pair, pair[::-1])}


@cache
def _either_word(language: Language) -> re.Pattern[str]:
    edge = r"\b" if language == "en" else ""
    words = sorted(_other_word(language), key=len, reverse=True)
    return re.compile(f"{edge}(?:{'|'.join(map(re.escape, words))}){edge}", re.IGNORECASE)


def _other_drug(parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
    pattern, class_of = _drugs(wording.language)
    hits = [match[0] for match in pattern.finditer(parts[at]) if not _among_others(parts[at], match)]
    if not hits:
        return None
    drug = draw.choice(hits)
    classes = [one for number, one in enumerate(wording.said["drugs"]) if number != class_of[drug.lower()]]
    instead = draw.choice(draw.choice(classes)).partition("(?")[0]
    return [
        pattern.sub(lambda match: _as_before(match[0], instead) if match[0].lower() == drug.lower() else match[0], part)
        for part in parts
    ]


def _among_others(part: str, drug: re.Match[str]) -> bool:
    """Whether a drug is one of several examples: another in its place may be right, too."""
    before, after = part[: drug.start()].rstrip(), part[drug.end() :].lstrip()
    return before.endswith(("、", "如", ",", " or", "such as", "like")) or after.startswith(
        ("、", "等", ",", "or ", "或")
    )


@cache
def _drugs(language: Language) -> tuple[re.Pattern[str], dict[str, int]]:
    edge = r"\b" if language == "en" else ""
    class_of = {drug: number for number, one in enumerate(wording_of(language).said["drugs"]) for drug in one}
    names = sorted(class_of, key=len, reverse=True)
    pattern = re.compile(f"{edge}(?:{'|'.join(names)}){edge}", re.IGNORECASE)
    return pattern, {drug.partition("(?")[0]: number for drug, number in class_of.items()}


def _as_before(word: str, instead: str) -> str:
    return instead[:1].upper() + instead[1:] if word[:1].isupper() else instead


ALTERATIONS: dict[str, Alteration] = {
    "dose": _scaled("dose_units", _DOSE_FACTORS),
    "number": _scaled("other_units", _NUMBER_FACTORS),
    "dose-unit": _unit("dose_units"),
    "unit": _unit("other_units"),
    "side": _other_side,
    "negated-advice": _negated("negated_advice"),
    "negated-statement": _negated("negated_statements"),
    "opposite": _opposite,
    "drug": _other_drug,
}


def altered(parts: Sequence[str], at: int, kind: str, wording: Wording, draw: Random) -> Altered | None:
    """Alters a fact of one part.

    Args:
        parts: Of the text, shape (n parts,).
        at: The part in which the fact is looked for.
        kind: One of `ALTERATIONS`.
        wording: Of the text's language.
        draw: Chooses among the facts and what they become.

    Returns:
        The changed parts, or None where the part holds nothing to alter in this way.
    """
    changed = ALTERATIONS[kind](parts, at, wording, draw)
    if changed is None:
        return None
    touched = tuple(place for place, (old, new) in enumerate(zip(parts, changed, strict=True)) if old != new)
    return Altered(changed, touched) if at in touched else None
