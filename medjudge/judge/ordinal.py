"""The `ordinal` judge: an encoder or decoder with a cumulative-link head over five levels.

Question, reference, checklist and answer are embedded one by one by the same model, and the head scores how the answer
relates to each of the others. Before training it is the similarity baseline, which is why a hundred scored answers are
enough to start from; what belongs to the question is embedded once for all of its answers.
"""

from collections.abc import Iterator, Sequence
from math import sqrt
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
from medjudge.judge.similarity import CutPoints
from medjudge.records import Judgment, Question

HEAD_FILE = "head.safetensors"
PARTS = ("question", "reference", "checklist")
_HEAD_RATE = 3.0
"""The head's numbers are stored divided by this, so that Adam moves them this much faster than the adapter's."""

Bucket = dict[str, torch.Tensor]


class Encoded(NamedTuple):
    """One answer and what it is compared with, as token ids; an absent part is empty."""

    parts: tuple[list[int], list[int], list[int]]
    answer: list[int]
    answer_tokens_cut: int
    context_tokens_cut: int


def encode(
    tokenizer: PreTrainedTokenizerBase, question: Question, earlier: Sequence[str], answer: str, max_length: int
) -> Encoded:
    """Tokenises question (with the earlier turns), reference, checklist and answer.

    Each may have `max_length` tokens; a longer one loses its middle, and the result says how many tokens that was.
    """
    texts = [" ".join([*earlier, question.prompt]), question.reference or "", question.checklist or "", answer]
    sequences, cut = [], []
    for text in texts:
        ids, left_out = _sequence(tokenizer, text, max_length) if text.strip() else ([], 0)
        sequences.append(ids)
        cut.append(left_out)
    return Encoded((sequences[0], sequences[1], sequences[2]), sequences[3], cut[3], sum(cut[:3]))


def _sequence(tokenizer: PreTrainedTokenizerBase, text: str, max_length: int) -> tuple[list[int], int]:
    # split_special_tokens: a "[SEP]" or "</s>" inside a text is text. verbose=False: long texts are cut here, later.
    ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    start = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    end = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    before, after = [[] if mark is None else [mark] for mark in (start, end)]
    kept, left_out = cut_middle(ids, max_length - len(before) - len(after))
    return [*before, *kept, *after], left_out


class Batch(NamedTuple):
    """Answers ready for the model: every text once, in buckets of like length, and where each answer's texts are."""

    buckets: list[Bucket]
    parts: torch.Tensor
    answer: torch.Tensor


def collate(rows: Sequence[tuple[Sequence[list[int]], list[int]]], pad_id: int, bucket_tokens: int) -> Batch:
    """Puts rows of (parts, answer) into one batch.

    Args:
        rows: Token ids; an absent part is empty.
        pad_id: The padding token.
        bucket_tokens: The most tokens of one bucket, padding included.

    Returns:
        Buckets; `parts` (rows, 3) and `answer` (rows,) count through their sequences, -1 for an absent part.
    """
    unique: dict[tuple[int, ...], int] = {}
    for parts, answer in rows:
        for sequence in (*parts, answer):
            if sequence:
                unique.setdefault(tuple(sequence), len(unique))
    sequences = list(unique)
    order = batches_by_length([len(sequence) for sequence in sequences], bucket_tokens)
    buckets = []
    place: dict[tuple[int, ...], int] = {}
    for indices in order:
        ids, mask = padded([sequences[index] for index in indices], pad_id)
        buckets.append({"input_ids": ids, "attention_mask": mask})
        for index in indices:
            place[sequences[index]] = len(place)
    found = [[place[tuple(sequence)] if sequence else -1 for sequence in parts] for parts, _ in rows]
    return Batch(buckets, torch.tensor(found), torch.tensor([place[tuple(answer)] for _, answer in rows]))


class OrdinalModel(nn.Module):
    """One score an answer and four ordered cut points (proportional odds; McCullagh, 1980).

    score = sum over the parts that are there of slope * cosine(part, answer) + w . (part * answer), + v . answer, with
    embeddings of length 1; P(level > k) = sigmoid(score - cut_k).

    Args:
        body: The model underneath, plain or with a LoRA adapter; its embedding is the mean over its tokens.
        hidden_size: Its width.
    """

    def __init__(self, body: nn.Module, hidden_size: int) -> None:
        super().__init__()
        self.body = body
        self.slope = nn.Parameter(torch.zeros(len(PARTS)))
        self.product = nn.Parameter(torch.zeros(len(PARTS), hidden_size))
        self.alone = nn.Parameter(torch.zeros(hidden_size))
        self.first_cut = nn.Parameter(torch.zeros(()))
        self.steps = nn.Parameter(torch.zeros(3))
        # The entries of a vector of length 1 are about 1 / sqrt(width) each: brought back to about 1 / 2.
        self.entry_scale = sqrt(hidden_size) / 2

    def start_from(self, baseline: CutPoints, parts_each: float) -> None:
        """Sets slopes and cuts so that the model scores as a similarity judge on the mean cosine of an answer's parts.

        Args:
            baseline: Fitted on the mean cosine.
            parts_each: How many parts a question has on average.
        """
        steps = torch.tensor(np.diff(baseline.cuts), dtype=torch.float32).clamp_min(0.05)
        with torch.no_grad():
            self.slope.fill_(baseline.slope / parts_each / _HEAD_RATE)
            self.first_cut.fill_(baseline.cuts[0] / _HEAD_RATE)
            self.steps.copy_(torch.log(torch.expm1(steps)) / _HEAD_RATE)

    def cuts(self) -> torch.Tensor:
        """The four cut points, rising, shape (4,)."""
        first = self.first_cut[None] * _HEAD_RATE
        return torch.cat([first, first + torch.cumsum(functional.softplus(self.steps * _HEAD_RATE), dim=0)])

    def embed(self, buckets: Sequence[Bucket]) -> torch.Tensor:
        """Embeds the sequences of all buckets in their order: shape (sequences, width), each of length 1."""
        vectors = []
        for bucket in buckets:
            hidden = self.body(**bucket).last_hidden_state.float()
            mask = bucket["attention_mask"][..., None].to(hidden.dtype)
            vectors.append(functional.normalize((hidden * mask).sum(dim=1) / mask.sum(dim=1), dim=1))
        return torch.cat(vectors)

    def forward(self, buckets: Sequence[Bucket], parts: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
        """Scores a batch from `collate`.

        Args:
            buckets: Padded sequences, `input_ids` and `attention_mask` of shape (sequences, length) each.
            parts: Which sequence each part is, shape (batch, 3), -1 where absent.
            answer: Which sequence each answer is, shape (batch,).

        Returns:
            Cumulative logits, shape (batch, 4): of level > 1, > 2, > 3, > 4.
        """
        return self.head(self.embed(buckets), parts, answer)

    def head(self, vectors: torch.Tensor, parts: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
        """Cumulative logits, shape (batch, 4), from embeddings of shape (sequences, width)."""
        with torch.autocast(vectors.device.type, enabled=False):
            there = (parts >= 0).to(vectors.dtype)
            said = vectors[answer]
            product = vectors[parts.clamp_min(0)] * said[:, None]
            each = self.slope * product.sum(dim=-1) + self.entry_scale * (product * self.product).sum(dim=-1)
            alone = self.entry_scale * (said * self.alone).sum(dim=-1)
            score = ((each * there).sum(dim=-1) + alone) * _HEAD_RATE
            return score[:, None] - self.cuts()

    def save_head(self, folder: Path) -> None:
        """Writes slopes, weights and cut points as `head.safetensors`."""
        head = {
            name: value.detach().contiguous().float() for name, value in self.named_parameters() if "body." not in name
        }
        save_file(head, folder / HEAD_FILE)

    def load_head(self, folder: Path) -> None:
        """Reads what `save_head` wrote."""
        saved = load_file(folder / HEAD_FILE)
        _require_finite(saved, HEAD_FILE)
        missing, unexpected = self.load_state_dict(saved, strict=False)
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
        max_length: The most tokens of one text.
        temperature: Divides the logits, so that probabilities are calibrated.
        batch_tokens: The most tokens, padding included, in one forward pass.
        chunk: How many answers are embedded before their judgments are handed on.
    """

    def __init__(
        self,
        name: str,
        model: OrdinalModel,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        temperature: float = 1.0,
        batch_tokens: int = 8192,
        chunk: int = 256,
    ) -> None:
        self.name = name
        self.model = model
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.temperature = temperature
        self.batch_tokens = batch_tokens
        self.chunk = chunk
        self.device = model.slope.device

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        work, empty = split_empty(assignments, self.name)
        yield from empty
        # Answers to one question together: what they share is embedded once a chunk.
        work.sort(key=lambda one: one.question.id)
        with tqdm(total=len(work), desc=f"judging ({self.name})", unit="answer", disable=None) as bar:
            for start in range(0, len(work), self.chunk):
                part = work[start : start + self.chunk]
                encoded = [
                    encode(self.tokenizer, one.question, one.earlier, one.answer.text, self.max_length) for one in part
                ]
                for one, texts, row in zip(part, encoded, self._probabilities(encoded), strict=True):
                    yield scored(
                        one,
                        self.name,
                        row,
                        answer_tokens_cut=texts.answer_tokens_cut,
                        context_tokens_cut=texts.context_tokens_cut,
                    )
                    bar.update()

    def _probabilities(self, encoded: Sequence[Encoded]) -> np.ndarray:
        """(n answers) -> (n, 5)."""
        pad_id = self.tokenizer.pad_token_id if self.tokenizer.pad_token_id is not None else 0
        batch = collate([(one.parts, one.answer) for one in encoded], pad_id, self.batch_tokens)
        dtype = fast_dtype(self.device)
        with torch.inference_mode(), torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32):
            buckets = [{name: value.to(self.device) for name, value in bucket.items()} for bucket in batch.buckets]
            cumulative = self.model(buckets, batch.parts.to(self.device), batch.answer.to(self.device))
        return probabilities(cumulative.float(), self.temperature).cpu().numpy()


def with_adapter(body: nn.Module, folder: Path) -> nn.Module:
    """Puts a saved LoRA adapter onto a body and merges it, so that judging costs no more than the plain model.

    Raises:
        ValueError: The file lacks tensors of the adapter, or holds others, or numbers that are not finite. peft itself
            would go on with what it finds.
    """
    # Here, because it takes seconds that the other kinds of judge need not wait for.
    from peft import PeftModel, get_peft_model_state_dict

    model = PeftModel.from_pretrained(body, str(folder))
    saved = load_file(folder / "adapter_model.safetensors")
    if saved.keys() != get_peft_model_state_dict(model).keys():
        raise ValueError("adapter_model.safetensors does not hold the tensors that adapter_config.json describes")
    _require_finite(saved, "adapter_model.safetensors")
    merged: nn.Module = model.merge_and_unload()
    return merged


def _require_finite(tensors: dict[str, torch.Tensor], name: str) -> None:
    if not all(bool(torch.isfinite(tensor).all()) for tensor in tensors.values()):
        raise ValueError(f"{name} holds numbers that are not finite")
