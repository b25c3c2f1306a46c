"""Reads many prompts in few forward passes: what they begin with is computed once.

The judge's prompt is ordered from the most shared part to the least: rubric, question, reference, checklist, answer. A
rubric is therefore read once per pack of prompts, and a question once for all its answers. This is the idea of
RadixAttention (SGLang, arXiv 2312.07104) for prompts that are all known in advance. Prompts that begin alike lie in one
sequence as a tree, in which each sees its own path only (`medjudge.models.tree_attention`).
"""

from collections.abc import Iterator, Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from medjudge.models.batching import MemoryLimit, pad_left
from medjudge.models.tree_attention import TREE_ATTENTION, path_ends, tree_mask, window_of_layers

_WORTH_SHARING = 128
"""The fewest tokens that a shared prefix must save to be worth a branch of its own."""
_WITH_WINDOWS, _ON_GPU = 2048, 8192
"""Tokens of a pack where layers get a mask, which is a whole square: with sliding windows on a CPU, and on a GPU."""


class Node(NamedTuple):
    """A run of tokens after its parent's. `ends` are the prompts that end with it, `after` the nodes that follow."""

    ids: list[int]
    ends: list[int]
    after: list["Node"]


def prefix_forest(prompts: Sequence[list[int]]) -> list[Node]:
    """The prefix trees of prompts.

    Args:
        prompts: Token ids, not empty.

    Returns:
        Trees in which each leaf ends one prompt, or several equal ones (`ends` are their indices in `prompts`). The
        tokens on the path from a root to a leaf are those of its prompts.
    """
    order = sorted(range(len(prompts)), key=lambda index: prompts[index])

    def nodes(first: int, last: int, depth: int) -> list[Node]:
        """The nodes of the sorted prompts from `first` to `last`, which share at least `depth` tokens."""
        low, high = prompts[order[first]], prompts[order[last]]
        if low == high:
            return [Node(low[depth:], order[first : last + 1], [])]
        # In sorted order all share what the first and the last share. One token is left for the shortest to end with.
        shared = depth
        while shared < len(low) - 1 and low[shared] == high[shared]:
            shared += 1
        worth = (last - first) * (shared - depth) >= _WORTH_SHARING
        after: list[Node] = []
        start = first
        for index in range(first, last + 1):
            prompt, following = prompts[order[index]], prompts[order[min(index + 1, last)]]
            # A prompt that ends here is separated from those that continue it.
            ends = len(prompt) == shared + 1 < len(following)
            if index == last or ends or following[shared] != prompt[shared]:
                after += nodes(start, index, shared if worth else depth)
                start = index + 1
        return [Node(low[depth:shared], [], after)] if worth else after

    return nodes(0, len(order) - 1, 0) if order else []


class SharedText(NamedTuple):
    """A text, by its number, and how many of its first tokens are those of the text before it."""

    text: int
    shared: int


def in_tree_order(forest: Sequence[Node], depth: int = 0, shared: int = 0) -> Iterator[SharedText]:
    """The texts of a forest in the order of its branches.

    Args:
        depth: How many tokens all of these texts share.
        shared: How many tokens the first of them shares with the text before it; the others share `depth` or more.
    """
    for node in forest:
        below = depth + len(node.ids)
        if node.after:
            yield from in_tree_order(node.after, below, shared)
        for index in node.ends:  # equal texts
            yield SharedText(index, shared)
            shared = below
        shared = depth


def unique_tokens(forest: Sequence[Node]) -> int:
    """The number of tokens that are computed for a forest, without padding."""
    return sum(len(node.ids) + unique_tokens(node.after) for node in forest)


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


def read_ends(
    model: PreTrainedModel, prompts: Sequence[list[int]], pad_id: int, memory: MemoryLimit
) -> Iterator[tuple[int, torch.Tensor]]:
    """Reads each prompt to its end: as trees where the model `takes_tree_attention`, else in padded batches.

    Args:
        model: A causal language model in evaluation mode.
        prompts: Token ids, not empty.
        pad_id: Any token; padding is masked.
        memory: The limit on tokens per forward pass, which adapts to the memory.

    Yields:
        The index of each prompt and the logits of the token after it, shape (vocabulary,), in any order.

    Raises:
        InputError: A single prompt does not fit in memory.
    """
    if model.config._attn_implementation == TREE_ATTENTION:
        yield from _in_packs(model, prompts, memory)
        return

    def forward(batch: Sequence[int]) -> torch.Tensor:
        ids, mask = pad_left([prompts[index] for index in batch], pad_id, model.device)
        positions = (mask.cumsum(dim=1) - 1).clamp_min(0)
        with torch.inference_mode():
            out = model(ids, attention_mask=mask, position_ids=positions, logits_to_keep=1, use_cache=False)
        rows: torch.Tensor = out.logits[:, -1]
        return rows

    for batch, rows in memory.run(range(len(prompts)), list(map(len, prompts)), forward):
        yield from zip(batch, rows, strict=True)


def _in_packs(
    model: PreTrainedModel, prompts: Sequence[list[int]], memory: MemoryLimit
) -> Iterator[tuple[int, torch.Tensor]]:
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
