"""A study in words: the weaknesses of the judge, and the limits of these scores."""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from medjudge.scale import USABLE_FROM
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.statistics.estimates import wilson
from medjudge.validation.answers import Pairs

_FEWEST = 5
"""Cases of a kind, below which an error rate is not worth a sentence."""
_FEW = 30
_PLACES = {
    "category": "in",
    "subcategory": "in",
    "model": "by",
    "difficulty": "of difficulty",
    "language": "in language",
}


class _Weakness(NamedTuple):
    harm: int
    at_least: float
    kind: str
    rows: np.ndarray
    text: str


def weaknesses(pairs: Pairs, most: int = 3) -> list[str]:
    """The worst errors in words, such as "calls 18 of 60 unusable answers in MTG usable".

    Unsafe answers called usable come first, then unusable ones, then usable ones called unusable. Within these, the
    order is by the low end of the error rate's Wilson interval, so that two of three answers do not outrank 40 of 80.
    A part that says the same as a chosen one (three quarters of its errors are that one's) is passed over.
    """
    candidates = sorted(_candidates(pairs), key=lambda weakness: (-weakness.harm, -weakness.at_least))
    chosen: list[_Weakness] = []
    for weakness in candidates:
        overlaps = [weakness.rows[other.rows].sum() for other in chosen if other.kind == weakness.kind]
        if len(chosen) < most and max(overlaps, default=0) <= 0.75 * weakness.rows.sum():
            chosen.append(weakness)
    return [weakness.text for weakness in chosen]


def cannot_conclude(
    pairs: Pairs, ceiling: bool, teacher: bool, physicians: bool, scheme: Scheme = LLMEVAL_MED
) -> list[str]:
    """The limits of these scores, one sentence each.

    Args:
        ceiling: Whether two physicians scored the same answers.
        teacher: Whether a teacher was compared.
        physicians: Whether physicians scored at all, and not constructed levels or another judge.
    """
    usable = pairs.physician >= USABLE_FROM
    n, conversations = len(usable), pairs.conversations
    sentences = []
    if not physicians:
        sentences.append("Agreement with physicians: no physician scored these answers.")
    if usable.all() or not usable.any():
        called, other = ("usable", "unusable") if usable.all() else ("unusable", "usable")
        sentences.append(
            f"Whether the judge finds {other} answers: all {n} are {called} here, so that kappa means nothing and a "
            f"judge that calls everything {called} would agree, too."
        )
    if conversations < _FEW:
        sentences.append(
            f"Anything precise: {n} answers in {conversations} conversation{'s' if conversations > 1 else ''}; "
            f"intervals from fewer than {_FEW} are rough."
        )
    missing = [category for category in scheme.category_ids if category not in set(pairs.category)]
    if missing:
        they = "them" if len(missing) > 1 else "it"
        sentences.append(f"Anything about {', '.join(missing)}: no answer in {they} was scored.")
    if not ceiling and physicians:
        sentences.append("Whether the judge is as good as a physician: that takes two or more on the same answers.")
    if not teacher:
        sentences.append("Whether the judge is as good as its teacher: no teacher was compared (--teacher).")
    if len(set(pairs.model)) < 2:
        sentences.append("Whether the judge ranks models as physicians do: all answers are of one model.")
    return sentences


def _candidates(pairs: Pairs) -> Iterator[_Weakness]:
    usable, called_usable = pairs.physician >= USABLE_FROM, pairs.judge >= USABLE_FROM
    for rows, where in _places(pairs):
        for harm, kind, wrong, among in (
            (2, "unsafe answers{} usable", pairs.unsafe & called_usable, pairs.unsafe),
            (1, "unusable answers{} usable", ~usable & called_usable, ~usable),
            (0, "usable answers{} unusable", usable & ~called_usable, usable),
        ):
            errors, cases = int((wrong & rows).sum()), int((among & rows).sum())
            if cases >= _FEWEST and errors > 0:
                text = f"calls {errors} of {cases} {kind.format(where)}"
                yield _Weakness(harm, wilson(errors / cases, cases).low, kind, wrong & rows, text)


def _places(pairs: Pairs) -> Iterator[tuple[np.ndarray, str]]:
    yield np.ones(len(pairs.judge), dtype=bool), ""
    for part, preposition in _PLACES.items():
        column: np.ndarray = getattr(pairs, part)
        names = sorted({name for name in column if name})
        if len(names) > 1:
            for name in names:
                yield column == name, f" {preposition} {name}"
