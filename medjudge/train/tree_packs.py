"""Packs in which training lines share the tokens that they begin with: rubric and question once, then the answers."""

from collections.abc import Sequence
from typing import Any

from datasets import Dataset

from medjudge.judge.shared_prefixes import SharedText, in_tree_order, prefix_forest


def tree_packs(rows: Sequence[dict[str, Any]], max_length: int) -> list[list[SharedText]]:
    """Puts lines that begin alike together.

    Args:
        rows: Rows of `generative_dataset`.
        max_length: The most tokens of a pack, shared ones counted once; a longer line has one for itself.
    """
    packs: list[list[SharedText]] = []
    room = 0
    for line, shared in in_tree_order(prefix_forest([row["input_ids"][: _shareable(row)] for row in rows])):
        length = len(rows[line]["input_ids"])
        if not packs or length - shared > room:
            packs.append([])
            room, shared = max_length, 0
        packs[-1].append(SharedText(line, shared))
        room -= length - shared
    return packs


def _shareable(row: dict[str, Any]) -> int:
    """How many tokens of a line others may share: those that predict nothing that has a loss."""
    spoken = next((place for place, label in enumerate(row["labels"]) if label != -100), row["score_at"])
    return int(min(spoken, row["score_at"])) - 1


def tree_packed(dataset: Dataset, max_length: int) -> Dataset:
    """Packs of rows: column `lines` holds the rows of each, and of each row how many tokens are `shared`."""
    rows = list(dataset)
    packs = tree_packs(rows, max_length)
    return Dataset.from_list([{"lines": [{**rows[line], "shared": shared} for line, shared in pack]} for pack in packs])


def tree_lengths(rows: Sequence[dict[str, Any]], max_length: int) -> list[int]:
    """The tokens of each pack that `tree_packed` would make of these rows."""
    packs = tree_packs(rows, max_length)
    return [sum(len(rows[line]["input_ids"]) - shared for line, shared in pack) for pack in packs]
