"""Reads prompts that begin alike as one sequence, which holds what they share once.

Each prompt sees its own path only (`medjudge.models.tree_attention`). There is no padding, and nothing is kept for
later, so this serves judging that reads one token after a prompt.
"""

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from medjudge.judge.shared_prefixes import in_tree_order, prefix_forest
from medjudge.models.batching import MemoryLimit
from medjudge.models.tree_attention import TREE_ATTENTION, path_ends, tree_mask, window_of_layers

_WITH_WINDOWS, _ON_GPU = 2048, 8192
"""Tokens of a pack where layers get a mask, which is a whole square: with sliding windows on a CPU, and on a GPU."""


def takes_tree_attention(model: PreTrainedModel) -> bool:
    """Gives a model `TREE_ATTENTION` if it then reads a text of a tree as it reads the text alone, which is tried out.

    Models with states or positions of their own do not heed the tree, and neither do those with windows other than
    the sliding windows of whole layers. They keep their attention.
    """
    if not _may_heed_trees(model):
        return False
    before, length = model.config._attn_implementation, 8
    first, other, text = [list(range(start, start + length)) for start in (10, 30, 50)]
    alone = _last_logits(model, torch.tensor([[*first, *text]]), length)
    model.set_attn_implementation(TREE_ATTENTION)
    ends = path_ends([2 * length, 2 * length], [0, length]).to(model.device)
    positions = torch.tensor([[*range(2 * length), *range(length, 2 * length)]], device=model.device)
    mask = tree_mask(ends, positions[0], model.config)
    tree = torch.tensor([[*first, *other, *text]])
    found = _last_logits(model, tree, length, position_ids=positions, attention_mask=mask)
    # In 16 bits, two ways to compute the same differ by a few per cent.
    heeds = bool((found - alone).norm() < 0.1 * alone.norm())
    if not heeds:
        model.set_attn_implementation(before)
    return heeds


def _may_heed_trees(model: PreTrainedModel) -> bool:
    config = model.config.get_text_config()
    types = set(getattr(config, "layer_types", None) or ["full_attention"])
    kinds = {type(layer) for layer in DynamicCache(config=config).layers}
    known = {DynamicLayer, DynamicSlidingWindowLayer} if "sliding_attention" in types else {DynamicLayer}
    takes_positions = "position_ids" in signature(model.forward).parameters
    hidden = config.model_type == "gpt_neo" or getattr(config, "attn_logit_softcapping", None) is not None
    return (
        bool(kinds)
        and kinds <= known
        and types <= {"full_attention", "sliding_attention"}
        and takes_positions
        and not hidden
    )


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
    most = memory.most
    if model.device.type != "cpu":
        most = min(most, _ON_GPU)
    elif window_of_layers(model.config) is not None:
        most = _WITH_WINDOWS
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
                room, own = min(most, memory.tokens), len(prompts[index])
            packs[-1].append(index)
            room -= own
        return packs

    def forward(pack: Sequence[int]) -> torch.Tensor:
        own = places(pack)
        ids = [token for index, new in zip(pack, own, strict=True) for token in prompts[index][new.start :]]
        ends = path_ends([new.stop for new in own], [new.start for new in own]).to(model.device)
        last = torch.from_numpy(np.cumsum([len(new) for new in own]) - 1).to(model.device)
        with torch.inference_mode():
            positions = torch.tensor([[place for new in own for place in new]], device=model.device)
            out = model(
                torch.tensor([ids], device=model.device),
                position_ids=positions,
                attention_mask=tree_mask(ends, positions[0], model.config),
                use_cache=False,
                logits_to_keep=last,
            )
        rows: torch.Tensor = out.logits[0]
        return rows

    waiting = [index for index, _ in order]
    for pack, rows in memory.run_planned(waiting, planned, lambda pack: sum(map(len, places(pack))), forward):
        yield from zip(pack, rows, strict=True)
