"""References with facts altered, so that what is wrong costs them levels."""

from collections.abc import Set
from random import Random

from medjudge.distill.alterations import altered
from medjudge.distill.draws import in_random_order
from medjudge.distill.dropping import DROP_STEPS, parts_to_drop
from medjudge.distill.sources import Body, Source
from medjudge.text.outline import written

_DANGER, _MINOR = 4.0, 0.7
_WEIGHTS = {
    "dose": (_DANGER, 2.0),
    "dose-unit": (_DANGER, 2.0),
    "drug": (_DANGER, 2.0),
    "negated-advice": (_DANGER, 2.0),
    "side": (2.0, _MINOR),
    "number": (1.5, _MINOR),
    "unit": (1.5, _MINOR),
    "opposite": (2.0, _MINOR),
    "negated-statement": (2.0, _MINOR),
}
"""What an altered fact weighs in a core part, and in another; `_level_of` makes levels of sums."""
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
"""How soon a kind of alteration is tried; those that few parts allow come first, so that there is something of each."""
_PARTS_OF_ONE_ERROR = 12
"""So many parts of a text can hold one error of full weight; in a longer text it weighs less."""
_MOST_ERRORS = 6


def wrong(source: Source, level: int, draw: Random) -> Body | None:
    """The reference with facts altered until they weigh what the level requires."""
    return _with_errors(source, level, set(), draw)


def wrong_and_short(source: Source, level: int, draw: Random) -> Body | None:
    """One level up by dropping, the rest by altering what is left."""
    dropped = parts_to_drop(source, level + 1, draw)
    body = _with_errors(source, level, dropped, draw) if dropped else None
    return body and body._replace(steps=(DROP_STEPS[level + 1], *body.steps))


def _with_errors(source: Source, level: int, dropped: Set[int], draw: Random) -> Body | None:
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
        weights = [_WEIGHTS[kind][touched not in source.core] for touched in change.touched if touched not in dropped]
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
