"""References with parts left out, and other questions' references, so that they deserve a lower level."""

import math
from collections.abc import Sequence, Set
from random import Random

from medjudge.distill.sources import LOST, MET, Body, Source, remaining, share
from medjudge.text.outline import written

DROP_STEPS = {4: "drop-secondary", 3: "drop-core", 2: "drop-most"}
"""The name of leaving out what costs a reference so much that it deserves a level."""
_LEAST_LEFT, _MOST_SECONDARY = 0.15, 0.33
"""The share of a reference that always stays, and the most that is taken for secondary."""
_HELD = 0.3
"""A part with this share of a point's terms may be meant by it, even if other parts have the terms, too."""
_UNTOUCHED = 0.95
_MOST_CORE_POINTS_BUT_ONE = 6
_SHARES = {4: (0.08, 0.2), 3: (0.25, 0.4), 2: (0.6, 0.8)}
"""The share of the text that each level may lose, where no checklist says what counts."""


def compact(source: Source, draw: Random) -> Body | None:
    """The reference without what no point of the checklist asks for."""
    spare = [
        part
        for part in range(len(source.terms))
        if all(remaining(point, {part}) > _UNTOUCHED and share(point, part) < _HELD for point in source.points)
    ]
    all_located = len(source.points) == len(source.required_points)
    if len(source.points) < 3 or not all_located or not spare:
        return None
    dropped = _with_dependents(source, set(draw.sample(spare, draw.randint(1, len(spare)))))
    if len(dropped) == len(source.terms) or any(remaining(point, dropped) < _UNTOUCHED for point in source.points):
        return None
    return without(source, dropped, "compact")


def shortened(source: Source, level: int, draw: Random) -> Body | None:
    """The reference without what an answer of this level, 2 to 4, can lack."""
    dropped = parts_to_drop(source, level, draw)
    return without(source, dropped, DROP_STEPS[level]) if dropped else None


def parts_to_drop(source: Source, level: int, draw: Random) -> set[int] | None:
    """Parts to leave out so that the rest deserves the level; none of a data structure, which would be broken."""
    if source.text[0] in "{[":
        return None
    if not source.points:
        return _drop_share(source, level, draw)
    core = [point for point in source.points if point.core]
    points = [point for point in source.points if not point.core] if level == 4 else core
    most = {4: len(points), 3: 1, 2: len(points)}[level]
    least = {4: 1, 3: 1, 2: math.ceil(0.6 * len(points))}[level]
    if not least <= most or not points:
        return None
    dropped: set[int] = set()
    for point in draw.sample(points, draw.randint(least, most)):
        goal = draw.uniform(0.0, LOST)
        while remaining(point, dropped) > goal and len(dropped) < len(source.terms):
            rest = [part for part in range(len(source.terms)) if part not in dropped]
            dropped.add(min(rest, key=lambda part: remaining(point, dropped | {part})))
    dropped = _with_dependents(source, dropped)
    return dropped if _deserved_level(source, dropped) == level else None


def without(source: Source, dropped: Set[int], step: str) -> Body | None:
    """The reference without these parts; None where nothing is left, or all of it."""
    parts = [None if part in dropped else text for part, text in enumerate(source.outline.parts)]
    text = written(source.outline, parts)
    return Body(text, (step,)) if text and text != source.text else None


def _deserved_level(source: Source, dropped: Set[int]) -> int | None:
    """The level of the reference without these parts; None where it is between two levels or nothing is left."""
    dropped_length = sum(source.lengths[part] for part in dropped)
    if dropped_length > (1 - _LEAST_LEFT) * sum(source.lengths):
        return None
    core, secondary = (
        [remaining(point, dropped) for point in source.points if point.core is is_core] for is_core in (True, False)
    )
    lost_core, lost_secondary = (sum(value < LOST for value in values) for values in (core, secondary))
    unclear = sum(LOST <= value < MET for value in core)
    if lost_core == unclear == 0:
        meant = any(share(point, part) >= _HELD for point in source.points if point.core for part in dropped)
        much = dropped_length > _MOST_SECONDARY * sum(source.lengths)
        return 4 if lost_secondary and not meant and not much and source.all_core_located else None
    if len(core) == 1:
        return 2 if lost_core else 3
    if lost_core == 1 and unclear == 0 and len(core) <= _MOST_CORE_POINTS_BUT_ONE:
        return 3
    return 2 if lost_core >= 0.6 * len(core) else None


def _drop_share(source: Source, level: int, draw: Random) -> set[int] | None:
    """Without a checklist: parts of the text by their share of its length."""
    lengths = source.lengths
    if len(lengths) < 2:
        return None
    least, most = _SHARES[level]
    # A short line of a list counts no less than a long one.
    mean = sum(lengths) / len(lengths)
    shares = [(length + mean) / (2 * sum(lengths)) for length in lengths]
    first_stays = level == 4 or draw.random() < 0.5
    order = draw.sample(range(first_stays, len(lengths)), len(lengths) - first_stays)
    dropped: set[int] = set()
    for part in order:
        more = _with_dependents(source, dropped | {part})
        if sum(shares[dropped_part] for dropped_part in more) <= most:
            dropped = more
    return dropped if sum(shares[part] for part in dropped) >= least else None


def _with_dependents(source: Source, dropped: Set[int]) -> set[int]:
    """With the parts that depend on a dropped one before them in the same line."""
    result = set(dropped)
    for line in source.outline.lines:
        for before, part in zip(line.parts, line.parts[1:], strict=False):
            if before in result and source.wording.leans.match(source.outline.parts[part]):
                result.add(part)
    return result


_CANDIDATES = 6
_SAME_SUBJECT = 0.3
"""Two texts that share more than this part of their terms may be about the same matter."""


def swapped(source: Source, sources: Sequence[Source], draw: Random) -> Body | None:
    """Another question's answer: of the same language, where possible of the same category and about as long.

    Args:
        sources: All questions, this one included.
    """
    possible = [
        other
        for other in draw.sample(sources, min(len(sources), _CANDIDATES * 6))
        if other.question.group != source.question.group
        and other.question.language == source.question.language
        and other.language == source.language
        and other.text != source.text
        and not _may_answer(source, other)
    ]
    same_category = [other for other in possible if other.question.category == source.question.category]
    candidates = (same_category or possible)[:_CANDIDATES]
    if not candidates:
        return None
    closest = min(candidates, key=lambda other: abs(math.log(len(other.text) / len(source.text))) + draw.random())
    count = len(closest.terms)
    # Unchanged, the text is the other question's best answer, and no two answers are to be the same.
    shorter = without(closest, {draw.randrange(count)}, "swap") if count > 2 and not source.may_be_dressed else None
    return Body(shorter.text if shorter else closest.text, ("swap",), (closest.question.id,))


def _may_answer(source: Source, other: Source) -> bool:
    """True if the other's answer may be about the same matter."""
    return any(
        len(terms & other.reference_terms) > _SAME_SUBJECT * len(terms)
        for terms in (source.prompt_terms, source.reference_terms)
        if terms
    )
