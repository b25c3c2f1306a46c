"""Reads many prompts in few forward passes: what several of them begin with is computed once.

The judge's prompt goes from what most share to what is its own - rubric, question, reference, checklist, answer - so
that a rubric is read once a category, and a question once for all answers to it. The idea of RadixAttention (SGLang,
arXiv 2312.07104), for a list of prompts that is known beforehand.
"""

from collections.abc import Callable, Iterator, Sequence
from inspect import signature
from typing import Any, NamedTuple, TypeVar

import torch
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from medjudge.models.batching import MemoryLimit
from medjudge.models.padding import pad_left

T = TypeVar("T")
_WORTH_SHARING = 128
"""The tokens that a shared beginning must save; below, one more forward pass costs more than it brings."""


class Node(NamedTuple):
    """A run of tokens that follows its parent's, and what follows it: other runs, or the end of some prompts."""

    ids: list[int]
    ends: list[int]
    after: list["Node"]


def prefix_forest(prompts: Sequence[list[int]]) -> list[Node]:
    """The shared beginnings of prompts.

    Args:
        prompts: Token ids, none of them empty.

    Returns:
        Trees whose leaves end one prompt each, or several that are equal (`ends` holds their places in `prompts`).
        Every path from a root to a leaf spells its prompts.
    """
    order = sorted(range(len(prompts)), key=lambda index: prompts[index])

    def nodes(first: int, last: int, depth: int) -> list[Node]:
        """Of the sorted prompts from `first` to `last`, which agree in `depth` tokens and more."""
        low, high = prompts[order[first]], prompts[order[last]]
        if low == high:
            return [Node(low[depth:], order[first : last + 1], [])]
        # Sorted: what the first and the last share, all share. One token is left for the shortest to end with.
        shared = depth
        while shared < len(low) - 1 and low[shared] == high[shared]:
            shared += 1
        worth = (last - first) * (shared - depth) >= _WORTH_SHARING
        after: list[Node] = []
        start = first
        for place in range(first, last + 1):
            here, following = prompts[order[place]], prompts[order[min(place + 1, last)]]
            # A prompt that ends here is parted from those that begin with it and go on.
            ends = len(here) == shared + 1 < len(following)
            if place == last or ends or following[shared] != here[shared]:
                after += nodes(start, place, shared if worth else depth)
                start = place + 1
        return [Node(low[depth:shared], [], after)] if worth else after

    return nodes(0, len(order) - 1, 0) if order else []


def unique_tokens(forest: Sequence[Node]) -> int:
    """The tokens that are computed for a forest, padding not counted."""
    return sum(len(node.ids) + unique_tokens(node.after) for node in forest)


class Known(NamedTuple):
    """What the model has read so far, a row for each of several runs of tokens.

    Attributes:
        cache: Keys and values.
        mask: Which of its columns hold a token, shape (rows, columns).
    """

    cache: DynamicCache
    mask: torch.Tensor

    def rows(self, of: Sequence[int], keep: bool) -> "Known":
        """The same for some of the rows, in a given order, once or several times.

        Args:
            of: The rows.
            keep: Whether what is read next is kept as well.
        """
        index = torch.tensor(of, device=self.mask.device)
        cache = DynamicCache()
        cache.layers = [_Following(layer, index, keep) for layer in self.cache.layers]
        return Known(cache, self.mask[index])


class _Following(DynamicLayer):
    """A layer's keys and values that go on from rows of another cache, put together when the layer is computed.

    What is not kept is in memory for one layer at a time.
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
        if self.before is None:  # a rationale goes on from what was kept
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
    """Whether every layer of a model attends to all that came before, by positions that are given to it.

    What was read can then be gone on from, also where padding left holes. Models with sliding or local windows, linear
    attention, state spaces or positions of their own counting (ALiBi) are read prompt by prompt.
    """
    layers = DynamicCache(config=model.config).layers
    local = model.config.model_type == "gpt_neo"  # says so in a setting that no cache looks at
    takes_positions = "position_ids" in signature(model.forward).parameters
    return bool(layers) and all(type(layer) is DynamicLayer for layer in layers) and takes_positions and not local


def read_to_the_end(
    model: PreTrainedModel,
    forest: Sequence[Node],
    pad_id: int,
    memory: MemoryLimit,
    at_end: Callable[[torch.Tensor, Known], Sequence[T]],
    keep_ends: bool,
    known: Known | None = None,
    row_of: Sequence[int] = (),
) -> Iterator[tuple[int, T]]:
    """Reads each prompt to its end.

    Args:
        model: A causal language model for which `can_share` holds, in evaluation mode.
        forest: From `prefix_forest`.
        pad_id: Any token; padding is masked.
        memory: How many tokens one forward pass may hold; it learns from those that do not fit.
        at_end: What is wanted of some prompts that have been read: takes the logits of the next token, shape
            (rows, vocabulary), and what is known of them, and returns something for each row.
        keep_ends: Whether `at_end` goes on from what is known; else only the logits are good for anything.
        known: What was read before the roots of the forest, if anything.
        row_of: For each root, the row of `known` that it follows.

    Yields:
        The place of each prompt and what `at_end` returned for it, in an order of their own.

    Raises:
        InputError: A single prompt does not fit into memory.
    """

    def forward(batch: Sequence[int], keep: bool) -> tuple[torch.Tensor, Known]:
        before = None if known is None else known.rows([row_of[index] for index in batch], keep)
        return _forward(model, [forest[index].ids for index in batch], pad_id, before)

    own = [len(node.ids) for node in forest]
    columns = 0 if known is None else known.mask.shape[1]
    kept = [columns + length for length in own]
    shared = [index for index, node in enumerate(forest) if node.after]
    for batch, (_, read) in memory.run(shared, kept, lambda batch: forward(batch, keep=True)):
        after = [(row, following) for row, index in enumerate(batch) for following in forest[index].after]
        rows, roots = [row for row, _ in after], [node for _, node in after]
        yield from read_to_the_end(model, roots, pad_id, memory, at_end, keep_ends, read, rows)
        del read  # before the next batch is read
    ends = [index for index, node in enumerate(forest) if not node.after]
    lengths = kept if keep_ends else own
    for batch, found in memory.run(ends, lengths, lambda batch: at_end(*forward(batch, keep_ends))):
        for index, one in zip(batch, found, strict=True):
            yield from ((place, one) for place in forest[index].ends)


def _forward(
    model: PreTrainedModel, sequences: Sequence[list[int]], pad_id: int, known: Known | None
) -> tuple[torch.Tensor, Known]:
    """Reads sequences, each behind what is known of its row: the logits after each, and what is known then."""
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
            past_key_values=DynamicCache() if known is None else known.cache,
            use_cache=True,
            logits_to_keep=1,
        )
    return out.logits[:, -1], Known(out.past_key_values, mask)
