"""Attention over texts that begin alike and lie in one sequence: each token sees its own path, and nothing else.

The texts form a tree. Their tokens are in the order of its branches, so that what follows a token on its paths is one
run of the sequence. `ends` holds where that run ends: a token sees another that comes before it and whose run
has not ended yet.

On a CPU the tokens of a branch attend to themselves, all that follow it attend to the branch, and both are merged by
their log-sum-exps (FlashAttention, arXiv 2205.14135): no mask of the whole sequence exists. A GPU gets such a mask, of
truth values, and so do layers with a sliding window (Gemma's) where a text is longer than the window.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from transformers import AttentionInterface, AttentionMaskInterface, PretrainedConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

TREE_ATTENTION = "medjudge_tree"
"""The name in transformers. Without a mask from `tree_mask` it is `sdpa`."""


def path_ends(lengths: Sequence[int], shared: Sequence[int]) -> torch.Tensor:
    """The end of the run of each token, for texts laid out one after the other without what they share.

    Args:
        lengths: The tokens of each text, with those that it shares.
        shared: How many of them it shares with the text before it; 0 for the first.

    Returns:
        Shape (tokens,): the place after the last token that sees this one.
    """
    own = np.subtract(lengths, shared)
    starts = np.cumsum([0, *own])
    ends = np.empty(starts[-1], dtype=np.int64)
    path = np.empty(0, dtype=np.int64)  # the places of the tokens of the text before
    for start, new, common in zip(starts, own, shared, strict=False):
        ends[path[common:]] = start
        path = np.concatenate([path[:common], np.arange(start, start + new)])
    ends[path] = starts[-1]
    return torch.from_numpy(ends)


def tree_mask(
    ends: torch.Tensor, positions: torch.Tensor, config: PretrainedConfig | None = None
) -> torch.Tensor | dict[str, torch.Tensor]:
    """The `attention_mask` of a model with `TREE_ATTENTION`.

    Args:
        ends: From `path_ends`, shape (tokens,).
        positions: The place of each token in its own text, shape (tokens,).
        config: Of the model.

    Returns:
        On a CPU the ends themselves, else what each token sees. Both have four dimensions, so that transformers hands
        them to the attention as they are. For a model with sliding windows, one for each type of layer.
    """
    window = window_of_layers(config)
    whole = ends[None, None, None] if ends.device.type == "cpu" else seen(ends)[None, None]
    if window is None:
        return whole
    if int(positions.max()) < window:
        return {"full_attention": whole, "sliding_attention": whole}
    near = seen(ends) & (positions[:, None] - positions[None] < window)
    return {"full_attention": whole, "sliding_attention": near[None, None]}


def seen(ends: torch.Tensor) -> torch.Tensor:
    """Which tokens (columns) each token (rows) sees, truth values of shape (tokens, tokens)."""
    place = torch.arange(len(ends), device=ends.device)
    return (place[None] <= place[:, None]) & (place[:, None] < ends[None])


def window_of_layers(config: PretrainedConfig | None) -> int | None:
    """The sliding window of a model, in tokens; None where each layer sees all earlier tokens."""
    types = getattr(config, "layer_types", None) or ()
    return int(config.sliding_window) if config is not None and "sliding_attention" in types else None


class Branch(NamedTuple):
    """A run of tokens, each of which follows the one before it: from `start` to `stop`; `end` is that of their runs."""

    start: int
    stop: int
    end: int


def branches(ends: torch.Tensor) -> list[Branch]:
    """The branches of a sequence, in its order. Tokens of equal ends follow each other on all their paths."""
    values, counts = torch.unique_consecutive(ends, return_counts=True)
    stops = counts.cumsum(dim=0).tolist()
    return [Branch(*each) for each in zip([0, *stops[:-1]], stops, values.tolist(), strict=True)]


def tree_attention(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    scaling: float | None = None,
    **options: Any,
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Attention as transformers calls it; `sdpa` unless the mask is the ends of `tree_mask`.

    Args:
        query: Shape (1, heads, tokens, width), as are `key` and `value`, of fewer heads where several share one.
        scaling: Of the products, by default one over the root of the width.

    Returns:
        Shape (1, tokens, heads, width), and nothing.
    """
    if attention_mask is None or attention_mask.dtype != torch.long:
        return sdpa_attention_forward(module, query, key, value, attention_mask, scaling=scaling, **options)
    # Autocast knows torch's own attention, which would get all three in one format.
    device = query.device.type
    dtype = torch.get_autocast_dtype(device) if torch.is_autocast_enabled(device) else value.dtype
    query, key, value = query.to(dtype), key.to(dtype), value.to(dtype)
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    tree = branches(attention_mask[0, 0, 0])
    found: torch.Tensor = _ByBranches.apply(query, key, value, tree, scale)  # type: ignore[no-untyped-call]
    return found.transpose(1, 2).contiguous(), None


class _ByBranches(torch.autograd.Function):
    """Attention of each branch to itself and of what follows it to the branch, merged.

    The backward pass of a part needs the merged output and log-sum-exps alone (Ring Attention, arXiv 2310.01889).
    """

    @staticmethod
    def forward(
        ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, tree: list[Branch], scale: float
    ) -> torch.Tensor:
        merged = torch.empty_like(query, dtype=torch.float32)
        log_sum = query.new_empty(query.shape[:-1], dtype=torch.float32)
        for start, stop, _ in tree:
            own = slice(start, stop)
            merged[:, :, own], log_sum[:, :, own] = _part(query, key, value, own, own, scale)
        for start, stop, end in tree:
            if stop == end:
                continue
            after = slice(stop, end)
            part, part_sum = _part(query, key, value, after, slice(start, stop), scale)
            total = torch.logaddexp(log_sum[:, :, after], part_sum)
            weight = (part_sum - total).exp_()[..., None]
            merged[:, :, after].lerp_(part.float(), weight)  # the weights of both add up to 1
            log_sum[:, :, after] = total
        merged = merged.to(query.dtype)
        ctx.save_for_backward(query, key, value, merged, log_sum)
        ctx.tree, ctx.scale = tree, scale
        return merged

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        query, key, value, merged, log_sum = ctx.saved_tensors
        (gradient,) = gradients
        sums = [torch.zeros_like(each, dtype=torch.float32) for each in (query, key, value)]
        for start, stop, end in ctx.tree:
            seen = slice(start, stop)
            for asking in (seen, slice(stop, end)):
                if asking.start == asking.stop:
                    continue
                parts = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward(
                    gradient[:, :, asking],
                    query[:, :, asking],
                    key[:, :, seen],
                    value[:, :, seen],
                    merged[:, :, asking],
                    log_sum[:, :, asking],
                    0.0,
                    asking is seen,
                    scale=ctx.scale,
                )
                for total, part, place in zip(sums, parts, (asking, seen, seen), strict=True):
                    total[:, :, place] += part
        return *(total.to(query.dtype) for total in sums), None, None


def _part(
    query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, asking: slice, seen: slice, scale: float
) -> tuple[torch.Tensor, torch.Tensor]:
    """Attention of some tokens to others, or causally to themselves; and the log of the sum of its weights.

    torch's public function does not return the latter.
    """
    parts: tuple[torch.Tensor, torch.Tensor] = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(
        query[:, :, asking], key[:, :, seen], value[:, :, seen], 0.0, asking == seen, scale=scale
    )
    return parts


AttentionInterface.register(TREE_ATTENTION, tree_attention)
AttentionMaskInterface.register(TREE_ATTENTION, sdpa_mask)
