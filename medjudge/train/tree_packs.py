"""Packs in which training lines share the tokens that they begin with: rubric and question once, then the answers."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from datasets import Dataset

from medjudge.judge.shared_prefixes import Node, prefix_forest


class SharedLine(NamedTuple):
    """A line of a pack, by its index, and how many of its first tokens are those of the line before it."""

    line: int
    shared: int


def tree_packs(rows: Sequence[dict[str, Any]], max_length: int) -> list[list[SharedLine]]:
    """Puts lines that begin alike together.

    Args:
        rows: Rows of `generative_dataset`.
        max_length: The most tokens of a pack, shared ones counted once.
    """
    packs: list[list[SharedLine]] = []
    room = 0
    for line, shared in _in_tree_order(prefix_forest([row["input_ids"][: _shareable(row)] for row in rows]), 0, 0):
        length = len(rows[line]["input_ids"])
        if not packs or length - shared > room:
            packs.append([])
            room, shared = max_length, 0
        packs[-1].append(SharedLine(line, shared))
        room -= length - shared
    return packs


def _shareable(row: dict[str, Any]) -> int:
    """How many tokens of a line others may share: those that predict nothing that has a loss."""
    spoken = next((place for place, label in enumerate(row["labels"]) if label != -100), row["score_at"])
    return int(min(spoken, row["score_at"])) - 1


def _in_tree_order(nodes: Sequence[Node], depth: int, shared: int) -> Iterator[SharedLine]:
    """The lines below nodes. The first shares `shared` tokens with the line before it, the others `depth` or more."""
    for node in nodes:
        below = depth + len(node.ids)
        if node.after:
            yield from _in_tree_order(node.after, below, shared)
        for line in node.ends:  # equal lines, but for their replies
            yield SharedLine(line, shared)
            shared = below
        shared = depth


def tree_packed(dataset: Dataset, max_length: int) -> Dataset:
    """Packs of rows: column `lines` holds the rows of each, and of each row how many tokens are `shared`."""
    rows = list(dataset)
    packs = tree_packs(rows, max_length)
    return Dataset.from_list([{"lines": [{**rows[line], "shared": shared} for line, shared in pack]} for pack in packs])


def tree_lengths(rows: Sequence[dict[str, Any]], max_length: int) -> list[int]:
    """The tokens of each pack that `tree_packed` would make of these rows."""
    packs = tree_packs(rows, max_length)
    return [sum(len(rows[line]["input_ids"]) - shared for line, shared in pack) for pack in packs]
