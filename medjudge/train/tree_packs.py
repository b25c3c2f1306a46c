"""Packs in which training lines share the tokens that they begin with: rubric and question once, then the answers."""

from collections.abc import Sequence
from itertools import chain
from random import Random
from typing import Any

from datasets import Dataset

from medjudge.judge.shared_prefixes import SharedText, in_tree_order, prefix_forest

TOGETHER = 4
"""Lines that stay together in packs that mix questions, so that a step is not on one question alone."""


def tree_packs(rows: Sequence[dict[str, Any]], max_length: int, mixed: int | None = None) -> list[list[SharedText]]:
    """Puts lines that begin alike together.

    Args:
        rows: Rows of `generative_dataset`.
        max_length: The most tokens of a pack, shared ones counted once.
        mixed: About how many tokens packs have that mix questions, with `TOGETHER` lines of each: a beginning too short
            to be worth sharing counts once and is read anew. All lines stay together if None.
    """
    shareable = [row["input_ids"][: _shareable(row)] for row in rows]
    in_order = list(in_tree_order(prefix_forest(shareable)))
    if mixed is not None:
        return _mixed([line for line, _ in in_order], rows, shareable, mixed)
    packs: list[list[SharedText]] = []
    room = 0
    for line, shared in in_order:
        length = len(rows[line]["input_ids"])
        if not packs or length - shared > room:
            packs.append([])
            room, shared = max_length, 0
        packs[-1].append(SharedText(line, shared))
        room -= length - shared
    return packs


def _mixed(
    order: Sequence[int], rows: Sequence[dict[str, Any]], shareable: Sequence[list[int]], limit: int
) -> list[list[SharedText]]:
    groups = [order[at : at + TOGETHER] for at in range(0, len(order), TOGETHER)]
    Random(0).shuffle(groups)
    packs: list[list[int]] = []
    room = 0
    for line in chain.from_iterable(groups):
        length = len(rows[line]["input_ids"])
        shared = max((_common(shareable[line], shareable[other]) for other in packs[-1]), default=0) if packs else 0
        if not packs or length - shared > room:
            packs.append([])
            room, shared = limit, 0
        packs[-1].append(line)
        room -= length - shared
    return [_in_order(pack, shareable) for pack in packs]


def _in_order(pack: Sequence[int], shareable: Sequence[list[int]]) -> list[SharedText]:
    forest = prefix_forest([shareable[line] for line in pack])
    return [SharedText(pack[place], shared) for place, shared in in_tree_order(forest)]


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _shareable(row: dict[str, Any]) -> int:
    """How many tokens of a line others may share: those that predict nothing that has a loss."""
    spoken = next((place for place, label in enumerate(row["labels"]) if label != -100), row["score_at"])
    return int(min(spoken, row["score_at"])) - 1


def tree_packed(dataset: Dataset, max_length: int, mixed: int | None = None) -> Dataset:
    """Packs of rows: column `lines` holds the rows of each, and of each row how many tokens are `shared`."""
    rows = list(dataset)
    packs = tree_packs(rows, max_length, mixed)
    return Dataset.from_list([{"lines": [{**rows[line], "shared": shared} for line, shared in pack]} for pack in packs])


def tree_lengths(rows: Sequence[dict[str, Any]], max_length: int, mixed: int | None = None) -> list[int]:
    """The tokens of each pack that `tree_packed` would make of these rows."""
    packs = tree_packs(rows, max_length, mixed)
    return [sum(len(rows[line]["input_ids"]) - shared for line, shared in pack) for pack in packs]
