"""The `ordinal` judge: an encoder or decoder with a cumulative-link head over five levels.

A text is read beside its question, "question, text", and pooled over the text's own tokens. Answer, reference and
checklist are read like this one by one by the same model, and the head scores how the answer relates to the question and
to each of the others. What belongs to the question is read once for all of its answers. A long text is read in windows.
"""

from collections.abc import Iterator, Sequence
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

from medjudge.hardware import fast_dtype
from medjudge.judge.batching import batches_by_length, cut_middle, padded
from medjudge.judge.language import other_language
from medjudge.judge.protocol import Assignment, scored, split_empty, unscored
from medjudge.judge.similarity import CutPoints
from medjudge.records import Judgment, Question

HEAD_FILE = "head.safetensors"
PARTS = ("question", "reference", "checklist")
MOST_WINDOWS = 16
"""Of one text at judging. Further ones are left out evenly, and the judgment says how many tokens that was."""
_QUESTION_SHARE = 0.35
"""The most of a sequence that its question takes; a longer one loses its middle."""
HEAD_RATE = 3.0
"""The head's numbers are stored divided by this, so that Adam moves them this much faster than the adapter's."""

Bucket = dict[str, torch.Tensor]
Windows = list[list[int]]


class Encoded(NamedTuple):
    """One answer and what it is compared with, as token ids without marks; an absent text has no window."""

    question: list[int]
    answer: Windows
    reference: Windows
    checklist: Windows
    answer_tokens_cut: int
    context_tokens_cut: int


def encode(
    tokenizer: PreTrainedTokenizerBase,
    question: Question,
    earlier: Sequence[str],
    answer: str,
    max_length: int,
    most_windows: int = MOST_WINDOWS,
) -> Encoded:
    """Tokenises question (with the earlier turns), and answer, reference and checklist in windows.

    Args:
        max_length: The most tokens of one sequence: marks, question, and one window of a text.
        most_windows: The most windows of one text; of a longer one they are spread evenly, first and last among them.

    Returns:
        Token ids, and how many tokens of the answer, and of all else together, were left out.
    """
    asked = _tokens(tokenizer, " ".join([*earlier, question.prompt]))
    asked, asked_cut = cut_middle(asked, int(_QUESTION_SHARE * max_length))
    room = max_length - len(asked) - 3
    texts, cut = [], []
    for text in (answer, question.reference or "", question.checklist or ""):
        found, left_out = windows(_tokens(tokenizer, text), room, most_windows)
        texts.append(found)
        cut.append(left_out)
    return Encoded(asked, texts[0], texts[1], texts[2], cut[0], asked_cut + cut[1] + cut[2])


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
    return [list(tokens[start:end]) for start, end in zip(edges[:-1], edges[1:], strict=True)], 0


def _tokens(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    # split_special_tokens: a "[SEP]" or "</s>" inside a text is text. verbose=False: long texts are cut later.
    ids: list[int] = tokenizer(text, add_special_tokens=False, split_special_tokens=True, verbose=False)["input_ids"]
    return ids


class Marks(NamedTuple):
    """The tokens around question and text, and the padding; a tokenizer that has none of a kind gives an empty list."""

    start: list[int]
    between: list[int]
    pad: int

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase) -> "Marks":
        start = tokenizer.cls_token_id if tokenizer.cls_token_id is not None else tokenizer.bos_token_id
        end = tokenizer.sep_token_id if tokenizer.sep_token_id is not None else tokenizer.eos_token_id
        pad = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else 0
        return cls([] if start is None else [start], [] if end is None else [end], pad)


class Batch(NamedTuple):
    """Answers ready for the model: each pair of question and text once, in buckets of sequences of like length.

    Attributes:
        buckets: `input_ids`, `attention_mask`, and `segment`: 1 on the question's tokens, 2 on the text's, 0 elsewhere.
        text: For each sequence, in the order of the buckets, which text it is a window of, shape (sequences,).
        answer: Which text each answer is, shape (rows,).
        others: Which texts its reference and its checklist are, shape (rows, 2), -1 where absent.
    """

    buckets: list[Bucket]
    text: torch.Tensor
    answer: torch.Tensor
    others: torch.Tensor


def collate(rows: Sequence[Encoded], marks: Marks, bucket_tokens: int) -> Batch:
    """Puts encoded answers into one batch.

    Args:
        rows: At least one.
        marks: Of the tokenizer.
        bucket_tokens: The most tokens of one bucket, padding included.
    """
    texts: dict[tuple[object, ...], int] = {}
    sequences: list[tuple[list[int], list[int], int]] = []

    def place(question: list[int], found: Windows) -> int:
        if not found:
            return -1
        key = (tuple(question), *map(tuple, found))
        if key not in texts:
            texts[key] = len(texts)
            sequences.extend((question, window, texts[key]) for window in found)
        return texts[key]

    answer = [place(row.question, row.answer) for row in rows]
    others = [[place(row.question, found) for found in (row.reference, row.checklist)] for row in rows]
    written = [[*marks.start, *asked, *marks.between, *window, *marks.between] for asked, window, _ in sequences]
    segments = [
        [0] * len(marks.start) + [1] * len(asked) + [0] * len(marks.between) + [2] * len(window)
        for asked, window, _ in sequences
    ]
    buckets, order = [], []
    for indices in batches_by_length([len(one) for one in written], bucket_tokens):
        ids, mask = padded([written[index] for index in indices], marks.pad)
        segment = torch.zeros_like(ids)
        for row, index in enumerate(indices):
            segment[row, : len(segments[index])] = torch.tensor(segments[index])
        buckets.append({"input_ids": ids, "attention_mask": mask, "segment": segment})
        order += indices
    return Batch(
        buckets, torch.tensor([sequences[index][2] for index in order]), torch.tensor(answer), torch.tensor(others)
    )


class OrdinalModel(nn.Module):
    """One score an answer and four ordered cut points (proportional odds; McCullagh, 1980).

    With q and a the mean vectors over the question's and the answer's tokens, read together, and p that over a
    reference's or checklist's tokens, all of length 1:
    score = slope . cos(q, a) + w . (q * a) + v . a + u . q, and for each p that is there
    slope . cos(p, a) + w . (p * a) + offset;
    P(level > k) = sigmoid(score - cut_k).

    Args:
        body: The model underneath, plain or with a LoRA adapter.
        hidden_size: Its width.
        token_types: Whether it tells question and text apart by `token_type_ids`, as BERT does.
    """

    def __init__(self, body: nn.Module, hidden_size: int, token_types: bool) -> None:
        super().__init__()
        self.body = body
        self.token_types = token_types
        self.slope = nn.Parameter(torch.zeros(len(PARTS)))
        self.product = nn.Parameter(torch.zeros(len(PARTS), hidden_size))
        self.offset = nn.Parameter(torch.zeros(len(PARTS)))
        self.alone = nn.Parameter(torch.zeros(2, hidden_size))
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

    def embed(self, buckets: Sequence[Bucket], text: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Reads all sequences.

        Args:
            buckets: From `collate`.
            text: Which text each sequence is a window of, shape (sequences,).

        Returns:
            Each text's question and each text, as vectors of length 1 (or 0 where it has no token), both of shape
            (texts, width): the mean over the tokens of all of its windows.
        """
        sums: dict[int, torch.Tensor] = {}
        start = 0
        for bucket in buckets:
            segment = bucket["segment"]
            types = {"token_type_ids": (segment == 2).long()} if self.token_types else {}
            hidden = self.body(
                input_ids=bucket["input_ids"], attention_mask=bucket["attention_mask"], **types
            ).last_hidden_state.float()
            of = text[start : start + len(segment)]
            start += len(segment)
            for which in (1, 2):
                added = (hidden * (segment == which)[..., None]).sum(dim=1)
                total = sums.get(which, added.new_zeros(int(text.max()) + 1, added.shape[1]))
                sums[which] = total.index_add(0, of, added)
        return functional.normalize(sums[1], dim=1), functional.normalize(sums[2], dim=1)

    def forward(
        self, buckets: Sequence[Bucket], text: torch.Tensor, answer: torch.Tensor, others: torch.Tensor
    ) -> torch.Tensor:
        """Scores a batch from `collate`.

        Returns:
            Cumulative logits, shape (batch, 4): of level > 1, > 2, > 3, > 4.
        """
        return self.head(*self.embed(buckets, text), answer, others)

    def cosines(
        self, asked: torch.Tensor, said: torch.Tensor, answer: torch.Tensor, others: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """The entrywise products of each answer with its parts, (batch, 3, width), and which are there, (batch, 3)."""
        parts = torch.stack([asked[answer], said[others[:, 0].clamp_min(0)], said[others[:, 1].clamp_min(0)]], dim=1)
        there = torch.cat([torch.ones_like(answer)[:, None], (others >= 0).long()], dim=1).to(said.dtype)
        return parts * said[answer][:, None], there

    def head(
        self, asked: torch.Tensor, said: torch.Tensor, answer: torch.Tensor, others: torch.Tensor
    ) -> torch.Tensor:
        """Cumulative logits, shape (batch, 4), from what `embed` returns."""
        with torch.autocast(said.device.type, enabled=False):
            product, there = self.cosines(asked, said, answer, others)
            each = self.slope * product.sum(dim=-1) + self.entry_scale * (product * self.product).sum(dim=-1)
            each = each + self.offset
            alone = torch.stack([asked[answer], said[answer]], dim=1) * self.alone
            score = ((each * there).sum(dim=-1) + self.entry_scale * alone.sum(dim=(1, 2))) * HEAD_RATE
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
        _require_finite(saved, HEAD_FILE)
        missing, unexpected = self.load_state_dict(saved, strict=False)
        if unexpected or any(not name.startswith("body.") for name in missing):
            raise ValueError(f"{HEAD_FILE} holds other tensors than a head")


def reads_token_types(body: nn.Module, tokenizer: PreTrainedTokenizerBase) -> bool:
    """Whether a body tells two segments apart by `token_type_ids`, as BERT does."""
    return "token_type_ids" in tokenizer.model_input_names and getattr(body.config, "type_vocab_size", 0) > 1


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
        max_length: The most tokens of one sequence.
        temperature: Divides the logits, so that probabilities are calibrated.
        languages: The languages outside of which it gives no score; None where it tries all.
        batch_tokens: The most tokens, padding included, in one forward pass.
        chunk: How many answers are read before their judgments are handed on.
    """

    def __init__(
        self,
        name: str,
        model: OrdinalModel,
        tokenizer: PreTrainedTokenizerBase,
        max_length: int,
        temperature: float = 1.0,
        languages: Sequence[str] | None = None,
        batch_tokens: int = 8192,
        chunk: int = 256,
    ) -> None:
        self.name = name
        self.model = model
        self.tokenizer = tokenizer
        self.marks = Marks.of(tokenizer)
        self.max_length = max_length
        self.temperature = temperature
        self.languages = languages
        self.batch_tokens = batch_tokens
        self.chunk = chunk
        self.device = model.slope.device

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        full, empty = split_empty(assignments, self.name)
        yield from empty
        work: list[Assignment] = []
        for one in full:
            reason = None if self.languages is None else other_language(one.question, one.answer.text, self.languages)
            if reason is None:
                work.append(one)
            else:
                yield unscored(one, self.name, reason)
        # Answers to one question together: what they share is read once a chunk.
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
        batch = collate(encoded, self.marks, self.batch_tokens)
        dtype = fast_dtype(self.device)
        with torch.inference_mode(), torch.autocast(self.device.type, dtype, enabled=dtype != torch.float32):
            buckets = [{name: value.to(self.device) for name, value in bucket.items()} for bucket in batch.buckets]
            cumulative = self.model(buckets, *(one.to(self.device) for one in batch[1:]))
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
