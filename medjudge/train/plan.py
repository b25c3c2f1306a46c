"""What a training run will do, by arithmetic: steps, tokens, lines cut or dropped, memory and time on named GPUs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import ceil
from typing import Any, NamedTuple

import numpy as np

from medjudge.train.checks import FEW_STEPS, batch_size
from medjudge.train.command_line import TrainingConfig
from medjudge.train.features import EncodedLine, TrainingData
from medjudge.train.memory import BatchSize, Shape, StepMemory, step_memory
from medjudge.train.packs import packed_lengths, tree_lengths
from medjudge.train.quantized import quantization_of

GIB = 2**30
_UTILISATION = 0.35
"""The share of a GPU's peak that training is assumed to reach."""
_RESERVED = 1.0
"""GiB of a GPU that are not to be had: CUDA itself, and blocks that lie between others."""


class Card(NamedTuple):
    """A GPU: its memory in GiB, and its dense bfloat16 matrix products with float32 sums in TFLOP/s, as published."""

    name: str
    memory: int
    tera: float


CARDS = (
    Card("RTX 4060", 8, 30.2),
    Card("RTX 4080", 16, 97.5),
    Card("RTX 4090", 24, 165.2),
    Card("L40S", 48, 362.0),
    Card("A100", 80, 312.0),
    Card("H100", 80, 989.0),
)


@dataclass(frozen=True)
class LinesOfFile:
    """The lines of a training file, and how many of them were dropped or lost a part of their answer."""

    lines: int
    dropped: int
    cut: int

    def __str__(self) -> str:
        return f"{self.lines} lines, {_share(self.dropped, self.lines)} dropped, {_share(self.cut, self.lines)} cut"


@dataclass(frozen=True)
class CardEstimate:
    """Whether the run fits a GPU, and for how long it would train there, in hours."""

    card: str
    memory_gib: int
    fits: bool
    hours: float


@dataclass(frozen=True)
class TrainingPlan:
    """What a training run will do.

    Attributes:
        tokens: Tokens of an epoch, those that packs share counted once; `longest` are those of the longest line.
        sequences: What batches are made of: lines, or packs of them if `packed`.
        steps: Optimizer steps of the whole run, each over `batch` sequences.
        memory: GiB of a step by part, or all of them as `measured`; None where the shape of the base model is not
            known.
        cards: Empty where the memory is not estimated.
    """

    config: str
    train: LinesOfFile
    validation: LinesOfFile
    tokens: int
    longest: int
    sequences: int
    packed: bool
    batch: int
    epochs: float
    steps: int
    memory: dict[str, float] | None
    cards: tuple[CardEstimate, ...]

    def as_json(self) -> dict[str, Any]:
        return asdict(self)

    def text(self) -> list[str]:
        """The plan in lines for the screen."""
        what = "packs of lines" if self.packed else "lines"
        lines = [f"train: {self.train}", f"validation: {self.validation}"]
        lines.append(f"tokens: {self.tokens:,} an epoch, {self.longest:,} in the longest line")
        lines.append(
            f"optimizer steps: {self.steps} ({self.epochs:g} epochs of {self.sequences} {what}, {self.batch} a step)"
        )
        if self.steps < FEW_STEPS:
            lines.append(f"warning: below about {FEW_STEPS} optimizer steps a judge learns little")
        if self.memory is None:
            lines.append("memory and time: not estimated for this kind of judge or base model")
        elif "measured" in self.memory:
            lines.append(f"memory: {self.memory['measured']:.1f} GiB (two steps of the largest batch, on this CPU)")
        else:
            parts = ", ".join(f"{name} {value:.1f}" for name, value in self.memory.items())
            lines.append(f"memory: {sum(self.memory.values()):.1f} GiB ({parts}), and {_RESERVED:g} GiB for CUDA")
        for card in self.cards:
            outcome = f"about {card.hours:.1f} hours at {_UTILISATION:.0%} of its peak" if card.fits else "does not fit"
            lines.append(f"{card.card}, {card.memory_gib} GiB: {outcome}")
        return lines


def _share(part: int, whole: int) -> str:
    return f"{part} ({part / whole:.1%})" if part else "0"


def plan_of(
    name: str,
    config: TrainingConfig,
    before: TrainingData,
    data: TrainingData,
    shape: Shape | None,
    measured: int | None = None,
) -> TrainingPlan:
    """Plans a run.

    Args:
        name: What the plan calls the config.
        before: The lines of the files.
        data: Those with room in the window; `encoded` is empty for an ordinal judge.
        shape: Of the base model; None where it is not known.
        measured: Bytes of memory that steps on this machine's CPU took.
    """
    training = config.training
    encoded_train, encoded_validation = data.encoded
    rows = sequence_lengths(config, encoded_train)
    sequences = len(rows) or len(data.train)
    steps = ceil(sequences / training.per_device_train_batch_size / training.world_size)
    steps = max(1, ceil(steps / training.gradient_accumulation_steps))
    total = training.max_steps if training.max_steps > 0 else ceil(steps * training.num_train_epochs)
    memory = None if measured is None else {"measured": round(measured / GIB, 2)}
    step = None
    if shape is not None and rows:
        step = estimated_memory(config, encoded_train, rows, shape)
        memory = {part: round(value / GIB, 2) for part, value in step._asdict().items()}
    epochs = total / steps
    return TrainingPlan(
        config=name,
        train=_lines(before.train, data.train, encoded_train),
        validation=_lines(before.validation, data.validation, encoded_validation),
        tokens=sum(rows),
        longest=max(map(_tokens, encoded_train), default=0),
        sequences=sequences,
        packed=bool(training.packing and rows),
        batch=batch_size(training),
        epochs=round(epochs, 2),
        steps=total,
        memory=memory,
        cards=() if step is None or shape is None else _cards(step, flops(config, rows, shape) * epochs),
    )


def sequence_lengths(config: TrainingConfig, lines: Sequence[EncodedLine]) -> list[int]:
    """The tokens of what batches are made of: lines, or packs of them."""
    lengths = list(map(_tokens, lines))
    if not config.training.packing or not lengths:
        return lengths
    max_length = config.training.max_length or max(lengths)
    if config.judge.share_prefixes:
        return tree_lengths([line.row for line in lines], max_length, config.judge.pack_length)
    return packed_lengths(lengths, max_length)


def _tokens(line: EncodedLine) -> int:
    return len(line.row["input_ids"])


def _lines(before: Sequence[Any], after: Sequence[Any], encoded: Sequence[EncodedLine]) -> LinesOfFile:
    return LinesOfFile(len(before), len(before) - len(after), sum(line.answer_tokens_cut > 0 for line in encoded))


def _cards(step: StepMemory, work: float) -> tuple[CardEstimate, ...]:
    return tuple(
        CardEstimate(
            card.name,
            card.memory,
            step.total / GIB + _RESERVED <= card.memory,
            round(work / (card.tera * 1e12 * _UTILISATION) / 3600, 2),
        )
        for card in CARDS
    )


def estimated_memory(
    config: TrainingConfig, lines: Sequence[EncodedLine], rows: Sequence[int], shape: Shape
) -> StepMemory:
    """The memory of the largest step: the longest rows, with the longest replies."""
    model, training = config.model, config.training
    size, longest = training.per_device_train_batch_size, max(rows)
    autocast, again = bool(training.bf16 or training.fp16), bool(training.gradient_checkpointing)
    words = sorted((sum(label != -100 for label in line.row["labels"]) for line in lines), reverse=True)
    per_row = ceil(len(lines) / len(rows))  # lines of a pack
    replies = words[: size * per_row]
    if training.packing:  # packs of a batch make one sequence
        masked = size * per_row > 1 and not config.judge.share_prefixes
        batch = BatchSize(1, size * longest, size * per_row, masked, sum(replies) + len(replies), sum(replies))
    else:
        batch = BatchSize(size, longest, size, size > 1, replies[0] + 1, sum(replies))
    return step_memory(shape, batch, model, quantization_of(model), autocast, again)


def flops(config: TrainingConfig, rows: Sequence[int], shape: Shape) -> float:
    """Floating-point operations of an epoch's forward and backward passes; the base model's weights get no gradient."""
    training = config.training
    again = 1 if training.gradient_checkpointing else 0
    size = training.per_device_train_batch_size
    shuffled = np.random.default_rng(0).permutation(np.array(rows))
    batches = [shuffled[start : start + size] for start in range(0, len(shuffled), size)]
    if training.packing:
        lengths = np.array([batch.sum() for batch in batches])
        sequences = np.ones(len(batches))
    else:
        lengths, sequences = np.array([batch.max() for batch in batches]), np.array([len(batch) for batch in batches])
    products = 2 * (shape.linear * (2 + again) + shape.adapter * (3 + again))
    attention = 4 * shape.query * shape.layers * (3 + again)
    return float((sequences * (lengths * products + lengths.astype(float) ** 2 * attention)).sum())
