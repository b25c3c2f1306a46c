"""What the stages share that train nothing but the score of a generative judge, by physicians' levels."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from trl import ModelConfig, SFTConfig, SFTTrainer

from medjudge.errors import InputError
from medjudge.records import TrainingLine
from medjudge.train.arguments import JudgeArguments
from medjudge.train.features import TrainingData
from medjudge.train.generative import keep_columns, load_for_training, lora_refusal, on_device, require_installed
from medjudge.train.lora import upper_lora

_Trainer = TypeVar("_Trainer", bound=SFTTrainer)


def backed(lines: Sequence[TrainingLine]) -> list[TrainingLine]:
    """The lines whose level is a person's, or true by construction: all but a teacher's."""
    return [line for line in lines if line.source != "teacher"]


def judge_to_continue(
    judge: JudgeArguments,
    model: ModelConfig,
    training: SFTConfig,
    tokenizer: PreTrainedTokenizerBase,
    data: TrainingData,
) -> Any:
    """The model of the judge `start_from`, or the base model, on its device, to be read before it is trained.

    Raises:
        InputError: It cannot be loaded, an option needs what is not installed, a file has no
            line but a teacher's and no pairs beside it, or it would be trained under ZeRO-3.
    """
    require_installed(training)
    for name, lines, pairs in zip(
        ("train_file", "validation_file"), (data.train, data.validation), data.encoded_pairs, strict=True
    ):
        if not pairs and not backed(lines):
            raise InputError(
                f"stage {judge.stage}: {name} holds a teacher's levels only, and this stage learns from physicians' "
                "levels; distil with physicians' scores"
            )
    if is_deepspeed_zero3_enabled():
        raise InputError(f"stage {judge.stage}: the judge cannot be read under ZeRO-3 before it trains; use zero2.yaml")
    keep_columns(training)
    return on_device(load_for_training(model, judge.start_folder), training)


def score_trainer(
    kind: type[_Trainer],
    current: Any,
    datasets: tuple[Dataset, Dataset],
    collate: Callable[[list[dict[str, Any]], int], Any],
    judge: JudgeArguments,
    model: ModelConfig,
    training: SFTConfig,
    tokenizer: PreTrainedTokenizerBase,
) -> _Trainer:
    """A trainer of this class that continues from `current`, with a fresh adapter where no judge was started from.

    Args:
        current: From `judge_to_continue`.
        datasets: For training and validation.
        collate: Rows and the id of the padding token -> a batch.

    Raises:
        InputError: The base model has no layer that `lora_target_modules` names.
    """
    training.dataset_kwargs = {"skip_prepare_dataset": True}
    pad_id = tokenizer.pad_token_id if tokenizer.pad_token_id is not None else tokenizer.eos_token_id
    try:
        return kind(
            model=current,
            args=training,
            data_collator=lambda rows: collate(rows, pad_id),
            train_dataset=datasets[0],
            eval_dataset=datasets[1],
            processing_class=tokenizer,
            peft_config=None if judge.start_from else upper_lora(current, model, judge.upper_layers),
        )
    except ValueError as error:
        raise lora_refusal(error) from None
