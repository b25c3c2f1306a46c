"""The `ordinal` judge: an encoder or decoder with a cumulative-link head over five levels.

Question, reference, checklist and answer are embedded one by one by the same model, and the head scores how the answer
relates to each of the others. Before training it is the similarity baseline, which is why a hundred scored answers are
enough to start from; what belongs to the question is embedded once for all of its answers. A long text is read in
windows and is the mean over all of them.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from math import ceil, sqrt
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from tqdm import tqdm
from transformers import PreTrainedTokenizerBase

from medjudge.judge.adapter import require_finite
from medjudge.judge.language import other_language
from medjudge.judge.protocol import Assignment, scored, split_empty, unscored
from medjudge.judge.similarity import CutPoints
from medjudge.models.batching import MemoryLimit, batches_by_length
from medjudge.models.hardware import fast_dtype
from medjudge.models.padding import pad_right
from medjudge.records import ErrorKind, Judgment, Question

HEAD_FILE = "head.safetensors"
PARTS = ("question", "reference", "checklist")
HEAD_RATE = 3.0
"""The head's numbers are stored divided by this, so that Adam moves them this much faster than the adapter's."""

Bucket = dict[str, torch.Tensor]
Windows = list[list[int]]


class Encoded(NamedTuple):
    """One answer and what it is compared with, as token ids in windows, marks included; an absent text has none."""

    question: Windows
    reference: Windows
    checklist: Windows
    answer: Windows
    answer_tokens_cut: int
    context_tokens_cut: int


def encode(
    tokenizer: PreTrainedTokenizerBase,
    question: Question,
    earlier: Sequence[str],
    answer: str,
    max_length: int,
    most_windows: int,
) -> Encoded:
    """Tokenises question (with the earlier turns), reference, checklist and answer.

    Args:
        max_length: The most tokens of one window, marks included.
        most_windows: The most windows of one text; of a longer one they are spread evenly, first and last among them.

    Returns:
        Token ids, and how many tokens of the answer, and of all else together, were left out.
    """
    start = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    end = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    before, after = [[] if mark is None else [mark] for mark in (start, end)]
    texts, cut = [], []
    for text in (" ".join([*earlier, question.prompt]), question.reference or "", question.checklist or "", answer):
        # split_special_tokens: a "[SEP]" or "</s>" inside a text is text. verbose=False: windows are cut here.
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
        found, left_out = windows(ids, max_length - len(before) - len(after), most_windows)
        texts.append([[*before, *window, *after] for window in found])
        cut.append(left_out)
    asked, reference, checklist, said = texts
    return Encoded(asked, reference, checklist, said, cut[3], sum(cut[:3]))


def windows(tokens: Sequence[int], size: int, most: int) -> tuple[Windows, int]:
    """Cuts a text into windows of nearly equal length, and how many tokens lie in none of them.

    Args:
        tokens: Any number of token ids; none give no window.
        size: The most tokens of a window.
        most: The most windows.
    """
    if not tokens:
        return [], 0
    count = ceil(len(tokens) / size)
    if count > most:
        # Whole windows where not all are kept, the last one flush with the end.
        starts = np.linspace(0, len(tokens) - size, most).round().astype(int)
        return [list(tokens[start : start + size]) for start in starts], len(tokens) - most * size
    edges = np.linspace(0, len(tokens), count + 1).round().astype(int)
    return [list(tokens[start:end]) for start, end in pairwise(edges)], 0


class Batch(NamedTuple):
    """Answers ready for the model: every text once, in buckets of windows of like length.

    Attributes:
        buckets: `input_ids` and `attention_mask`, each of shape (windows, length).
        text: For each window, in the order of the buckets, which text it belongs to, shape (windows,).
        parts: Which texts an answer's question, reference and checklist are, shape (rows, 3), -1 where absent.
        answer: Which text each answer is, shape (rows,).
    """

    buckets: list[Bucket]
    text: torch.Tensor
    parts: torch.Tensor
    answer: torch.Tensor


class Distinct(NamedTuple):
    """The texts of some answers, each once.

    Attributes:
        windows: Of all texts, as token ids.
        text: For each window, which text it belongs to.
        parts: Which texts an answer's question, reference and checklist are, shape (rows, 3), -1 where absent.
        answer: Which text each answer is, shape (rows,).
    """

    windows: Windows
    text: list[int]
    parts: torch.Tensor
    answer: torch.Tensor


def distinct(rows: Sequence[Encoded]) -> Distinct:
    """Takes encoded answers apart into their texts: what answers share is read once."""
    texts: dict[tuple[tuple[int, ...], ...], int] = {}
    found: list[tuple[list[int], int]] = []

    def place(windows: Windows) -> int:
        if not windows:
            return -1
        key = tuple(map(tuple, windows))
        if key not in texts:
            texts[key] = len(texts)
            found.extend((window, texts[key]) for window in windows)
        return texts[key]

    parts = [[place(text) for text in (row.question, row.reference, row.checklist)] for row in rows]
    answer = [place(row.answer) for row in rows]
    return Distinct([one for one, _ in found], [one for _, one in found], torch.tensor(parts), torch.tensor(answer))


def collate(rows: Sequence[Encoded], pad_id: int, bucket_tokens: int) -> Batch:
    """Puts encoded answers into one batch.

    Args:
        rows: At least one.
        pad_id: The padding token.
        bucket_tokens: The most tokens of one bucket, padding included.
    """
    texts = distinct(rows)
    buckets, order = [], []
    for indices in batches_by_length([len(window) for window in texts.windows], bucket_tokens):
        buckets.append(_bucket([texts.windows[index] for index in indices], pad_id))
        order += [texts.text[index] for index in indices]
    return Batch(buckets, torch.tensor(order), texts.parts, texts.answer)


def _bucket(windows: Windows, pad_id: int) -> Bucket:
    ids, mask = pad_right(windows, pad_id)
    return {"input_ids": ids, "attention_mask": mask}


class OrdinalModel(nn.Module):
    """One score an answer and four ordered cut points (proportional odds; McCullagh, 1980).

    score = v . answer + sum over the parts that are there of slope * cosine(part, answer) + w . (part * answer) +
    offset, with embeddings of length 1; P(level > k) = sigmoid(score - cut_k).

    Args:
        body: The model underneath, plain or with a LoRA adapter; a text's embedding is the mean over its tokens.
        hidden_size: Its width.
    """

    def __init__(self, body: nn.Module, hidden_size: int) -> None:
        super().__init__()
        self.body = body
        self.slope = nn.Parameter(torch.zeros(len(PARTS)))
        self.product = nn.Parameter(torch.zeros(len(PARTS), hidden_size))
        self.offset = nn.Parameter(torch.zeros(len(PARTS)))
        self.alone = nn.Parameter(torch.zeros(hidden_size))
        self.first_cut = nn.Parameter(torch.zeros(1))  # not a scalar: DeepSpeed cannot broadcast one
        self.steps = nn.Parameter(torch.zeros(3))
        # The entries of a vector of length 1 are about 1 / sqrt(width) each: brought back to about 1 / 2.
        self.entry_scale = sqrt(hidden_size) / 2

    def start_from(self, baseline: CutPoints, shares: torch.Tensor) -> None:
        """Sets slopes and cuts so that the model scores as a similarity judge on the mean cosine of an answer's parts.

        Args:
            baseline: Fitted on the mean cosine.
            shares: The part of the questions that have each of the three, shape (3,). One that none has gets no slope:
                a judge passes over what it has never seen.
        """
        steps = torch.tensor(np.diff(baseline.cuts), dtype=torch.float32).clamp_min(0.05)
        with torch.no_grad():
            self.slope.copy_((shares > 0) * baseline.slope / float(shares.sum()) / HEAD_RATE)
            self.first_cut.fill_(baseline.cuts[0] / HEAD_RATE)
            self.steps.copy_(torch.log(torch.expm1(steps)) / HEAD_RATE)

    def cuts(self) -> torch.Tensor:
        """The four cut points, rising, shape (4,)."""
        first = self.first_cut * HEAD_RATE
        return torch.cat([first, first + torch.cumsum(functional.softplus(self.steps * HEAD_RATE), dim=0)])

    def embed(self, buckets: Sequence[Bucket], text: torch.Tensor) -> torch.Tensor:
        """Embeds all texts: the mean over the tokens of all windows of each, (texts, width), each of length 1.

        Args:
            buckets: From `collate`.
            text: Which text each window belongs to, shape (windows,).
        """
        total: torch.Tensor | None = None
        start = 0
        for bucket in buckets:
            added = self.summed(bucket)
            of = text[start : start + len(added)]
            start += len(added)
            if total is None:
                total = added.new_zeros(int(text.max()) + 1, added.shape[1])
            total = total.index_add(0, of, added)
        assert total is not None
        return functional.normalize(total, dim=1)

    def summed(self, bucket: Bucket) -> torch.Tensor:
        """The sum over the tokens of each window, shape (windows, width)."""
        hidden = self.body(**bucket).last_hidden_state.float()
        return (hidden * bucket["attention_mask"][..., None]).sum(dim=1)

    def forward(
        self, buckets: Sequence[Bucket], text: torch.Tensor, parts: torch.Tensor, answer: torch.Tensor
    ) -> torch.Tensor:
        """Scores a batch from `collate`.

        Returns:
            Cumulative logits, shape (batch, 4): of level > 1, > 2, > 3, > 4.
        """
        return self.head(self.embed(buckets, text), parts, answer)

    def head(self, vectors: torch.Tensor, parts: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
        """Cumulative logits, shape (batch, 4), from embeddings of shape (texts, width)."""
        with torch.autocast(vectors.device.type, enabled=False):
            there = (parts >= 0).to(vectors.dtype)
            said = vectors[answer]
            product = vectors[parts.clamp_min(0)] * said[:, None]
            each = self.slope * product.sum(dim=-1) + self.entry_scale * (product * self.product).sum(dim=-1)
            alone = self.entry_scale * (said * self.alone).sum(dim=-1)
            score = (((each + self.offset) * there).sum(dim=-1) + alone) * HEAD_RATE
            return score[:, None] - self.cuts()

    def save_head(self, folder: Path) -> None:
        """Writes slopes, weights and cut points as `head.safetensors`."""
        head = {
            name: value.detach().contiguous().float()
            for name, value in self.named_parameters()
            if not name.startswith("body.")
        }
        save_file(head, folder / HEAD_FILE)

    def load_head(self, folder: Path) -> None:
        """Reads what `save_head` wrote."""
        saved = load_file(folder / HEAD_FILE)
        require_finite(saved, HEAD_FILE)
        missing, unexpected = self.load_state_dict(saved, strict=False)
        if unexpected or any(not name.startswith("body.") for name in missing):
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
        max_length: The most tokens of one window.
        most_windows: The most windows of one text, as in training; what lies in none is told by the judgment.
        temperature: Divides the logits, so that probabilities are calibrated.
        languages: The languages outside of which it gives no score; None where it tries all.
        batch_tokens: The tokens, padding included, of the first forward passes; later ones find what memory holds.
        chunk: How many answers are read before their judgments are handed on.
    """

    def __init__(
        self,
        name: str,
        model: OrdinalModel,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        most_windows: int = 1,
        temperature: float = 1.0,
        languages: Sequence[str] | None = None,
        batch_tokens: int = 8192,
        chunk: int = 512,
    ) -> None:
        self.name = name
        self.model = model
        self.tokenizer = tokenizer
        self.max_length = max_length
        self.most_windows = most_windows
        self.temperature = temperature
        self.languages = languages
        self.chunk = chunk
        self.device = model.slope.device
        self.memory = MemoryLimit(self.device, batch_tokens)
        self.pad_id = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        full, empty = split_empty(assignments, self.name)
        yield from empty
        work: list[Assignment] = []
        for one in full:
            reason = None if self.languages is None else other_language(one.question, one.answer.text, self.languages)
            if reason is None:
                work.append(one)
            else:
                yield unscored(one, self.name, ErrorKind.LANGUAGE, reason)
        # Answers to one question together: what they share is read once a chunk.
        work.sort(key=lambda one: one.question.id)
        with tqdm(total=len(work), desc=f"judging ({self.name})", unit="answer", disable=None) as bar:
            for start in range(0, len(work), self.chunk):
                part = work[start : start + self.chunk]
                encoded = [
                    encode(
                        self.tokenizer, one.question, one.earlier, one.answer.text, self.max_length, self.most_windows
                    )
                    for one in part
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
        texts = distinct(encoded)
        total = torch.zeros(max(texts.text) + 1, self.model.alone.shape[0], device=self.device)
        lengths = [len(window) for window in texts.windows]
        for batch, summed in self.memory.run(
            range(len(lengths)), lengths, lambda batch: self._summed([texts.windows[index] for index in batch])
        ):
            total.index_add_(0, torch.tensor([texts.text[index] for index in batch], device=self.device), summed)
        with torch.inference_mode():
            vectors = functional.normalize(total, dim=1)
            cumulative = self.model.head(vectors, texts.parts.to(self.device), texts.answer.to(self.device))
        return probabilities(cumulative.float(), self.temperature).cpu().numpy()

    def _summed(self, windows: Windows) -> torch.Tensor:
        bucket = {name: value.to(self.device) for name, value in _bucket(windows, self.pad_id).items()}
        dtype = fast_dtype(self.device)
        with torch.inference_mode(), torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32):
            return self.model.summed(bucket)


def reads_checklist(folder: Path) -> bool:
    """Whether the head of a judge folder gives checklists any weight: not where it was trained without them."""
    head = load_file(folder / HEAD_FILE)
    position = PARTS.index("checklist")
    return any(bool(head[name][position].any()) for name in ("slope", "product", "offset"))
