"""Dangerous advice in an answer: an adapter on the encoder reads every sentence by itself.

A sentence read alone tells more of what it advises than the same sentence within an answer, whose states are about the
whole answer.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from transformers import PreTrainedTokenizerBase

from medjudge.judge.adapter import merge_adapter, require_finite
from medjudge.models.batching import batches_by_length
from medjudge.models.hardware import fast_autocast
from medjudge.models.padding import pad_right

HEAD_FILE = "danger.safetensors"
MOST_TOKENS = 96
"""Of a sentence; what stands behind them is not read."""
_BATCH_TOKENS = 4096


class DangerDetector(nn.Module):
    """Says of sentences how surely they advise something dangerous.

    Args:
        body: The encoder, with or without an adapter.
        width: Of its states.
    """

    def __init__(self, body: nn.Module, width: int) -> None:
        super().__init__()
        self.body = body
        self.head = nn.Linear(width, 1)

    def forward(self, ids: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """The logits of sentences, (sentences, longest) -> (sentences,)."""
        with fast_autocast(ids.device):
            states = self.body(input_ids=ids, attention_mask=mask).last_hidden_state.float()
        inside = mask[..., None].float()
        mean = (states * inside).sum(dim=1) / inside.sum(dim=1)
        logits: torch.Tensor = self.head(functional.layer_norm(mean, mean.shape[-1:])).squeeze(1)
        return logits

    def logits(self, tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str]) -> np.ndarray:
        """The logits of sentences, (sentences,); each different one is read once."""
        distinct = list(dict.fromkeys(sentences))
        rows = token_rows(tokenizer, distinct)
        device = self.head.weight.device
        found = np.zeros(len(rows))
        with torch.inference_mode():
            for batch in batches_by_length([len(row) for row in rows], _BATCH_TOKENS):
                ids, mask = pad_right([rows[at] for at in batch], tokenizer.pad_token_id)
                found[batch] = self(ids.to(device), mask.to(device)).double().cpu().numpy()
        place = {sentence: at for at, sentence in enumerate(distinct)}
        return found[[place[sentence] for sentence in sentences]]

    def save_head(self, folder: Path) -> None:
        """Writes the head beside the adapter."""
        save_file({name: value.contiguous() for name, value in self.head.state_dict().items()}, folder / HEAD_FILE)

    @classmethod
    def load(cls, folder: Path, body: nn.Module, width: int) -> "DangerDetector":
        """Merges the folder's adapter into an encoder, which nothing else may use, and reads the head.

        Raises:
            ValueError: A file does not fit the encoder, or holds a number that is not finite.
        """
        saved = load_file(folder / HEAD_FILE)
        require_finite(saved, HEAD_FILE)
        detector = cls(merge_adapter(body, folder), width)
        try:
            detector.head.load_state_dict(saved)
        except RuntimeError as error:
            raise ValueError(f"{HEAD_FILE} does not fit: {error}") from None
        return detector.eval()


def token_rows(tokenizer: PreTrainedTokenizerBase, sentences: Sequence[str]) -> list[list[int]]:
    """The token ids of sentences, special tokens included."""
    if not sentences:
        return []
    encoded = tokenizer(list(sentences), truncation=True, max_length=MOST_TOKENS, split_special_tokens=True)
    rows: list[list[int]] = encoded["input_ids"]
    return rows
