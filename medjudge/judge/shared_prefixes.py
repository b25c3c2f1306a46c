"""Reads many prompts in few forward passes: shared prefixes are computed once.

The judge's prompt is ordered from the most shared part to the least: rubric, question, reference, checklist, answer. A
rubric is therefore read once per category, and a question once for all its answers. This is the idea of RadixAttention
(SGLang, arXiv 2312.07104) for prompts that are all known in advance.
"""

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any, NamedTuple, TypeVar

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer
from transformers.modeling_outputs import CausalLMOutputWithPast

from medjudge.models.batching import MemoryLimit
from medjudge.models.padding import pad_left

T = TypeVar("T")
CACHE = "cache" if "cache" in CausalLMOutputWithPast.__dataclass_fields__ else "past_key_values"
"""What a model calls its cache, as argument and in its output. It is `cache` from transformers 5.24 on; the releases of
vLLM that go with our torch want earlier ones."""
_WORTH_SHARING = 128
"""The fewest tokens that a shared prefix must save to be worth another forward pass."""


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


class Known(NamedTuple):
    """What the model has read so far, one row per sequence.

    Attributes:
        cache: Keys and values.
        mask: 1 for each column of the cache that holds a token, shape (rows, columns).
    """

    cache: DynamicCache
    mask: torch.Tensor

    def rows(self, of: Sequence[int], keep: bool) -> "Known":
        """Selects rows, in a given order; a row may occur several times.

        Args:
            of: The indices of the rows.
            keep: Whether what is read next is kept in the cache.
        """
        index = torch.tensor(of, device=self.mask.device)
        cache = DynamicCache()
        cache.layers = [_Following(layer, index, keep) for layer in self.cache.layers]
        return Known(cache, self.mask[index])


class _Following(DynamicLayer):
    """A layer's cache that continues rows of another cache; they are joined when the layer is computed.

    Without `keep`, the joined tensors exist for one layer at a time.
    """

    def __init__(self, before: DynamicLayer, index: torch.Tensor, keep: bool) -> None:
        super().__init__()
        self.before: DynamicLayer | None = before
        self.index = index
        self.keep = keep
        self.columns = before.get_seq_length()

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if self.before is None:  # a rationale continues what was kept
            return super().update(key_states, value_states)
        keys = torch.cat([self.before.keys.index_select(0, self.index), key_states], dim=-2)
        values = torch.cat([self.before.values.index_select(0, self.index), value_states], dim=-2)
        if self.keep:
            self.lazy_initialization(keys, values)
            self.keys, self.values, self.before = keys, values, None
        return keys, values

    def get_seq_length(self) -> int:
        return self.columns if self.before is not None else super().get_seq_length()


def can_share(model: PreTrainedModel) -> bool:
    """Whether every layer of a model attends to all earlier tokens, at explicit positions.

    A cache can then be continued even if padding left holes in it. Models with sliding or local windows, linear
    attention, state spaces or implicit positions (ALiBi) read each prompt separately.
    """
    layers = DynamicCache(config=model.config).layers
    local = model.config.model_type == "gpt_neo"  # its local attention is not visible in the cache
    takes_positions = "position_ids" in signature(model.forward).parameters
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers) and takes_positions and not local


def read_to_the_end(
    model: PreTrainedModel,
    forest: Sequence[Node],
    pad_id: int,
    memory: MemoryLimit,
    at_end: Callable[[torch.Tensor, Known, Sequence[int]], Sequence[T]],
    new_tokens: int,
    known: Known | None = None,
    row_of: Sequence[int] = (),
) -> Iterator[tuple[int, T]]:
    """Reads each prompt to its end.

    Args:
        model: A causal language model for which `can_share` holds, in evaluation mode.
        forest: From `prefix_forest`.
        pad_id: Any token; padding is masked.
        memory: The limit on tokens per forward pass, which adapts to the memory.
        at_end: Called when prompts have been read, with the logits of the next token, shape (rows, vocabulary), their
            cache, and the index of the prompt of each row; returns one result per row.
        new_tokens: The most tokens that `at_end` adds to the cache of a prompt; with 0, only the logits are valid.
        known: The cache of what precedes the roots of the forest, if anything.
        row_of: The row of `known` that each root follows.

    Yields:
        The index of each prompt and the result of `at_end` for it, in any order.

    Raises:
        InputError: A single prompt does not fit in memory.
    """

    def forward(batch: Sequence[int], keep: bool) -> tuple[torch.Tensor, Known]:
        before = None if known is None else known.rows([row_of[index] for index in batch], keep)
        return _forward(model, [forest[index].ids for index in batch], pad_id, before)

    own_lengths = [len(node.ids) for node in forest]
    columns = 0 if known is None else known.mask.shape[1]
    full_lengths = [columns + length for length in own_lengths]
    shared = [index for index, node in enumerate(forest) if node.after]
    for batch, (_, read) in memory.run(shared, full_lengths, lambda batch: forward(batch, keep=True)):
        after = [(row, following) for row, index in enumerate(batch) for following in forest[index].after]
        rows, roots = [row for row, _ in after], [node for _, node in after]
        yield from read_to_the_end(model, roots, pad_id, memory, at_end, new_tokens, read, rows)
        del read  # before the next batch is read
    ends = [index for index, node in enumerate(forest) if not node.after]
    lengths = [length + new_tokens for length in full_lengths] if new_tokens else own_lengths

    def read_ends(batch: Sequence[int]) -> Sequence[T]:
        return at_end(*forward(batch, new_tokens > 0), [forest[index].ends[0] for index in batch])

    for batch, results in memory.run(ends, lengths, read_ends):
        for index, result in zip(batch, results, strict=True):
            yield from ((prompt, result) for prompt in forest[index].ends)


def _forward(
    model: PreTrainedModel, sequences: Sequence[list[int]], pad_id: int, known: Known | None
) -> tuple[torch.Tensor, Known]:
    """Reads sequences, each after its row of the cache; returns the logits after each, and the extended cache."""
    # Padded on the left, so that the last column is the end of every row. Holes in the mask do no harm: positions are
    # given, and a masked column has no weight.
    ids, new = pad_left(sequences, pad_id, model.device)
    mask = new if known is None else torch.cat([known.mask, new], dim=1)
    positions = (mask.cumsum(dim=1) - 1).clamp_min(0)[:, -ids.shape[1] :]
    with torch.inference_mode():
        out = model(
            ids,
            attention_mask=mask,
            position_ids=positions,
            use_cache=True,
            logits_to_keep=1,
            **{CACHE: DynamicCache() if known is None else known.cache},
        )
    return out.logits[:, -1], Known(out[CACHE], mask)
