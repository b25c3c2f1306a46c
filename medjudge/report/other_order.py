"""Judges of the same answers that put two models in opposite orders."""

from collections.abc import Mapping, Sequence
from itertools import combinations

from markupsafe import Markup

from medjudge.report.boards import Board
from medjudge.report.words import Words, isolated
from medjudge.validation.usability import ModelUsability


def other_orders(board: Board, boards: Sequence[Board], words: Words) -> list[Markup]:
    """A sentence for each other judge of the same runs that orders models otherwise."""
    said = []
    for other in boards:
        if other is board or (other.benchmark, other.runs) != (board.benchmark, board.runs):
            continue
        pairs = opposite(board.models, other.models)
        if not pairs:
            continue
        first, second = pairs[0]
        values = {"judge": isolated(other.judge), "first": isolated(second), "second": isolated(first)}
        if len(pairs) == 1:
            said.append(words("Judge {judge} disagrees on the order: it ranks {first} above {second}.", **values))
        else:
            text = (
                "Judge {judge} disagrees on the order of {n} pairs of models: it ranks {first} above {second}, for one."
            )
            said.append(words(text, n=len(pairs), **values))
    return said


def opposite(one: Mapping[str, ModelUsability], other: Mapping[str, ModelUsability]) -> list[tuple[str, str]]:
    """Pairs of models of which the first is above the second by the one's rates, and below by the other's.

    A model that answered fewer than half of the questions has no rank.
    """
    pairs = []
    ranked = [model for model, rates in one.items() if model in other and not rates.overall.mostly_unanswered]
    for first, second in combinations(ranked, 2):
        rates = [models[model].overall.rate for models in (one, other) for model in (first, second)]
        known = [rate for rate in rates if rate is not None]
        if len(known) == 4 and known[0] > known[1] and known[2] < known[3]:
            pairs.append((first, second))
    return pairs
