"""`medjudge train --plan`: steps, tokens, lines cut or dropped; and, by steps of the real trainer, memory and time."""

import time
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from math import ceil
from tempfile import TemporaryDirectory
from typing import Any

import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from transformers import PreTrainedTokenizerBase, PrinterCallback, TrainerCallback
from transformers.trainer_utils import IntervalStrategy, SaveStrategy

from medjudge.models.hardware import peak_of_process
from medjudge.train.arguments import TrainingConfig
from medjudge.train.checks import FEW_STEPS, batch_size, memory_explained
from medjudge.train.features import TrainingData, TrainingRows
from medjudge.train.kinds import KINDS
from medjudge.train.ordinal import without_dropout


@dataclass(frozen=True)
class LinesOfFile:
    """The lines of a training file, and how many of them were dropped or lost a part of their answer."""

    lines: int
    dropped: int
    cut: int

    def __str__(self) -> str:
        dropped, cut = (f"{part} ({part / self.lines:.1%})" if part else "0" for part in (self.dropped, self.cut))
        return f"{self.lines} lines, {dropped} dropped, {cut} cut"


@dataclass(frozen=True)
class TrainingPlan:
    """The size of a training run; `device` and what follows it only where it would train on this machine.

    Attributes:
        tokens: Tokens of an epoch, those that packs share counted once; `longest` are those of the longest line.
        sequences: What batches are made of: lines, or packs of them if `packed`.
        steps: Optimizer steps of the whole run, each over `batch` sequences.
        device: `CPU` or the GPU's name.
        memory: `measured`: GiB at the peak, with the longest batch.
        seconds: Of a typical batch that is read for the first time.
        hours: Of all epochs, without evaluations.
    """

    config: str
    base_model: str
    output_dir: str
    train: LinesOfFile
    validation: LinesOfFile
    tokens: int
    longest: int
    sequences: int
    packed: bool
    batch: int
    epochs: float
    steps: int
    device: str | None = None
    memory: dict[str, float] | None = None
    seconds: float | None = None
    hours: float | None = None

    def text(self) -> list[str]:
        """The plan in lines for the screen."""
        what = "packs of lines" if self.packed else "lines"
        epochs = "epoch" if self.epochs == 1 else "epochs"
        lines = [
            f"{self.config}: {self.base_model}, to {self.output_dir}",
            f"train: {self.train}",
            f"validation: {self.validation}",
            f"tokens: {self.tokens:,} an epoch, {self.longest:,} in the longest line",
            f"optimizer steps: {self.steps} ({self.epochs:g} {epochs} of {self.sequences} {what}, {self.batch} a step)",
        ]
        if self.steps < FEW_STEPS:
            lines.append(f"warning: below about {FEW_STEPS} optimizer steps a judge learns little")
        if self.memory is None or self.seconds is None or self.hours is None:
            lines.append(
                "memory and time: not measured, as this config trains on a GPU; run --plan on a machine with one"
            )
            return lines
        hours = f"{self.hours:.1f} hours" if self.hours >= 1 else f"{60 * self.hours:.0f} minutes"
        return [
            *lines,
            f"memory: {self.memory['measured']:.1f} GiB (peak with the longest batch, on this {self.device})",
            f"time: about {hours} without evaluations ({self.seconds:.2f} s a typical batch, measured here)",
        ]


def plan_of(
    name: str, config: TrainingConfig, tokenizer: PreTrainedTokenizerBase, files: TrainingData, here: bool
) -> TrainingPlan:
    """Plans a run. Where it would train on this machine (`here`), some steps of it are taken.

    Raises:
        InputError: The base model cannot be loaded, or a step needs more memory than there is.
    """
    judge, model, training = config
    rows = KINDS[judge.kind].rows(config, tokenizer, files)
    train, validation, _ = rows
    tokens = [row_tokens(row) for row in train]
    steps = ceil(len(train) / training.per_device_train_batch_size / training.world_size)
    steps = max(1, ceil(steps / training.gradient_accumulation_steps))
    total = training.max_steps if training.max_steps > 0 else ceil(steps * training.num_train_epochs)
    return TrainingPlan(
        config=name,
        base_model=str(model.model_name_or_path),
        output_dir=str(training.output_dir),
        train=_lines(files.train, train),
        validation=_lines(files.validation, validation),
        tokens=sum(tokens),
        longest=max(row_tokens({**line, "shared": 0}) for line in _lines_of(train)),
        sequences=len(train),
        packed=bool(training.packing),
        batch=batch_size(training),
        epochs=round(total / steps, 2),
        steps=total,
        **(_measured(config, tokenizer, rows, total / steps) if here else {}),
    )


def row_tokens(row: dict[str, Any]) -> int:
    """The tokens that a row of a training set is read with, those that its lines share counted once."""
    if "windows" in row:
        return sum(len(window["ids"]) for window in row["windows"])
    return sum(len(line["input_ids"]) - line.get("shared", 0) for line in row.get("lines", [row]))


def _lines_of(rows: Dataset) -> list[dict[str, Any]]:
    return [line for row in rows for line in row.get("lines", [row])]


def _lines(before: Sequence[Any], rows: Dataset) -> LinesOfFile:
    lines = _lines_of(rows)
    return LinesOfFile(len(before), len(before) - len(lines), sum(line["cut"] > 0 for line in lines))


def _measured(
    config: TrainingConfig, tokenizer: PreTrainedTokenizerBase, read: TrainingRows, epochs: float
) -> dict[str, Any]:
    """Takes four steps of the real trainer and evaluates one batch, for `device`, `memory`, `seconds` and `hours`.

    The first step warms up and allocates the moments of the optimiser. The last two read one batch, as states that are
    kept between epochs make the second time shorter.
    """
    training = copy(config.training)
    training.max_steps, training.gradient_accumulation_steps = 4, 1
    training.eval_strategy, training.save_strategy = IntervalStrategy.NO, SaveStrategy.NO
    training.logging_strategy, training.report_to = IntervalStrategy.NO, []
    training.load_best_model_at_end, training.eval_on_start, training.disable_tqdm = False, False, True
    with TemporaryDirectory() as folder, memory_explained(training):
        training.output_dir = folder
        trainer = KINDS[config.judge.kind].trainer(config._replace(training=training), tokenizer, read)
        trainer.remove_callback(PrinterCallback)  # of losses, on stdout
        if training.use_cpu:
            without_dropout(trainer.model)
        rows, size = trainer.train_dataset, training.per_device_train_batch_size
        tokens, order = [row_tokens(row) for row in rows], _by_tokens(rows)
        typical = order[max(len(order) // 2 - size // 2, 0) :][:size]
        batches = [order[len(order) // 2 :][:size], order[:size], typical, typical]
        loader = DataLoader(rows, batch_sampler=batches, collate_fn=trainer.data_collator)
        trainer.get_train_dataloader = lambda: loader
        clock = _Clock()
        trainer.add_callback(clock)
        trainer.train()
        evaluated = _by_tokens(trainer.eval_dataset)[: training.per_device_eval_batch_size]
        trainer.evaluate(trainer.eval_dataset.select(evaluated))
        peak = peak_of_process() if training.use_cpu else torch.cuda.max_memory_reserved(training.device)
    first, again = clock.ends[2] - clock.ends[1], clock.ends[3] - clock.ends[2]
    typical_batches = sum(tokens) / sum(tokens[row] for row in typical)
    return {
        "device": "CPU" if training.use_cpu else torch.cuda.get_device_name(training.device),
        "memory": {"measured": round(peak / 2**30, 2)},
        "seconds": round(first, 3),
        "hours": round((first * min(epochs, 1) + again * max(epochs - 1, 0)) * typical_batches / 3600, 6),
    }


def _by_tokens(rows: Dataset) -> list[int]:
    """The numbers of rows, longest first."""
    tokens = [row_tokens(row) for row in rows]
    return sorted(range(len(tokens)), key=lambda index: -tokens[index])


class _Clock(TrainerCallback):
    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        self.ends.append(time.monotonic())
