"""What a training run refuses, before it begins and while it runs: one line that says how to mend it."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from math import isfinite
from typing import Any

from transformers import TrainerCallback, TrainingArguments
from trl import SFTConfig

from medjudge.errors import InputError
from medjudge.models.hardware import is_out_of_memory
from medjudge.records import TrainingLine


def require_teachable(file: str, train: Sequence[TrainingLine], options: TrainingArguments) -> None:
    """Raises InputError where all lines have one level, or there are fewer than a batch takes."""
    levels = {line.level for line in train}
    if len(levels) == 1:
        raise InputError(
            f"{file}: every line has level {levels.pop()}, which teaches nothing; add answers of other levels"
        )
    batch = batch_size(options)
    if len(train) < batch:
        raise InputError(
            f"{file}: {len(train)} lines are fewer than a batch of {batch} ({options.per_device_train_batch_size} "
            f"per_device_train_batch_size x {options.gradient_accumulation_steps} gradient_accumulation_steps x "
            f"{options.world_size} processes); lower one of these, or add lines"
        )


def require_stage(file: str, train: Sequence[TrainingLine], stage: str) -> None:
    """Raises InputError where intermediate training is given other lines than matches of question and answer."""
    others = sum(line.source != "matching" for line in train)
    if stage == "intermediate" and others:
        raise InputError(
            f"{file}: {others} lines are not of source 'matching', which is all that stage intermediate learns from; "
            "take them out, or train with stage judge"
        )


def batch_size(options: TrainingArguments) -> int:
    """How many answers one step of the optimiser sees."""
    return options.per_device_train_batch_size * options.gradient_accumulation_steps * options.world_size


@contextmanager
def memory_explained(options: SFTConfig) -> Iterator[None]:
    """Turns an allocation that failed, on a GPU or the CPU, into an InputError that names what to change."""
    checkpointing = "" if options.gradient_checkpointing else ", set gradient_checkpointing true"
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        where = "the CPU's memory" if options.use_cpu else "the GPU's memory"
        raise InputError(
            f"out of memory: training does not fit {where}; lower per_device_train_batch_size (now "
            f"{options.per_device_train_batch_size}, and raise gradient_accumulation_steps as much), lower "
            f"per_device_eval_batch_size (now {options.per_device_eval_batch_size}) or max_length (now "
            f"{options.max_length}){checkpointing}, or take a smaller base model"
        ) from None


class NotFiniteError(InputError):
    """The loss is no longer a number, and neither are the weights: no checkpoint of the run is worth keeping."""


class StopWhereNotFinite(TrainerCallback):
    """Ends training where a logged loss is NaN or infinite, so that no such judge is written."""

    def on_log(self, args: Any, state: Any, control: Any, logs: dict[str, Any] | None = None, **_: Any) -> None:
        for name in ("loss", "eval_loss", "train_loss"):
            value = (logs or {}).get(name)
            if isinstance(value, float) and not isfinite(value):
                what = "validation loss" if name == "eval_loss" else "loss"
                raise NotFiniteError(
                    f"the {what} is {value} at step {state.global_step}: training came apart; lower learning_rate (now "
                    f"{args.learning_rate:g}){', or set bf16 false' if args.bf16 else ''}, and train anew"
                )
