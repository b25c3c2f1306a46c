"""References with facts altered: numbers, doses, units, sides, negations, drugs, so that errors cost them levels.

An alteration that finds nothing to alter gives None; one that is applied is there to be seen. What is altered in one
part is altered wherever it occurs again, so that a text does not contradict itself; only negations and opposites turn
one claim."""

import re
from collections.abc import Callable, Sequence, Set
from functools import cache, partial
from random import Random
from typing import Literal, NamedTuple, TypeVar

from medjudge.distill.dropping import DROP_STEPS, parts_to_drop
from medjudge.distill.sources import Body, Source, Wording
from medjudge.text.outline import written

_Key = TypeVar("_Key")


def in_random_order(weights: dict[_Key, float], draw: Random) -> list[_Key]:
    """The keys in random order, those of more weight rather first (Efraimidis and Spirakis, 2006)."""
    return sorted(weights, key=lambda key: draw.random() ** (1 / weights[key]), reverse=True)


class Altered(NamedTuple):
    """The parts after an alteration, and the numbers of those that it touched."""

    parts: list[str]
    touched: tuple[int, ...]


Units = Literal["dose", "other"]
"""Units of doses, whose numbers can harm, and all others."""


_NUMBER = r"\d+(?:,\d{3})+|\d+(?:\.\d+)?"
_NOT_INSIDE = r"(?<![A-Za-z0-9_.:/^*×+\-–~～到至])(?<!pH )(?<!pH)(?<!× )"
_DOSE_FACTORS = (10.0, 0.1, 5.0, 0.2)
_NUMBER_FACTORS = (2.0, 3.0, 4.0, 0.5, 0.25)
_ALSO_GIVEN = re.compile(rf"\s*[(（][^()（）\d]{{0,8}}(?:{_NUMBER})[^()（）\d]{{1,12}}[)）]")
"""The same value in another unit, in brackets behind it."""
_ALSO_BEFORE = re.compile(r"\d[^()（）\d]{1,12}[(（][^()（）\d]{0,8}$")
"""The text before a value that is only the one before it in another unit."""


@cache
def _amount(wording: Wording, units: Units) -> re.Pattern[str]:
    """A number or range with a unit of a list; groups: the numbers, the gap, the unit."""
    texts = wording.texts
    known = "|".join(sorted(texts.dose_units if units == "dose" else texts.other_units, key=len, reverse=True))
    ranges = "|".join(texts.range)
    return re.compile(
        rf"{_NOT_INSIDE}(?P<numbers>(?:{_NUMBER})(?:\s*(?:{known})?\s*(?:{ranges})\s*(?:{_NUMBER}))?)"
        rf"(?P<gap>[\s-]?)(?P<unit>{known})(?![A-Za-z/])"
    )


def _drawn_amount(units: Units, text: str, wording: Wording, draw: Random) -> re.Match[str] | None:
    if units == "dose" and re.search("|".join(wording.texts.not_doses), text, re.IGNORECASE):
        return None
    amounts = [
        match
        for match in _amount(wording, units).finditer(text)
        if re.search("[1-9]", match["numbers"]) and not _ALSO_BEFORE.search(text[: match.start()])
    ]
    return draw.choice(amounts) if amounts else None


def _everywhere(parts: Sequence[str], expression: str, instead: str) -> list[str]:
    """An expression replaced in all parts, where it is no piece of a longer number or word."""
    pattern = re.compile(rf"(?<![A-Za-z0-9.]){re.escape(expression)}(?![A-Za-z0-9/])")
    return [pattern.sub(lambda match: instead, part) for part in parts]


def _scaled(units: Units, parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
    amount = _drawn_amount(units, parts[at], wording, draw)
    if not amount:
        return None
    numbers = re.findall(_NUMBER, amount["numbers"])
    factors = _DOSE_FACTORS if units == "dose" else _NUMBER_FACTORS
    fitting = [factor for factor in factors if all(_fits(number, factor, amount["unit"]) for number in numbers)]
    if not fitting:
        return None
    factor = draw.choice(fitting)
    also = _ALSO_GIVEN.match(parts[at], amount.end())
    rest = amount["gap"] + amount["unit"] + (also[0] if also else "")
    new = _times(amount["numbers"], factor) + (_times(rest, factor) if also else rest)
    return _everywhere(parts, amount["numbers"] + rest, new)


def _fits(number: str, factor: float, unit: str) -> bool:
    """True if a changed number reads like one of its kind: whole ones stay whole, shares stay below 100 %."""
    value = float(number.replace(",", "")) * factor
    if unit in ("%", "percent", "per cent") and value > 100:
        return False
    # "1 hours" would give the change away.
    return "." in number or (value == round(value) and value != 1)


def _times(text: str, factor: float) -> str:
    """The text with all its numbers multiplied."""

    def product(number: re.Match[str]) -> str:
        return f"{float(number[0].replace(',', '')) * factor:.4f}".rstrip("0").rstrip(".")

    return re.sub(_NUMBER, product, text)


def _other_unit(units: Units, parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
    amount = _drawn_amount(units, parts[at], wording, draw)
    if not amount:
        return None
    head, slash, rest = amount["unit"].partition("/")
    if head not in wording.texts.unit_swaps:
        return None
    new = wording.texts.unit_swaps[head] + slash + rest
    return _everywhere(parts, amount[0], amount["numbers"].replace(amount["unit"], new) + amount["gap"] + new)


def _other_side(parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
    sides, edge = wording.texts.laterality, wording.grammar.edge
    either = wording.grammar.any_of([sides.left, sides.right], sides.before + edge, edge + sides.after)
    if not either.search(parts[at]):
        return None
    other = {sides.left: sides.right, sides.right: sides.left}
    return [either.sub(lambda match: _as_before(match[0], other[match[0].lower()]), part) for part in parts]


def _negated_advice(parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
    hits = _negatable(parts[at], wording.texts.negated_advice)
    return _turned(parts, at, *draw.choice(hits)) if hits else None


def _negated_statement(parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
    part = parts[at]
    # "否则" and the like are rare in a statement; in doubt it is left alone.
    if part.rstrip().endswith(("?", "？")) or wording.negations.search(part) or "n't" in part:
        return None
    hits = [
        (match, instead)
        for match, instead in _negatable(part, wording.texts.negated_statements)
        if not wording.subordinates.search(re.split(r"[,;:，；：。]", part[: match.start()])[-1])
    ]
    return _turned(parts, at, *min(hits, key=lambda hit: hit[0].start())) if hits else None


def _negatable(part: str, rules: Sequence[tuple[str, str]]) -> list[tuple[re.Match[str], str]]:
    """The places to negate, and what stands there then; "@" in a rule marks a word that begins no sentence any more."""
    return [
        (match, re.sub(r"@(\w)", lambda letter: letter[1].lower(), match.expand(instead)))
        for pattern, instead in rules
        for match in re.finditer(pattern, part)
    ]


def _turned(parts: Sequence[str], at: int, match: re.Match[str], new: str) -> list[str]:
    return [*parts[:at], parts[at][: match.start()] + new + parts[at][match.end() :], *parts[at + 1 :]]


def _opposite(parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
    pattern, opposites = _opposites(wording)
    hits = list(pattern.finditer(parts[at]))
    if not hits:
        return None
    match = draw.choice(hits)
    return _turned(parts, at, match, _as_before(match[0], opposites[match[0].lower()]))


@cache
def _opposites(wording: Wording) -> tuple[re.Pattern[str], dict[str, str]]:
    """A pattern of all words that have an opposite, and their opposites."""
    opposites = {word: opposite for pair in wording.texts.opposites for word, opposite in (pair, pair[::-1])}
    return wording.grammar.any_of(map(re.escape, sorted(opposites, key=len, reverse=True))), opposites


def _other_drug(parts: Sequence[str], at: int, wording: Wording, draw: Random) -> list[str] | None:
    pattern, class_of = _drugs(wording)
    hits = [match[0] for match in pattern.finditer(parts[at]) if not _among_others(parts[at], match)]
    if not hits:
        return None
    drug = draw.choice(hits)
    others = [names for number, names in enumerate(wording.texts.drugs) if number != class_of[drug.lower()]]
    instead = draw.choice(draw.choice(others)).partition("(?")[0]
    return [
        pattern.sub(lambda match: _as_before(match[0], instead) if match[0].lower() == drug.lower() else match[0], part)
        for part in parts
    ]


def _among_others(part: str, drug: re.Match[str]) -> bool:
    """True if a drug is one of several examples: another in its place may be right, too."""
    before, after = part[: drug.start()].rstrip(), part[drug.end() :].lstrip()
    return before.endswith(("、", "如", ",", " or", "such as", "like")) or after.startswith(
        ("、", "等", ",", "or ", "或")
    )


@cache
def _drugs(wording: Wording) -> tuple[re.Pattern[str], dict[str, int]]:
    """A pattern of all drugs, and the number of the class of each."""
    class_of = {drug: number for number, drugs in enumerate(wording.texts.drugs) for drug in drugs}
    pattern = wording.grammar.any_of(sorted(class_of, key=len, reverse=True))
    return pattern, {drug.partition("(?")[0]: number for drug, number in class_of.items()}


def _as_before(word: str, instead: str) -> str:
    return instead[:1].upper() + instead[1:] if word[:1].isupper() else instead


ALTERATIONS: dict[str, Callable[[Sequence[str], int, Wording, Random], list[str] | None]] = {
    "dose": partial(_scaled, "dose"),
    "number": partial(_scaled, "other"),
    "dose-unit": partial(_other_unit, "dose"),
    "unit": partial(_other_unit, "other"),
    "side": _other_side,
    "negated-advice": _negated_advice,
    "negated-statement": _negated_statement,
    "opposite": _opposite,
    "drug": _other_drug,
}


def altered(parts: Sequence[str], at: int, kind: str, wording: Wording, draw: Random) -> Altered | None:
    """Alters a fact of part `at` of a text, and wherever it occurs again; None where there is nothing to alter so."""
    changed = ALTERATIONS[kind](parts, at, wording, draw)
    if changed is None:
        return None
    touched = tuple(number for number, (old, new) in enumerate(zip(parts, changed, strict=True)) if old != new)
    return Altered(changed, touched) if at in touched else None


_DANGER, _MINOR = 4.0, 0.7
_DANGEROUS = frozenset({"dose", "dose-unit", "drug", "negated-advice"})
_FREQUENCIES = {
    "dose": 4.0,
    "dose-unit": 2.0,
    "drug": 4.0,
    "side": 4.0,
    "negated-advice": 2.0,
    "number": 2.0,
    "unit": 1.0,
    "opposite": 0.4,
    "negated-statement": 0.7,
}
"""The weights by which kinds of alteration are tried first: high for those that few parts allow."""
_PARTS_OF_ONE_ERROR = 12
"""So many parts of a text can hold one error of full weight; in a longer text it weighs less."""
_MOST_ERRORS = 6


def wrong_and_short(source: Source, level: int, draw: Random) -> Body | None:
    """One level up by dropping, the rest by altering what is left."""
    dropped = parts_to_drop(source, level + 1, draw)
    body = wrong(source, level, draw, dropped) if dropped else None
    return body and body._replace(steps=(DROP_STEPS[level + 1], *body.steps))


def wrong(source: Source, level: int, draw: Random, dropped: Set[int] = frozenset()) -> Body | None:
    """The reference without some parts, and with facts altered until they weigh what the level requires."""
    parts: list[str] = list(source.outline.parts)
    rest = [part for part in range(len(parts)) if part not in dropped]
    dilution = max(1.0, len(rest) / _PARTS_OF_ONE_ERROR)
    # What was dropped weighs as the level that it alone would make.
    start = float(3 - level) if dropped else 0.0
    weight, heaviest, steps, done = 0.0, 0.0, list[str](), set[int]()
    core_first = level < 3 and draw.random() < 0.7
    order = sorted(draw.sample(rest, len(rest)), key=lambda part: (part in source.core) != core_first)
    tries = ((part, kind) for part in order for kind in in_random_order(_FREQUENCIES, draw))
    for part, kind in tries:
        if part in done:
            continue
        change = altered(parts, part, kind, source.wording, draw)
        if change is None or done & set(change.touched):
            continue
        weights = [_weight(kind, part in source.core) for part in change.touched if part not in dropped]
        total, most = weight + sum(weights), max(heaviest, *weights)
        if (reached := _level_of(start + total / dilution, most)) and reached < level:
            continue
        parts, weight, heaviest = change.parts, total, most
        steps.append(kind)
        done |= set(change.touched)
        if reached == level:
            left = [None if number in dropped else text for number, text in enumerate(parts)]
            return Body(written(source.outline, left), tuple(steps))
        if len(steps) == _MOST_ERRORS:
            return None
    return None


def _weight(kind: str, in_core: bool) -> float:
    """The weight of an altered fact; `_level_of` makes levels of sums."""
    if kind in _DANGEROUS:
        return _DANGER if in_core else 2.0
    if not in_core:
        return _MINOR
    return 1.5 if kind in ("number", "unit") else 2.0


def _level_of(weight: float, heaviest: float) -> int | None:
    """The level that errors leave; None where they are too slight for level 3.

    Slips that put nobody at risk do not make level 1 unless there are many. In a long text, too, one dangerous
    sentence is a plain safety risk.
    """
    if weight >= 2 * _DANGER or (weight >= _DANGER and heaviest >= _DANGER):
        return 1
    if weight >= 2 or heaviest >= _DANGER:
        return 2
    return 3 if weight >= _MINOR else None
