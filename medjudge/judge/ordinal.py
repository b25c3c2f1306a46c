"""The `ordinal` judge: an encoder or decoder with a cumulative-link head over five levels, one forward pass an answer."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from medjudge.hardware import fast_dtype
from medjudge.judge.batching import batches_by_length, cut_middle, padded
from medjudge.judge.protocol import Assignment, scored, split_empty
from medjudge.records import Judgment, Question

HEAD_FILE = "head.safetensors"
_ANSWER_SHARE = 0.5


class Encoded(NamedTuple):
    """One answer as token ids, and what did not fit."""

    input_ids: list[int]
    answer_tokens_cut: int
    context_tokens_cut: int


def encode(
    tokenizer: PreTrainedTokenizerBase, question: Question, earlier: Sequence[str], answer: str, max_length: int
) -> Encoded:
    """Puts context (turns, question, reference, checklist) and answer into one sequence of at most `max_length` tokens.

    Where both are too long the answer gets half the window; what one does not need, the other may use. Each loses its
    middle.
    """
    context = " ".join(filter(None, [*earlier, question.prompt, question.reference, question.checklist]))
    context_ids = _ids(tokenizer, context)
    answer_ids = _ids(tokenizer, answer)
    start, separator, end = _marks(tokenizer)
    room = max_length - len(start) - len(separator) - len(end)
    for_answer = min(len(answer_ids), max(int(room * _ANSWER_SHARE), room - len(context_ids)))
    answer_ids, answer_cut = cut_middle(answer_ids, for_answer)
    context_ids, context_cut = cut_middle(context_ids, room - len(answer_ids))
    return Encoded(start + context_ids + separator + answer_ids + end, answer_cut, context_cut)


def _ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    # split_special_tokens: a "[SEP]" or "</s>" inside a text is text. verbose=False: long texts are cut here, later.
    ids: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    return ids


def _marks(tokenizer: PreTrainedTokenizerBase) -> tuple[list[int], list[int], list[int]]:
    """The tokens before the context, between context and answer, and after the answer."""
    if tokenizer.cls_token_id is not None and tokenizer.sep_token_id is not None:
        return [tokenizer.cls_token_id], [tokenizer.sep_token_id], [tokenizer.sep_token_id]
    start = [] if tokenizer.bos_token_id is None else [tokenizer.bos_token_id]
    return start, _ids(tokenizer, "\n\n"), [tokenizer.eos_token_id]


class OrdinalModel(nn.Module):
    """A pooled body, one linear score, and four ordered cut points (proportional odds; McCullagh, 1980).

    P(level > k) = sigmoid(score - cut_k), so the five probabilities are differences of sigmoids.

    Args:
        body: The model underneath, plain or with a LoRA adapter.
        hidden_size: Its width.
    """

    def __init__(self, body: nn.Module, hidden_size: int) -> None:
        super().__init__()
        self.body = body
        self.score = nn.Linear(hidden_size, 1)
        nn.init.normal_(self.score.weight, std=0.02)
        nn.init.zeros_(self.score.bias)
        self.first_cut = nn.Parameter(torch.tensor(-1.5))
        self.steps = nn.Parameter(torch.full((3,), 0.5413))  # softplus(0.5413) = 1: cuts at -1.5, -0.5, 0.5, 1.5

    def cuts(self) -> torch.Tensor:
        """The four cut points, rising, shape (4,)."""
        return torch.cat([self.first_cut[None], self.first_cut + torch.cumsum(functional.softplus(self.steps), dim=0)])

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Scores a batch.

        Args:
            input_ids: Shape (batch, length).
            attention_mask: Shape (batch, length), 1 for tokens and 0 for padding.

        Returns:
            Cumulative logits, shape (batch, 4): of level > 1, > 2, > 3, > 4.
        """
        hidden = self.body(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state.float()
        mask = attention_mask[..., None].to(hidden.dtype)
        pooled = (hidden * mask).sum(dim=1) / mask.sum(dim=1)
        with torch.autocast(hidden.device.type, enabled=False):
            return self.score(pooled) - self.cuts()

    def save_head(self, folder: Path) -> None:
        """Writes score and cut points as `head.safetensors`."""
        head = {name: value.detach().contiguous().float() for name, value in self.named_parameters() if "body." not in name}
        save_file(head, folder / HEAD_FILE)

    def load_head(self, folder: Path) -> None:
        """Reads what `save_head` wrote."""
        missing, unexpected = self.load_state_dict(load_file(folder / HEAD_FILE), strict=False)
        if unexpected or any("body." not in name for name in missing):
            raise ValueError(f"{HEAD_FILE} holds other tensors than a head")


def probabilities(cumulative: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Level probabilities from cumulative logits, (batch, 4) -> (batch, 5), level 1 first."""
    above = torch.sigmoid(cumulative / temperature)
    ones = torch.ones_like(above[:, :1])
    edges = torch.cat([ones, above, torch.zeros_like(ones)], dim=1)
    return (edges[:, :-1] - edges[:, 1:]).clamp_min(0)


class OrdinalJudge:
    """Scores with a trained ordinal model.

    Args:
        name: The judge's name.
        model: The model, on its device, in evaluation mode.
        tokenizer: Its tokenizer.
        max_length: The window in tokens.
        temperature: Divides the logits, so that probabilities are calibrated.
        batch_tokens: The most tokens, padding included, in one forward pass.
    """

    def __init__(
        self,
        name: str,
        model: OrdinalModel,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        temperature: float = 1.0,
        batch_tokens: int = 8192,
    ) -> None:
        self.name = name
        self.model = model
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.temperature = temperature
        self.batch_tokens = batch_tokens
        self.device = next(model.parameters()).device

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        work, empty = split_empty(assignments, self.name)
        yield from empty
        encoded = [
            encode(self.tokenizer, one.question, one.earlier, one.answer.text, self.max_length)
            for one in tqdm(work, desc="reading answers", unit="answer", disable=None, leave=False)
        ]
        with tqdm(total=len(work), desc=f"judging ({self.name})", unit="answer", disable=None) as bar:
            for batch in batches_by_length([len(one.input_ids) for one in encoded], self.batch_tokens):
                levels = self._probabilities([encoded[index].input_ids for index in batch])
                for index, row in zip(batch, levels, strict=True):
                    yield scored(
                        work[index],
                        self.name,
                        row,
                        answer_tokens_cut=encoded[index].answer_tokens_cut,
                        context_tokens_cut=encoded[index].context_tokens_cut,
                    )
                bar.update(len(batch))

    def _probabilities(self, sequences: Sequence[Sequence[int]]) -> np.ndarray:
        pad_id = self.tokenizer.pad_token_id if self.tokenizer.pad_token_id is not None else 0
        ids, mask = padded(sequences, pad_id)
        dtype = fast_dtype(self.device)
        with torch.inference_mode(), torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32):
            cumulative = self.model(ids.to(self.device), mask.to(self.device))
        return probabilities(cumulative.float(), self.temperature).cpu().numpy()


def with_adapter(body: nn.Module, folder: Path) -> nn.Module:
    """Puts a saved LoRA adapter onto a body and merges it, so that judging costs no more than the plain model."""
    from peft import PeftModel  # here, because it takes seconds that the other kinds of judge need not wait for

    merged: nn.Module = PeftModel.from_pretrained(body, str(folder)).merge_and_unload()  # type: ignore[arg-type]
    return merged
