"""Refusals of a training run, before it begins and while it runs, each in one line that says how to fix it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from pathlib import Path
from typing import Any

import torch
from transformers import TrainerCallback, TrainingArguments
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from trl import ModelConfig, SFTConfig

from medjudge.errors import InputError, notify
from medjudge.judge.folder import CARD_FILE, JudgeCard
from medjudge.models.hardware import is_out_of_memory, return_freed_memory
from medjudge.records import TrainingLine
from medjudge.train.arguments import TRAINABLE_STYLES, JudgeArguments, deepspeed_on_cpu

FEW_STEPS = 100
"""Optimizer steps below which training is too short for a schedule of warm-up and decay to mean much."""


def require_possible(
    judge: JudgeArguments, model: ModelConfig, training: SFTConfig, folder: Path, start: JudgeCard | None
) -> None:
    """Raises InputError where options contradict each other, the machine, or what the judge folder holds already.

    `start` is the card of the judge that training continues from.
    """
    if (folder / CARD_FILE).exists():
        raise InputError(f"{folder}: holds a judge already; remove it, or choose another --output_dir")
    if judge.style not in TRAINABLE_STYLES:
        raise InputError(f"config: style is '{judge.style}'; take {' or '.join(TRAINABLE_STYLES)}")
    if start is not None and start.style != judge.style:
        raise InputError(f"start_from {judge.start_from}: trained in style {start.style}; set style {start.style}")
    if not model.model_name_or_path:
        raise InputError("config: model_name_or_path is missing; name the base model")
    if judge.windows < 1:
        raise InputError(f"config: windows is {judge.windows}; take 1 or more")
    if judge.share_prefixes and not training.packing:
        raise InputError("config: share_prefixes is a way to pack lines; set packing true, or leave it out")
    if judge.pack_length is not None and (judge.pack_length < 1 or not judge.share_prefixes):
        raise InputError("config: pack_length is a number of tokens from 1, and goes with share_prefixes")
    if judge.share_prefixes and model.attn_implementation:
        raise InputError(
            f"config: attn_implementation is {model.attn_implementation}, and share_prefixes has its own; leave one out"
        )
    if model.lora_r < 1:
        raise InputError(f"config: lora_r is {model.lora_r}; take 1 or more")
    if not training.use_cpu and not torch.cuda.is_available() and not deepspeed_on_cpu():
        raise InputError("config: use_cpu is false and torch sees no GPU here; train with --use_cpu true, or on a GPU")
    if training.n_gpu > 1:
        raise InputError(
            f"config: one process trains on one GPU, and this one sees {training.n_gpu}; use all of them with "
            "`accelerate launch --config_file configs/accelerate/multi-gpu.yaml recipes/train_judge.py --config FILE`, "
            "or set CUDA_VISIBLE_DEVICES=0"
        )
    if model.load_in_4bit and is_deepspeed_zero3_enabled():
        raise InputError(
            "config: ZeRO-3 cannot share out a quantised model; launch with zero2.yaml, or set load_in_4bit false"
        )
    if training.packing and is_deepspeed_zero3_enabled():
        raise InputError("config: packing cannot be tried out under ZeRO-3; train without packing, or with zero2.yaml")
    if judge.kind == "ordinal" and is_deepspeed_zero3_enabled():
        raise InputError("config: ordinal judges are too small to be worth ZeRO-3; launch with zero2.yaml or without")


def require_teachable(file: str, train: Sequence[TrainingLine], training: TrainingArguments) -> None:
    """Raises InputError where all lines have one level, or there are fewer than a batch takes."""
    require_levels(file, train)
    batch = batch_size(training)
    if len(train) < batch:
        raise InputError(
            f"{file}: {len(train)} lines are fewer than a batch of {batch} ({training.per_device_train_batch_size} "
            f"per_device_train_batch_size x {training.gradient_accumulation_steps} gradient_accumulation_steps x "
            f"{training.world_size} processes); lower one of these, or add lines"
        )


def require_levels(what: str, train: Sequence[TrainingLine], fix: str = "add answers of other levels") -> None:
    """Raises InputError where all lines have one level."""
    levels = {line.level for line in train}
    if len(levels) == 1:
        raise InputError(f"{what}: every line has level {levels.pop()}, which teaches nothing; {fix}")


def batch_size(training: TrainingArguments) -> int:
    """The number of answers in one step of the optimiser."""
    return training.per_device_train_batch_size * training.gradient_accumulation_steps * training.world_size


@contextmanager
def memory_explained(training: SFTConfig) -> Iterator[None]:
    """Turns an allocation that failed, on a GPU or the CPU, into an InputError that names what to change."""
    checkpointing = "" if training.gradient_checkpointing else ", set gradient_checkpointing true"
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        where = "the CPU's memory" if training.use_cpu else "the GPU's memory"
        raise InputError(
            f"out of memory: training does not fit {where}; lower per_device_train_batch_size (now "
            f"{training.per_device_train_batch_size}, and raise gradient_accumulation_steps as much), lower "
            f"per_device_eval_batch_size (now {training.per_device_eval_batch_size}) or max_length (now "
            f"{training.max_length}){checkpointing}, or take a smaller base model"
        ) from None


class NotFiniteError(InputError):
    """The loss is no longer a number, and neither are the weights: no checkpoint of the run is worth keeping."""


class Watch(TrainerCallback):
    """Warns of few steps, returns freed memory on a CPU, and ends training where a logged loss is no number."""

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.max_steps < FEW_STEPS and args.max_steps <= 0 and state.is_world_process_zero:
            notify(
                f"warning: training takes {state.max_steps} optimizer steps, and below about {FEW_STEPS} a judge "
                f"learns little; lower gradient_accumulation_steps (now {args.gradient_accumulation_steps}) or "
                f"per_device_train_batch_size (now {args.per_device_train_batch_size}), or raise num_train_epochs (now "
                f"{args.num_train_epochs:g})"
            )

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if args.use_cpu:
            return_freed_memory()

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        for name in ("loss", "eval_loss", "train_loss"):
            value = (logs or {}).get(name)
            if isinstance(value, float) and not isfinite(value):
                what = "validation loss" if name == "eval_loss" else "loss"
                raise NotFiniteError(
                    f"the {what} is {value} at step {state.global_step}: training diverged; lower learning_rate (now "
                    f"{args.learning_rate:g}){', or set bf16 false' if args.bf16 else ''}, and train again"
                )
