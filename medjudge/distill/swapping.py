"""Another question's reference as the answer: right, well written, and not to the point."""

import math
from collections.abc import Sequence
from random import Random

from medjudge.distill.dropping import without
from medjudge.distill.sources import Body, Source

_CANDIDATES = 6
_SAME_SUBJECT = 0.3
"""Two texts that share more than this part of their terms may be about the same matter."""


def swapped(source: Source, sources: Sequence[Source], draw: Random) -> Body | None:
    """Another question's answer: of the same language, where possible of the same category and about as long.

    Args:
        source: The question to answer.
        sources: All questions, this one included.
        draw: Chooses among them.
    """
    possible = (
        other
        for other in draw.sample(sources, min(len(sources), _CANDIDATES * 6))
        if other.question.group != source.question.group
        and other.question.language == source.question.language
        and other.language == source.language
        and other.text != source.text
    )
    same_category: list[Source] = []
    other_category: list[Source] = []
    for other in possible:
        candidates = same_category if other.question.category == source.question.category else other_category
        if len(candidates) < _CANDIDATES and not _may_answer(source, other):
            candidates.append(other)
        if len(same_category) == _CANDIDATES:
            break
    if not same_category and not other_category:
        return None
    closest = min(
        same_category or other_category,
        key=lambda other: abs(math.log(len(other.text) / len(source.text))) + draw.random(),
    )
    count = len(closest.terms)
    # Unchanged, the text is the other question's best answer, and no two answers are to be the same.
    shorter = without(closest, {draw.randrange(count)}, "swap") if count > 2 and not source.may_be_dressed else None
    return Body(shorter.text if shorter else closest.text, ("swap",), (closest.question.id,))


def _may_answer(source: Source, other: Source) -> bool:
    """Whether the other's answer may be about the same matter."""
    return any(
        len(terms & other.reference_terms) > _SAME_SUBJECT * len(terms)
        for terms in (source.prompt_terms, source.reference_terms)
        if terms
    )
