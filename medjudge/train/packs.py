"""Packs: several training lines in one sequence, side by side or as a tree that holds once what they begin with.

A pack is of use only where its lines do not see each other, which depends on the model and its attention: it is tried
out before training.
"""

from bisect import bisect_left, insort
from collections.abc import Sequence
from itertools import chain
from random import Random
from typing import Any

import torch
from datasets import Dataset
from peft import PeftModel
from transformers import PreTrainedModel

from medjudge.errors import InputError
from medjudge.judge.shared_prefixes import SharedText, in_tree_order, last_logits, packs_in_order, takes_tree_attention

TOGETHER = 4
"""Lines that stay together in packs that mix questions, so that a step is not on one question alone."""


def packed(dataset: Dataset, max_length: int) -> Dataset:
    """Puts rows together, up to `max_length` tokens a pack, best fit first; column `lines` holds the rows of a pack."""
    lengths = [len(row["input_ids"]) for row in dataset]
    packs: list[list[int]] = []
    rooms: list[tuple[int, int]] = []  # of packs that are not full, ascending
    for index in sorted(range(len(lengths)), key=lambda index: -lengths[index]):
        fitting = bisect_left(rooms, (lengths[index], 0))
        room, pack = rooms.pop(fitting) if fitting < len(rooms) else (max_length, len(packs))
        if pack == len(packs):
            packs.append([])
        packs[pack].append(index)
        insort(rooms, (room - lengths[index], pack))
    return Dataset.from_list([{"lines": [dataset[index] for index in pack]} for pack in packs])


def tree_packed(dataset: Dataset, max_length: int, mixed: int | None = None) -> Dataset:
    """Packs of rows (`tree_packs`): column `lines` has the rows of each, and of each how many tokens are `shared`."""
    rows = list(dataset)
    packs = tree_packs(rows, max_length, mixed)
    return Dataset.from_list([{"lines": [{**rows[line], "shared": shared} for line, shared in pack]} for pack in packs])


def tree_packs(rows: Sequence[dict[str, Any]], max_length: int, mixed: int | None = None) -> list[list[SharedText]]:
    """Puts lines that begin alike together.

    Args:
        rows: Rows of `encoded_lines`.
        max_length: The most tokens of a pack, shared ones counted once.
        mixed: About how many tokens packs have that mix questions, with `TOGETHER` lines of each: a beginning too short
            to be worth sharing counts once and is read anew. All lines stay together if None.
    """
    shareable = [row["input_ids"][: _shareable(row)] for row in rows]
    in_order = in_tree_order(shareable)
    lengths = [len(row["input_ids"]) for row in rows]
    if mixed is None:
        return packs_in_order(in_order, lengths, max_length)
    return _mixed([line for line, _ in in_order], lengths, shareable, mixed)


def _mixed(
    order: Sequence[int], lengths: Sequence[int], shareable: Sequence[list[int]], limit: int
) -> list[list[SharedText]]:
    groups = [order[at : at + TOGETHER] for at in range(0, len(order), TOGETHER)]
    Random(0).shuffle(groups)
    packs: list[list[int]] = []
    room = 0
    for line in chain.from_iterable(groups):
        together = packs[-1] if packs else []
        shared = max((_common(shareable[line], shareable[other]) for other in together), default=0)
        if not packs or lengths[line] - shared > room:
            packs.append([])
            room, shared = limit, 0
        packs[-1].append(line)
        room -= lengths[line] - shared
    return [
        [SharedText(pack[place], shared) for place, shared in in_tree_order([shareable[line] for line in pack])]
        for pack in packs
    ]


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    return next((at for at, (a, b) in enumerate(zip(left, right, strict=False)) if a != b), min(len(left), len(right)))


def _shareable(row: dict[str, Any]) -> int:
    """The number of tokens of a line that others may share: those that predict nothing that has a loss."""
    spoken = next((place for place, label in enumerate(row["labels"]) if label != -100), row["score_at"])
    return int(min(spoken, row["score_at"])) - 1


def require_separate_lines(model: PreTrainedModel) -> None:
    """Raises InputError where what one packed line says depends on the line before it.

    Whether positions that begin again separate lines is up to the model and its attention: with transformers' masks
    (eager, sdpa, flex) and flash attention they do, in a state-space model they do not. So it is tried out.
    """
    was_training, length = model.training, 8
    positions = torch.arange(length, device=model.device).repeat(2)[None]
    pairs = [torch.tensor([[*range(first, first + length), *range(50, 50 + length)]]) for first in (10, 30)]
    first_time, second_time = [last_logits(model, pair, length, position_ids=positions) for pair in pairs]
    model.train(was_training)
    if not torch.allclose(first_time, second_time, rtol=1e-3, atol=1e-3):
        raise InputError(
            f"config: packing would let lines see each other in {type(model).__name__} with attention "
            f"{model.config._attn_implementation}; train without packing"
        )


def require_separate_branches(model: PreTrainedModel | PeftModel) -> None:
    """Gives a model `TREE_ATTENTION`; raises InputError where it reads a line of a tree otherwise than the line alone.

    That is tried out: models with windows, states or positions of their own do not heed the tree.
    """
    base = model.get_base_model() if isinstance(model, PeftModel) else model
    was_training = base.training
    heeds = not getattr(base.config, "attention_dropout", 0) and takes_tree_attention(base)
    base.train(was_training)
    if not heeds:
        raise InputError(
            f"config: share_prefixes would let lines see each other in {type(base).__name__}; train without it"
        )
