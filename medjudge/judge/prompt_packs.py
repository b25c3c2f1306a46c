"""Reads prompts that begin alike as one sequence: what they share stands in it once, and no mask of it is made.

Each prompt sees its own path only (`medjudge.models.tree_attention`). There is no padding, and nothing is kept for
later, so this serves judging that reads one token after a prompt.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel

from medjudge.judge.shared_prefixes import can_share, in_tree_order, prefix_forest
from medjudge.models.batching import MemoryLimit
from medjudge.models.tree_attention import TREE_ATTENTION, path_ends, tree_mask


def takes_tree_attention(model: PreTrainedModel) -> bool:
    """Gives a model `TREE_ATTENTION`, and tries out whether it then reads a text of a tree as it reads the text alone.

    Models with windows, states or positions of their own do not heed the tree.
    """
    if not can_share(model):
        return False
    length = 8
    first, other, text = [list(range(start, start + length)) for start in (10, 30, 50)]
    alone = _last_logits(model, torch.tensor([[*first, *text]]), length)
    model.set_attn_implementation(TREE_ATTENTION)
    ends = path_ends([2 * length, 2 * length], [0, length]).to(model.device)
    positions = torch.tensor([[*range(2 * length), *range(length, 2 * length)]], device=model.device)
    tree = torch.tensor([[*first, *other, *text]])
    found = _last_logits(model, tree, length, position_ids=positions, attention_mask=tree_mask(ends))
    # In 16 bits, two ways to compute the same differ by a few per cent.
    return bool((found - alone).norm() < 0.1 * alone.norm())


def _last_logits(model: Any, tokens: torch.Tensor, last: int, **options: Any) -> torch.Tensor:
    """The logits at the last tokens of one sequence, (last, vocabulary)."""
    model.eval()
    with torch.inference_mode():
        logits: torch.Tensor = model(tokens.to(model.device), use_cache=False, **options).logits
    return logits[0, -last:].float()


def read_in_packs(
    model: PreTrainedModel, prompts: Sequence[list[int]], memory: MemoryLimit
) -> Iterator[tuple[int, torch.Tensor]]:
    """Reads each prompt to its end.

    Args:
        model: A causal language model that `takes_tree_attention`, in evaluation mode.
        prompts: Token ids, not empty.
        memory: The limit on tokens per pack, which adapts to the memory.

    Yields:
        The index of each prompt and the logits of the token after it, shape (vocabulary,), in any order.

    Raises:
        InputError: A single prompt does not fit in memory.
    """
    order = list(in_tree_order(prefix_forest(prompts)))
    shared = dict(order)  # of each prompt, with the one before it

    def places(pack: Sequence[int]) -> list[range]:
        """The positions of the tokens that each prompt of a pack adds; the first adds all."""
        return [range(shared[index] if number else 0, len(prompts[index])) for number, index in enumerate(pack)]

    def planned(waiting: Sequence[int]) -> list[list[int]]:
        packs: list[list[int]] = []
        room = 0
        for index in waiting:
            own = len(prompts[index]) - shared[index]
            if not packs or own > room:
                packs.append([])
                room, own = memory.tokens, len(prompts[index])
            packs[-1].append(index)
            room -= own
        return packs

    def forward(pack: Sequence[int]) -> torch.Tensor:
        own = places(pack)
        ids = [token for index, new in zip(pack, own, strict=True) for token in prompts[index][new.start :]]
        ends = path_ends([new.stop for new in own], [new.start for new in own]).to(model.device)
        last = torch.from_numpy(np.cumsum([len(new) for new in own]) - 1).to(model.device)
        with torch.inference_mode():
            out = model(
                torch.tensor([ids], device=model.device),
                position_ids=torch.tensor([[place for new in own for place in new]], device=model.device),
                attention_mask=tree_mask(ends),
                use_cache=False,
                logits_to_keep=last,
            )
        rows: torch.Tensor = out.logits[0]
        return rows

    waiting = [index for index, _ in order]
    for pack, rows in memory.run_planned(waiting, planned, lambda pack: sum(map(len, places(pack))), forward):
        yield from zip(pack, rows, strict=True)
