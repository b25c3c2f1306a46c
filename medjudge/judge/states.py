"""Token states of a frozen encoder: each text is read once, whatever it is compared with afterwards."""

import json
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from medjudge.models.batching import MemoryLimit
from medjudge.models.hardware import fast_autocast
from medjudge.models.padding import pad_right

LAYERS = (6, 12)
"""The layers whose states are kept: the middle one holds word forms and order, the last one meanings."""
OVERLAP = 64
"""The tokens that a window shares with the one before it."""


class TextStates(NamedTuple):
    """A text as the encoder reads it.

    Attributes:
        ids: Token ids without special tokens, shape (tokens,).
        spans: Where each token begins and ends in the text, in characters, shape (tokens, 2).
        states: The states of `LAYERS` side by side, float16, shape (tokens, len(LAYERS) * width).
        whole: The mean over all windows of the last layer's states, scaled to length 1, shape (width,).
        left_out: How many tokens of the text's end were not read.
    """

    ids: np.ndarray
    spans: np.ndarray
    states: np.ndarray
    whole: np.ndarray
    left_out: int

    @property
    def last(self) -> np.ndarray:
        """The last layer's states, shape (tokens, width)."""
        return self.states[:, -len(self.whole) :]

    def chosen(self, rows: np.ndarray) -> "TextStates":
        """The text of some of its tokens."""
        whole = self.last[rows].astype(np.float32).mean(axis=0)
        whole /= max(float(np.linalg.norm(whole)), 1e-9)
        return TextStates(self.ids[rows], self.spans[rows], self.states[rows], whole, self.left_out)


class _Window(NamedTuple):
    """A stretch of a text's tokens; the first `repeated` of them were read by the window before."""

    text: int
    start: int
    end: int
    repeated: int


class FrozenEncoder:
    """Reads texts with a published encoder that no training has changed.

    Args:
        model: The encoder on its device.
        tokenizer: Its tokenizer, of the `tokenizers` library: the spans come from it.
        max_length: The most tokens of a window, special tokens included.
        most_windows: The most windows of a text; the tokens behind them are counted and left out.
        batch_tokens: The tokens, padding included, of the first batches.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        most_windows: int,
        batch_tokens: int = 8192,
    ) -> None:
        self.model = model
        self.tokenizer = tokenizer
        self.inside = max_length - 2
        self.most_windows = most_windows
        self.memory = MemoryLimit(model.device, batch_tokens)
        self.width = int(model.config.hidden_size)

    @property
    def words(self) -> torch.Tensor:
        """The table of word embeddings, shape (vocabulary, width)."""
        return self.model.get_input_embeddings().weight

    def read(self, texts: Sequence[str]) -> list[TextStates]:
        """Reads texts, each once. A text without a token gives states of shape (0, ...) and a `whole` of zeros."""
        encoded = [
            self.tokenizer(
                text, add_special_tokens=False, split_special_tokens=True, return_offsets_mapping=True, verbose=False
            )
            for text in texts
        ]
        windows = [
            window for number, text in enumerate(encoded) for window in self._windows(number, len(text["input_ids"]))
        ]
        kept = [min(len(text["input_ids"]), self._most_tokens()) for text in encoded]
        states = [np.zeros((count, len(LAYERS) * self.width), np.float16) for count in kept]
        sums = np.zeros((len(texts), self.width))
        for window, rows, total in self._read_windows(windows, encoded):
            states[window.text][window.start + window.repeated : window.end] = rows[window.repeated :]
            sums[window.text] += total
        norms = np.maximum(np.linalg.norm(sums, axis=1, keepdims=True), 1e-9)
        return [
            TextStates(
                np.array(text["input_ids"][:count], np.int32),
                np.array(text["offset_mapping"][:count], np.int32).reshape(-1, 2),
                rows,
                whole.astype(np.float32),
                len(text["input_ids"]) - count,
            )
            for text, count, rows, whole in zip(encoded, kept, states, sums / norms, strict=True)
        ]

    def _most_tokens(self) -> int:
        return self.inside + (self.most_windows - 1) * (self.inside - OVERLAP)

    def _windows(self, number: int, tokens: int) -> Iterator[_Window]:
        tokens = min(tokens, self._most_tokens())
        start = 0
        while start < tokens:
            # Half of the overlap is read better by either window.
            yield _Window(number, start, min(start + self.inside, tokens), OVERLAP // 2 if start else 0)
            if start + self.inside >= tokens:
                return
            start += self.inside - OVERLAP

    def _read_windows(
        self, windows: Sequence[_Window], encoded: Sequence[Any]
    ) -> Iterator[tuple[_Window, np.ndarray, np.ndarray]]:
        """Each window with its tokens' states and the sum of the last layer's, special tokens included."""
        first, last = self.tokenizer.cls_token_id, self.tokenizer.sep_token_id
        rows = [[first, *encoded[w.text]["input_ids"][w.start : w.end], last] for w in windows]
        lengths = [len(row) for row in rows]
        for batch, hidden in self.memory.run(
            range(len(rows)), lengths, lambda batch: self._hidden([rows[index] for index in batch])
        ):
            for index, states in zip(batch, hidden, strict=True):
                states = states[: lengths[index]]
                yield windows[index], states[1:-1].astype(np.float16), states[:, -self.width :].sum(axis=0)

    def _hidden(self, rows: Sequence[list[int]]) -> np.ndarray:
        ids, mask = pad_right(rows, self.tokenizer.pad_token_id)
        device = self.model.device
        with torch.inference_mode(), fast_autocast(device):
            output = self.model(
                input_ids=ids.to(device), attention_mask=mask.to(device), output_hidden_states=True
            ).hidden_states
        hidden: np.ndarray = torch.cat([output[layer].float() for layer in LAYERS], dim=-1).cpu().numpy()
        return hidden


def layer_normed(states: torch.Tensor) -> torch.Tensor:
    """Each layer's states with mean 0 and variance 1, shape as given."""
    width = states.shape[-1] // len(LAYERS)
    return torch.cat([functional.layer_norm(part, (width,)) for part in states.chunk(len(LAYERS), dim=-1)], dim=-1)


def vocabulary_sha256(tokenizer: PreTrainedTokenizerBase) -> str:
    """Of a tokenizer's pieces in the order of their ids, whatever file they come from."""
    vocabulary = tokenizer.get_vocab()
    return sha256(json.dumps(sorted(vocabulary, key=vocabulary.__getitem__)).encode()).hexdigest()
