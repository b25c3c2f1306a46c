"""Reads many prompts in few forward passes: what they begin with is computed once.

The judge's prompt is ordered from the most shared part to the least: rubric, question, reference, checklist, answer. A
rubric is therefore read once per pack of prompts, and a question once for all its answers. This is the idea of
RadixAttention (SGLang, arXiv 2312.07104) for prompts that are all known in advance. Prompts that begin alike lie in one
sequence as a tree, in which each sees its own path only (`medjudge.models.tree_attention`).
"""

from collections.abc import Iterable, Iterator, Sequence
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer

from medjudge.models.batching import MemoryLimit, padded
from medjudge.models.tree_attention import TREE_ATTENTION, path_ends, tree_mask, window_of_layers

_WORTH_SHARING = 128
"""The fewest tokens that a shared prefix must save to be worth a branch of its own."""
_WITH_WINDOWS, _ON_GPU = 2048, 8192
"""Tokens of a pack where layers get a mask, which is a whole square: with sliding windows on a CPU, and on a GPU."""


class SharedText(NamedTuple):
    """A text, by its number, and how many of its first tokens are those of the text before it."""

    text: int
    shared: int


def in_tree_order(texts: Sequence[list[int]]) -> list[SharedText]:
    """The texts in the order of the branches of their prefix tree, which has branches that are worth their cost.

    Args:
        texts: Token ids, not empty. The last token of a text is shared by equal ones only.
    """
    order = sorted(range(len(texts)), key=lambda index: texts[index])

    def ordered(first: int, last: int, depth: int, shared: int) -> Iterator[SharedText]:
        """The sorted texts from `first` to `last`: in the tree they share `depth` tokens, the first of them `shared`
        with the text before it."""
        low, high = texts[order[first]], texts[order[last]]
        if low == high:
            for index in order[first : last + 1]:
                yield SharedText(index, shared)
                shared = len(low)
            return
        # In sorted order all share what the first and the last share. One token is left for the shortest to end with.
        common = depth
        while common < len(low) - 1 and low[common] == high[common]:
            common += 1
        if (last - first) * (common - depth) >= _WORTH_SHARING:
            depth = common
        start = first
        for place in range(first, last + 1):
            text, following = texts[order[place]], texts[order[min(place + 1, last)]]
            # A text that ends here is separated from those that continue it.
            ends = len(text) == common + 1 < len(following)
            if place == last or ends or following[common] != text[common]:
                yield from ordered(start, place, depth, shared)
                start, shared = place + 1, depth

    return list(ordered(0, len(order) - 1, 0, 0)) if order else []


def packs_in_order(order: Iterable[SharedText], lengths: Sequence[int], most: int) -> list[list[SharedText]]:
    """Puts texts in the order of their tree into packs of at most so many tokens, those that they share counted once.

    The first text of a pack shares nothing.
    """
    packs: list[list[SharedText]] = []
    room = 0
    for text, shared in order:
        if not packs or lengths[text] - shared > room:
            packs.append([])
            room, shared = most, 0
        packs[-1].append(SharedText(text, shared))
        room -= lengths[text] - shared
    return packs


def takes_tree_attention(model: PreTrainedModel) -> bool:
    """Gives a model `TREE_ATTENTION` if it then reads a text of a tree as it reads the text alone, which is tried out.

    Models with states or positions of their own do not heed the tree, and neither do those with windows other than
    the sliding windows of whole layers. They keep their attention.
    """
    config = model.config.get_text_config()
    types = set(getattr(config, "layer_types", None) or ["full_attention"])
    kinds = {type(layer) for layer in DynamicCache(config=config).layers}
    known = {DynamicLayer, DynamicSlidingWindowLayer} if "sliding_attention" in types else {DynamicLayer}
    hidden = config.model_type == "gpt_neo" or getattr(config, "attn_logit_softcapping", None) is not None
    if hidden or not kinds or not kinds <= known or not types <= {"full_attention", "sliding_attention"}:
        return False
    if "position_ids" not in signature(model.forward).parameters:
        return False
    before, length = model.config._attn_implementation, 8
    first, other, text = [list(range(start, start + length)) for start in (10, 30, 50)]
    alone = last_logits(model, torch.tensor([[*first, *text]]), length)
    model.set_attn_implementation(TREE_ATTENTION)
    ends = path_ends([2 * length, 2 * length], [0, length]).to(model.device)
    positions = torch.tensor([[*range(2 * length), *range(length, 2 * length)]], device=model.device)
    mask = tree_mask(ends, positions[0], model.config)
    tree = torch.tensor([[*first, *other, *text]])
    found = last_logits(model, tree, length, position_ids=positions, attention_mask=mask)
    # In 16 bits, two ways to compute the same differ by a few per cent.
    heeds = bool((found - alone).norm() < 0.1 * alone.norm())
    if not heeds:
        model.set_attn_implementation(before)
    return heeds


def last_logits(model: Any, tokens: torch.Tensor, last: int, **options: Any) -> torch.Tensor:
    """The logits at the last tokens of one sequence, (last, vocabulary), of the model in evaluation mode."""
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
        ids, mask = padded([prompts[index] for index in batch], pad_id, "left", model.device)
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
    order, lengths = in_tree_order(prompts), [len(prompt) for prompt in prompts]
    shared = dict(order)  # of each prompt, with the one before it

    def places(pack: Sequence[int]) -> list[range]:
        """The positions of the tokens that each prompt of a pack adds; the first adds all."""
        return [range(shared[index] if number else 0, len(prompts[index])) for number, index in enumerate(pack)]

    def planned(waiting: Sequence[int]) -> list[list[int]]:
        in_order = (SharedText(index, shared[index]) for index in waiting)
        packs = packs_in_order(in_order, lengths, min(most, memory.tokens))
        return [[index for index, _ in pack] for pack in packs]

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
