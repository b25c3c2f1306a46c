"""Sentences of an answer by themselves: dangerous advice, and what is beside the matter.

One adapter on the encoder reads every sentence alone. That tells more of it than the same sentence within an answer,
whose states are about the whole answer.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from transformers import PreTrainedTokenizerBase

from medjudge.judge.adapter import merge_adapter, require_finite
from medjudge.judge.points import Span, sentence_spans
from medjudge.judge.states import TextStates
from medjudge.models.batching import batches_by_length
from medjudge.models.hardware import fast_autocast
from medjudge.models.padding import pad_right

SENTENCES_FILE = "sentences.safetensors"
MOST_TOKENS = 96
"""Of a sentence; what stands behind them is not read."""
SENTENCE_LAYERS = (6, 9, -1)
"""The lower ones hold how a sentence is put, which tells asides apart; the last one holds what it means."""
ASIDE_UNITS = 32
"""The width of the hidden layer of the head for asides."""
_NO_ASIDE = -50.0
"""The logit of every sentence before the head for asides is fitted: none is left out."""
_BATCH_TOKENS = 4096


class Sentence(NamedTuple):
    """A sentence of an answer.

    Attributes:
        span: Where it stands.
        text: It, without the whitespace around it.
        rows: The rows of its tokens in the answer's states; none where they were not read.
    """

    span: Span
    text: str
    rows: np.ndarray


class SentenceLogits(NamedTuple):
    """The logits that a sentence advises something dangerous, and that it is beside the matter."""

    danger: float
    aside: float


class SentenceReader(nn.Module):
    """Says of sentences how surely they advise something dangerous, and how surely they are beside the matter.

    Args:
        body: The encoder, with or without an adapter.
        width: Of its states.
    """

    def __init__(self, body: nn.Module, width: int) -> None:
        super().__init__()
        self.body = body
        self.width = width
        self.danger = nn.Linear(self.columns, 1)
        self.aside = head_over(self.columns - width, ASIDE_UNITS)

    @property
    def columns(self) -> int:
        """The columns of `means`."""
        return len(SENTENCE_LAYERS) * self.width

    def means(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The normalised means of sentences' states in each of `SENTENCE_LAYERS`, side by side, (sentences, `columns`).

        Args:
            ids: Shape (sentences, longest).
            mask: The same.
        """
        with fast_autocast(ids.device):
            layers = self.body(input_ids=ids, attention_mask=mask, output_hidden_states=True).hidden_states
        inside = mask[..., None].float()

        def mean(layer: int) -> torch.Tensor:
            found = (layers[layer].float() * inside).sum(dim=1) / inside.sum(dim=1)
            return functional.layer_norm(found, found.shape[-1:])

        return torch.cat([mean(layer) for layer in SENTENCE_LAYERS], dim=-1)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The logits of danger and of being an aside, (sentences, longest) -> (sentences, 2)."""
        states = self.means(ids, mask)
        return torch.cat([self.danger(states), self.aside(states[:, : -self.width])], dim=1)

    def logits(self, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str]) -> np.ndarray:
        """The logits of sentences, (sentences, 2). One that was read in part is no aside."""
        rows = token_rows(tokenizer, sentences)
        device = self.danger.weight.device
        found = np.zeros((len(rows), 2))
        with torch.inference_mode():
            for batch in batches_by_length([len(row) for row in rows], _BATCH_TOKENS):
                ids, mask = pad_right([rows[at] for at in batch], tokenizer.pad_token_id)
                found[batch] = self(ids.to(device), mask.to(device)).double().cpu().numpy()
        found[[len(row) == MOST_TOKENS for row in rows], 1] = _NO_ASIDE
        return found

    def read(self, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str]) -> dict[str, SentenceLogits]:
        """The logits of every different sentence."""
        distinct = list(dict.fromkeys(sentences))
        rows = self.logits(tokenizer, distinct)
        return {sentence: SentenceLogits(*map(float, row)) for sentence, row in zip(distinct, rows, strict=True)}

    def save_heads(self, folder: Path) -> None:
        """Writes the heads beside the adapter, in half precision."""
        heads = self._heads().state_dict()
        save_file({name: value.half().contiguous() for name, value in heads.items()}, folder / SENTENCES_FILE)

    @classmethod
    def load(cls, folder: Path, body: nn.Module, width: int) -> "SentenceReader":
        """Merges the folder's adapter into an encoder, which nothing else may use, and reads the heads.

        Raises:
            ValueError: A file does not fit the encoder, or holds a number that is not finite.
        """
        saved = load_file(folder / SENTENCES_FILE)
        require_finite(saved, SENTENCES_FILE)
        reader = cls(merge_adapter(body, folder), width)
        try:
            reader._heads().load_state_dict(saved)
        except RuntimeError as error:
            raise ValueError(f"{SENTENCES_FILE} does not fit: {error}") from None
        return reader.eval()

    def _heads(self) -> nn.ModuleDict:
        return nn.ModuleDict({"danger": self.danger, "aside": self.aside})


def head_over(columns: int, units: int) -> nn.Sequential:
    """A head with one hidden layer, not fitted yet."""
    last = nn.Linear(units, 1)
    nn.init.zeros_(last.weight)
    nn.init.constant_(last.bias, _NO_ASIDE)
    return nn.Sequential(nn.Linear(columns, units), nn.ReLU(), last)


def token_rows(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str]) -> list[list[int]]:
    """The token ids of sentences, special tokens included."""
    if not sentences:
        return []
    encoded = tokenizer(list(sentences), truncation=True, max_length=MOST_TOKENS, split_special_tokens=True)
    rows: list[list[int]] = encoded["input_ids"]
    return rows


def sentences_of(text: str, states: TextStates, language: str) -> list[Sentence]:
    """The sentences of a text, those included that its states leave out.

    Args:
        states: Of the text.
        language: `en` or `zh`.
    """
    starts = states.spans[:, 0]
    return [
        Sentence(
            span, text[span.start : span.end].strip(), np.flatnonzero((starts >= span.start) & (starts < span.end))
        )
        for span in sentence_spans(text, language)
    ]
