"""The `ordinal` judge: an encoder or decoder with a cumulative-link head over five levels.

The same model embeds question, reference, checklist and answer separately, and the head scores how the answer relates
to each of the others. The untrained judge equals the similarity baseline, which is why a hundred scored answers are
enough to start from. Question, reference and checklist are embedded once for all answers to a question. A long text is
read in windows, and its embedding is the mean over their tokens.
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
from transformers import PreTrainedTokenizerBase

from medjudge.judge.adapter import require_finite
from medjudge.judge.language import other_language
from medjudge.judge.protocol import Assignment, scored, split_empty, unscored
from medjudge.judge.similarity import CutPoints
from medjudge.models.batching import MemoryLimit, batches_by_length
from medjudge.models.hardware import fast_autocast
from medjudge.models.padding import pad_right
from medjudge.records import ErrorKind, Judgment, Question

HEAD_FILE = "head.safetensors"
PARTS = ("question", "reference", "checklist")
_CPU_CHUNK, _GPU_CHUNK = 64, 512
"""On a CPU 64 answers take seconds: the progress bar moves, and an interruption loses little."""
HEAD_RATE = 3.0
"""The head's parameters are stored divided by this, so that Adam changes them this much faster than the adapter's."""

Bucket = dict[str, torch.Tensor]
Windows = list[list[int]]


class Encoded(NamedTuple):
    """An answer and the texts it is compared with, as windows of token ids with special tokens.

    An absent text has no window.
    """

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
        max_length: The most tokens of one window, special tokens included.
        most_windows: The most windows of one text. Those of a longer text are spread evenly from its start to its end.

    Returns:
        Token ids, and how many tokens of the answer, and of the other texts together, were left out.
    """
    start = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
    end = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
    before, after = [[] if token is None else [token] for token in (start, end)]
    texts, left_out = [], []
    for text in (" ".join([*earlier, question.prompt]), question.reference or "", question.checklist or "", answer):
        # split_special_tokens: a "[SEP]" or "</s>" inside a text is plain text. verbose=False: no warning about length.
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
        cut = windows(ids, max_length - len(before) - len(after), most_windows)
        texts.append([[*before, *window, *after] for window in cut.windows])
        left_out.append(cut.tokens_left_out)
    prompt, reference, checklist, answer_windows = texts
    return Encoded(prompt, reference, checklist, answer_windows, left_out[3], sum(left_out[:3]))


class Cut(NamedTuple):
    """A text cut into windows, and how many of its tokens are in none of them."""

    windows: Windows
    tokens_left_out: int


def windows(tokens: Sequence[int], size: int, most: int) -> Cut:
    """Cuts a text into windows of nearly equal length.

    Args:
        tokens: Any number of token ids; an empty text has no window.
        size: The most tokens of a window.
        most: The most windows.
    """
    if not tokens:
        return Cut([], 0)
    count = ceil(len(tokens) / size)
    if count > most:
        # Full windows, the last one ending with the text.
        starts = np.linspace(0, len(tokens) - size, most).round().astype(int)
        return Cut([list(tokens[start : start + size]) for start in starts], len(tokens) - most * size)
    edges = np.linspace(0, len(tokens), count + 1).round().astype(int)
    return Cut([list(tokens[start:end]) for start, end in pairwise(edges)], 0)


class Batch(NamedTuple):
    """Answers ready for the model: each distinct text once, in buckets of windows of similar length.

    Attributes:
        buckets: `input_ids` and `attention_mask`, each of shape (windows, length).
        text: The index of the text that each window belongs to, in the order of the buckets, shape (windows,).
        parts: The indices of each answer's question, reference and checklist, shape (rows, 3); -1 if absent.
        answer: The index of each answer's text, shape (rows,).
    """

    buckets: list[Bucket]
    text: torch.Tensor
    parts: torch.Tensor
    answer: torch.Tensor


class Distinct(NamedTuple):
    """The distinct texts of several answers.

    Attributes:
        windows: The windows of all texts, as token ids.
        text: The index of the text that each window belongs to.
        parts: The indices of each answer's question, reference and checklist, shape (rows, 3); -1 if absent.
        answer: The index of each answer's text, shape (rows,).
    """

    windows: Windows
    text: list[int]
    parts: torch.Tensor
    answer: torch.Tensor


def distinct(rows: Sequence[Encoded]) -> Distinct:
    """Collects the distinct texts of encoded answers, so that texts which answers share are embedded once."""
    indices: dict[tuple[tuple[int, ...], ...], int] = {}
    all_windows: Windows = []
    text_of_window: list[int] = []

    def index(windows: Windows) -> int:
        if not windows:
            return -1
        key = tuple(map(tuple, windows))
        if key not in indices:
            indices[key] = len(indices)
            all_windows.extend(windows)
            text_of_window.extend([indices[key]] * len(windows))
        return indices[key]

    parts = [[index(text) for text in (row.question, row.reference, row.checklist)] for row in rows]
    answer = [index(row.answer) for row in rows]
    return Distinct(all_windows, text_of_window, torch.tensor(parts), torch.tensor(answer))


def collate(rows: Sequence[Encoded], pad_id: int, bucket_tokens: int) -> Batch:
    """Puts encoded answers into one batch.

    Args:
        rows: At least one answer.
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
    """One score per answer and four ordered cut points (proportional odds; McCullagh, 1980).

    score = v . answer + sum over the present parts of (slope * cosine(part, answer) + w . (part * answer) + offset),
    with embeddings of length 1; P(level > k) = sigmoid(score - cut_k).

    Args:
        body: The base model, plain or with a LoRA adapter; the embedding of a text is the mean over its tokens.
        hidden_size: The width of the base model.
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
        # The entries of a unit vector are about 1 / sqrt(width); this scales them to about 1 / 2.
        self.entry_scale = sqrt(hidden_size) / 2

    def start_from(self, baseline: CutPoints, shares: torch.Tensor) -> None:
        """Sets slopes and cuts so that the model equals a similarity judge on the mean cosine of an answer's parts.

        Args:
            baseline: Cut points fitted on the mean cosine.
            shares: The share of the questions that have each of the three parts, shape (3,). A part that no question
                has gets no slope, because the judge cannot have learned to use it.
        """
        steps = torch.tensor(np.diff(baseline.cuts), dtype=torch.float32).clamp_min(0.05)
        with torch.no_grad():
            self.slope.copy_((shares > 0) * baseline.slope / float(shares.sum()) / HEAD_RATE)
            self.first_cut.fill_(baseline.cuts[0] / HEAD_RATE)
            self.steps.copy_(torch.log(torch.expm1(steps)) / HEAD_RATE)

    def cuts(self) -> torch.Tensor:
        """The four cut points in ascending order, shape (4,)."""
        first = self.first_cut * HEAD_RATE
        return torch.cat([first, first + torch.cumsum(functional.softplus(self.steps * HEAD_RATE), dim=0)])

    def embed(self, buckets: Sequence[Bucket], text: torch.Tensor) -> torch.Tensor:
        """Embeds all texts.

        Args:
            buckets: Buckets from `collate`.
            text: The index of the text that each window belongs to, shape (windows,).

        Returns:
            The mean over the tokens of all windows of each text, scaled to length 1, shape (texts, width).
        """
        total: torch.Tensor | None = None
        start = 0
        for bucket in buckets:
            added = self.summed(bucket)
            indices = text[start : start + len(added)]
            start += len(added)
            if total is None:
                total = added.new_zeros(int(text.max()) + 1, added.shape[1])
            total = total.index_add(0, indices, added)
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
            Cumulative logits of level > 1, > 2, > 3, > 4, shape (batch, 4).
        """
        return self.head(self.embed(buckets, text), parts, answer)

    def head(self, vectors: torch.Tensor, parts: torch.Tensor, answer: torch.Tensor) -> torch.Tensor:
        """Cumulative logits, shape (batch, 4), from embeddings of shape (texts, width)."""
        with torch.autocast(vectors.device.type, enabled=False):
            present = (parts >= 0).to(vectors.dtype)
            answers = vectors[answer]
            product = vectors[parts.clamp_min(0)] * answers[:, None]
            by_part = self.slope * product.sum(dim=-1) + self.entry_scale * (product * self.product).sum(dim=-1)
            alone = self.entry_scale * (answers * self.alone).sum(dim=-1)
            score = (((by_part + self.offset) * present).sum(dim=-1) + alone) * HEAD_RATE
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
        """Reads what `save_head` wrote.

        Raises:
            ValueError: The file does not hold exactly the tensors of a head, or a number is not finite.
        """
        saved = load_file(folder / HEAD_FILE)
        require_finite(saved, HEAD_FILE)
        missing, unexpected = self.load_state_dict(saved, strict=False)
        if unexpected or any(not name.startswith("body.") for name in missing):
            raise ValueError(f"{HEAD_FILE} does not hold the tensors of a head")


def probabilities(cumulative: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Level probabilities from cumulative logits, (batch, 4) -> (batch, 5), level 1 first."""
    above = torch.sigmoid(cumulative / temperature)
    ones = torch.ones_like(above[:, :1])
    edges = torch.cat([ones, above, torch.zeros_like(ones)], dim=1)
    return (edges[:, :-1] - edges[:, 1:]).clamp_min(0)


class OrdinalSettings(NamedTuple):
    """How an ordinal judge reads.

    Attributes:
        max_length: The most tokens of one window.
        most_windows: The most windows of one text, as in training; the judgment counts the tokens outside of them.
        temperature: Divides the logits; calibrates the probabilities.
        languages: Answers in other languages get no score; None for no restriction.
        batch_tokens: The tokens, padding included, of the first batches; later ones grow to what memory holds.
        chunk: How many answers are scored before their judgments are yielded; chosen by the device unless given.
    """

    max_length: int
    most_windows: int = 1
    temperature: float = 1.0
    languages: Sequence[str] | None = None
    batch_tokens: int = 8192
    chunk: int | None = None


class OrdinalJudge:
    """Scores with a trained ordinal model.

    Args:
        name: The judge's name.
        model: The model, on its device, in evaluation mode.
        tokenizer: The model's tokenizer.
        settings: Windows, calibration, languages and batching.
    """

    def __init__(
        self, name: str, model: OrdinalModel, tokenizer: PreTrainedTokenizerBase, settings: OrdinalSettings
    ) -> None:
        self.name = name
        self.model = model
        self.tokenizer = tokenizer
        self.settings = settings
        self.device = model.slope.device
        self.memory = MemoryLimit(self.device, settings.batch_tokens)
        self.pad_id = 0 if tokenizer.pad_token_id is None else tokenizer.pad_token_id

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        not_empty, empty = split_empty(assignments, self.name)
        yield from empty
        work: list[Assignment] = []
        for assignment in not_empty:
            reason = self._foreign(assignment)
            if reason is None:
                work.append(assignment)
            else:
                yield unscored(assignment, self.name, ErrorKind.LANGUAGE, reason)
        # Shared texts are embedded once per chunk, so answers to one question are adjacent.
        work.sort(key=lambda item: item.question.id)
        size = self.settings.chunk or (_CPU_CHUNK if self.device.type == "cpu" else _GPU_CHUNK)
        for start in range(0, len(work), size):
            chunk = work[start : start + size]
            encoded = [self._encoded(assignment) for assignment in chunk]
            for assignment, texts, row in zip(chunk, encoded, self._probabilities(encoded), strict=True):
                yield scored(
                    assignment,
                    self.name,
                    row,
                    answer_tokens_cut=texts.answer_tokens_cut,
                    context_tokens_cut=texts.context_tokens_cut,
                )

    def _foreign(self, assignment: Assignment) -> str | None:
        if self.settings.languages is None:
            return None
        return other_language(assignment.question, assignment.answer.text, self.settings.languages)

    def _encoded(self, assignment: Assignment) -> Encoded:
        max_length, most_windows = self.settings.max_length, self.settings.most_windows
        text = assignment.answer.text
        return encode(self.tokenizer, assignment.question, assignment.earlier, text, max_length, most_windows)

    def _probabilities(self, encoded: Sequence[Encoded]) -> np.ndarray:
        """The probabilities of the five levels, shape (answers, 5)."""
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
        return probabilities(cumulative.float(), self.settings.temperature).cpu().numpy()

    def _summed(self, windows: Windows) -> torch.Tensor:
        bucket = {name: value.to(self.device) for name, value in _bucket(windows, self.pad_id).items()}
        with torch.inference_mode(), fast_autocast(self.device):
            return self.model.summed(bucket)


def reads_checklist(folder: Path) -> bool:
    """Whether a judge gives checklists any weight; a judge that was trained without them does not."""
    head = load_file(folder / HEAD_FILE)
    position = PARTS.index("checklist")
    return any(bool(head[name][position].any()) for name in ("slope", "product", "offset"))
