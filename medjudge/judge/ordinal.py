"""The `ordinal` judge: an encoder or decoder with a cumulative-link head over five levels.

The model reads question, reference, checklist and answer together. Its states, averaged over the tokens of each of the
four, say how the answer relates to the others: the head makes the level of that. Averaged over the tokens of a point (a
sentence of the reference, an item of the checklist), they say whether the answer meets this point. A new head equals
the similarity baseline on these states, which is why a hundred scored answers are enough to start from. A long answer
is read in windows, each together with the other texts.
"""

from collections.abc import Callable, Iterator, Sequence
from math import sqrt
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import nn
from torch.nn import functional
from transformers import PreTrainedTokenizerBase

from medjudge.errors import InputError
from medjudge.item_records import ItemJudgment
from medjudge.judge.adapter import require_finite
from medjudge.judge.items import ItemAssignment
from medjudge.judge.language import other_language
from medjudge.judge.ordinal_input import (
    ANSWER,
    PARTS,
    TEXTS,
    WHOLE,
    Bucket,
    Encoded,
    Point,
    bucket,
    encode,
    placed_windows,
    points_of,
    present,
)
from medjudge.judge.points import point_rationale
from medjudge.judge.protocol import Assignment, scored, split_empty, unscored
from medjudge.judge.similarity import CutPoints
from medjudge.models.batching import MemoryLimit
from medjudge.models.hardware import fast_autocast
from medjudge.records import ErrorKind, Judgment, PointVerdict
from medjudge.rubrics.render import one_line

_U = TypeVar("_U", Assignment, ItemAssignment)
HEAD_FILE = "head.safetensors"
VERDICTS = ("met", "open", "contradicted")
NO_TOKEN = "the answer has no character that the judge's tokenizer knows"
_CPU_CHUNK, _GPU_CHUNK = 64, 512
"""On a CPU 64 answers take seconds: the progress bar moves, and an interruption loses little."""
HEAD_RATE = 3.0
"""The head's parameters are stored divided by this, so that Adam changes them this much faster than the adapter's."""


class Sums(NamedTuple):
    """Sums of states over tokens: of texts, shape (rows * `TEXTS`, width), and of points, shape (points, width)."""

    texts: torch.Tensor
    points: torch.Tensor


class Logits(NamedTuple):
    """The model's output: cumulative logits of the levels, shape (rows, 4), and of the verdicts, (points, 3)."""

    cumulative: torch.Tensor
    verdicts: torch.Tensor


class OrdinalModel(nn.Module):
    """One score per answer and four ordered cut points (proportional odds; McCullagh, 1980), and verdicts on points.

    score = v . answer + t . last + sum over the present parts of (slope * cosine(part, answer) + w . (part * answer) +
    offset) + u . (how the points are met), with embeddings of length 1, `last` being that of a window's last token;
    P(level > k) = sigmoid(score - cut_k). The logits of a point's verdict are linear in point * answer and point.

    Args:
        body: The base model, plain or with a LoRA adapter.
        hidden_size: The width of the base model.
    """

    def __init__(self, body: nn.Module, hidden_size: int) -> None:
        super().__init__()
        self.body = body
        self.slope = nn.Parameter(torch.zeros(len(PARTS)))
        self.product = nn.Parameter(torch.zeros(len(PARTS), hidden_size))
        self.offset = nn.Parameter(torch.zeros(len(PARTS)))
        self.alone = nn.Parameter(torch.zeros(hidden_size))
        self.whole = nn.Parameter(torch.zeros(hidden_size))
        self.first_cut = nn.Parameter(torch.zeros(1))  # not a scalar: DeepSpeed cannot broadcast one
        self.steps = nn.Parameter(torch.zeros(3))
        self.point_product = nn.Parameter(torch.zeros(len(VERDICTS), hidden_size))
        self.point_alone = nn.Parameter(torch.zeros(len(VERDICTS), hidden_size))
        self.point_offset = nn.Parameter(torch.zeros(len(VERDICTS)))
        self.by_points = nn.Parameter(torch.zeros(3))
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

    def sums(self, buckets: Sequence[Bucket], rows: int, points: int) -> Sums:
        """Reads windows.

        Args:
            buckets: From `bucket`.
            rows: How many answers the windows belong to.
            points: How many points those have.
        """
        texts = self.alone.new_zeros(rows * TEXTS, len(self.alone), dtype=torch.float32)
        of_points = self.alone.new_zeros(points, len(self.alone), dtype=torch.float32)
        for each in buckets:
            body = {name: each[name] for name in ("input_ids", "attention_mask")}
            hidden = self.body(**body).last_hidden_state.float()
            in_text, in_point = each["text"] >= 0, each["point"] >= 0
            texts = texts.index_add(0, each["text"][in_text], hidden[in_text])
            of_points = of_points.index_add(0, each["point"][in_point], hidden[in_point])
        return Sums(texts, of_points)

    def forward(self, buckets: Sequence[Bucket], present: torch.Tensor, row: torch.Tensor) -> Logits:
        """Scores a batch from `collate`: cumulative logits of level > 1, > 2, > 3, > 4, and logits of the verdicts."""
        return self.head(self.sums(buckets, len(present), len(row)), present, row)

    def head(self, sums: Sums, present: torch.Tensor, row: torch.Tensor) -> Logits:
        """The logits, from the sums over the windows."""
        with torch.autocast(sums.texts.device.type, enabled=False):
            vectors = functional.normalize(sums.texts, dim=1).view(len(present), TEXTS, -1)
            answer = vectors[:, ANSWER]
            points = functional.normalize(sums.points, dim=1)
            by_entry = (points * answer[row]) @ self.point_product.T + points @ self.point_alone.T
            verdicts = (self.entry_scale * by_entry + self.point_offset) * HEAD_RATE
            product = vectors[:, :ANSWER] * answer[:, None]
            by_part = self.slope * product.sum(dim=-1) + self.entry_scale * (product * self.product).sum(dim=-1)
            alone = self.entry_scale * (answer * self.alone + vectors[:, WHOLE] * self.whole).sum(dim=-1)
            by_points = (points_summary(verdicts, row, len(present)) * self.by_points).sum(dim=-1)
            score = (((by_part + self.offset) * present).sum(dim=-1) + alone + by_points) * HEAD_RATE
            return Logits(score[:, None] - self.cuts(), verdicts)

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
            InputError: An earlier release made the judge.
            ValueError: The file does not hold exactly the tensors of a head, or a number is not finite.
        """
        saved = load_file(folder / HEAD_FILE)
        require_finite(saved, HEAD_FILE)
        if "product" in saved and not {"point_product", "whole"} <= saved.keys():
            raise InputError(
                f"judge {folder}: an earlier release made it, whose ordinal judges had another head; train it again"
            )
        missing, unexpected = self.load_state_dict(saved, strict=False)
        if unexpected or any(not name.startswith("body.") for name in missing):
            raise ValueError(f"{HEAD_FILE} does not hold the tensors of a head")


def points_summary(verdicts: torch.Tensor, row: torch.Tensor, rows: int) -> torch.Tensor:
    """A summary of each answer's points: the mean and the least probability of met, and the most of contradicted.

    Args:
        verdicts: Logits, shape (points, 3).
        row: The row of each point, shape (points,).
        rows: How many answers there are.

    Returns:
        Shape (rows, 3); 0 where an answer has no point.
    """
    met, _, contradicted = torch.softmax(verdicts, dim=1).unbind(dim=1)
    none = met.new_zeros(rows)
    mean, least = [none.scatter_reduce(0, row, met, how, include_self=False) for how in ("mean", "amin")]
    return torch.stack([mean, least, none.scatter_reduce(0, row, contradicted, "amax")], dim=1)


def probabilities(cumulative: torch.Tensor, temperature: float = 1.0) -> torch.Tensor:
    """Level probabilities from cumulative logits, (batch, 4) -> (batch, 5), level 1 first."""
    above = torch.sigmoid(cumulative / temperature)
    ones = torch.ones_like(above[:, :1])
    edges = torch.cat([ones, above, torch.zeros_like(ones)], dim=1)
    return (edges[:, :-1] - edges[:, 1:]).clamp_min(0)


class OrdinalSettings(NamedTuple):
    """The settings by which an ordinal judge reads.

    Attributes:
        max_length: The most tokens of one window: question, reference, checklist and a stretch of the answer.
        most_windows: The most stretches of an answer, as in training; the judgment counts the tokens outside of them.
        temperature: Divides the logits; calibrates the probabilities.
        languages: Answers in other languages get no score; None for no restriction.
        batch_tokens: The tokens, padding included, of the first batches; later ones grow to what memory holds.
    """

    max_length: int
    most_windows: int = 1
    temperature: float = 1.0
    languages: Sequence[str] | None = None
    batch_tokens: int = 8192


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
        self.says_points = bool(model.point_product.any())
        self.chunk = _CPU_CHUNK if self.device.type == "cpu" else _GPU_CHUNK

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        yield from self.in_chunks(assignments, self._scored)

    def _scored(self, chunk: Sequence[Assignment]) -> Iterator[Judgment]:
        points = [points_of(assignment.question) for assignment in chunk]
        cumulative, readings = self.readings(chunk, points)
        levels = probabilities(cumulative, self.settings.temperature).numpy()
        for assignment, (row, verdicts), level in zip(chunk, readings, levels, strict=True):
            if not row.windows:
                yield unscored(assignment, self.name, ErrorKind.EMPTY_ANSWER, NO_TOKEN)
                continue
            said = verdicts if self.says_points else None
            yield scored(
                assignment,
                self.name,
                level,
                rationale=point_rationale(said or (), assignment.question.language),
                answer_tokens_cut=row.answer_tokens_cut,
                context_tokens_cut=row.context_tokens_cut,
                points=said,
            )

    def in_chunks(self, units: Sequence[_U], judge: Callable[[list[_U]], Iterator[Any]]) -> Iterator[Any]:
        """Judges chunks of units; before them come the judgments of units that the judge does not read.

        It does not read an empty answer, nor one in another language than those it was trained on.
        """
        not_empty, empty = split_empty(units, self.name)
        yield from empty
        work = []
        for unit in not_empty:
            languages = self.settings.languages
            reason = None if languages is None else other_language(unit.question, unit.answer.text, languages)
            if reason is None:
                work.append(unit)
            else:
                yield unscored(unit, self.name, ErrorKind.LANGUAGE, reason)
        for start in range(0, len(work), self.chunk):
            yield from judge(work[start : start + self.chunk])

    def readings(
        self, chunk: Sequence[Assignment | ItemAssignment], points: Sequence[Sequence[Point]]
    ) -> tuple[torch.Tensor, list[tuple[Encoded, list[PointVerdict]]]]:
        """The cumulative logits of answers, and of each its text as it was read and the verdicts on its points."""
        limits = self.settings.max_length, self.settings.most_windows
        rows = [
            encode(
                self.tokenizer, "\n".join([*each.earlier, each.question.prompt]), of_answer, each.answer.text, *limits
            )
            for each, of_answer in zip(chunk, points, strict=True)
        ]
        counts = [len(of_answer) for of_answer in points]
        read = self.read(rows, counts)
        verdicts = [
            point_verdicts(of_answer, row, logits)
            for of_answer, row, logits in zip(points, rows, torch.split(read.verdicts, counts), strict=True)
        ]
        return read.cumulative, list(zip(rows, verdicts, strict=True))

    def read(self, rows: Sequence[Encoded], points: Sequence[int]) -> Logits:
        """The logits of several answers, on the CPU.

        Args:
            rows: From `encode`.
            points: How many points each of them has.
        """
        placed = placed_windows(rows, points)
        row = torch.repeat_interleave(torch.tensor(points, dtype=torch.long)).to(self.device)
        lengths = [len(window.ids) for window in placed]
        width = self.model.product.shape[1]
        texts = torch.zeros(len(rows) * TEXTS, width, device=self.device)
        of_points = torch.zeros(len(row), width, device=self.device)

        def sums_of(batch: Sequence[int]) -> Sums:
            windows = bucket([placed[index] for index in batch], self.pad_id)
            tensors = {name: value.to(self.device) for name, value in windows.items()}
            with torch.inference_mode(), fast_autocast(self.device):
                return self.model.sums([tensors], len(rows), len(row))

        for _, sums in self.memory.run(range(len(placed)), lengths, sums_of):
            texts += sums.texts
            of_points += sums.points
        with torch.inference_mode():
            logits = self.model.head(Sums(texts, of_points), present(rows).to(self.device), row)
        return Logits(logits.cumulative.float().cpu(), logits.verdicts.float().cpu())


class OrdinalItemJudge:
    """Checks answers against items by an ordinal judge's verdicts on points. The items are read as the checklist.

    Args:
        judge: The judge, in memory.
    """

    def __init__(self, judge: OrdinalJudge) -> None:
        self.name = judge.name
        self.base = judge

    def judge(self, assignments: Sequence[ItemAssignment]) -> Iterator[ItemJudgment]:
        yield from self.base.in_chunks(assignments, self._checked)

    def _checked(self, chunk: Sequence[ItemAssignment]) -> Iterator[ItemJudgment]:
        points = [[Point(one_line(item.text), "checklist") for item in each.items] for each in chunk]
        for unit, (row, verdicts) in zip(chunk, self.base.readings(chunk, points)[1], strict=True):
            if not row.windows:
                yield unscored(unit, self.name, ErrorKind.EMPTY_ANSWER, NO_TOKEN)
            elif row.context_tokens_cut:
                reason = f"{row.context_tokens_cut} tokens of question and items do not fit the judge's window"
                yield unscored(unit, self.name, ErrorKind.WINDOW, reason)
            else:
                met = [verdict.met for verdict in verdicts]
                yield unit.met(self.name, met, answer_tokens_cut=row.answer_tokens_cut)


def point_verdicts(points: Sequence[Point], row: Encoded, logits: torch.Tensor) -> list[PointVerdict]:
    """A judge's verdicts on the points that it has read, from their logits of shape (points, 3)."""
    seen = {point for window in row.windows for point in window.points}
    shares = torch.softmax(logits, dim=1).tolist()
    return [
        PointVerdict(
            point=point.text, source=point.source, **{name: round(p, 6) for name, p in zip(VERDICTS, each, strict=True)}
        )
        for place, (point, each) in enumerate(zip(points, shares, strict=True))
        if place in seen
    ]


def reads_checklist(folder: Path) -> bool:
    """True if a judge gives checklists any weight; a judge that was trained without them does not."""
    head = load_file(folder / HEAD_FILE)
    position = PARTS.index("checklist")
    return any(bool(head[name][position].any()) for name in ("slope", "product", "offset"))


def says_points(folder: Path) -> bool:
    """True if a judge was trained with verdicts on points; if not, it has none to give.

    True for a damaged head and for an earlier release's, which are refused where they are loaded.
    """
    try:
        return bool(load_file(folder / HEAD_FILE)["point_product"].any())
    except (SafetensorError, KeyError):
        return True
