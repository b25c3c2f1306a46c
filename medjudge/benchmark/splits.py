"""Splits that keep a conversation on one side."""

from collections.abc import Sequence

import numpy as np

from medjudge.records import Question


def held_out_groups(questions: Sequence[Question], share: float, seed: int) -> set[str]:
    """Draw whole conversations to hold out, the same share of each category and language.

    Args:
        questions: The questions to split; the order does not matter.
        share: The part of the conversations to hold out, 0 to 1. A category and language with at least two
            conversations gives at least one and keeps at least one, unless the share is 0.
        seed: Fixes the draw.

    Returns:
        The names of the groups held out.
    """
    strata: dict[tuple[str, str], set[str]] = {}
    for question in questions:
        strata.setdefault((question.category, question.language), set()).add(question.group)
    generator = np.random.default_rng(seed)
    held: set[str] = set()
    for stratum in sorted(strata):
        groups = sorted(strata[stratum])
        count = round(share * len(groups))
        if share > 0 and len(groups) > 1:
            count = min(max(count, 1), len(groups) - 1)
        held.update(groups[index] for index in generator.permutation(len(groups))[:count])
    return held
