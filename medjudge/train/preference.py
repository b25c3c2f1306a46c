"""Trains a generative judge by preference (DPO): the physicians' level over the likeliest other one."""

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np
from datasets import Dataset
from transformers import PreTrainedTokenizerBase
from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled
from trl import DPOConfig, DPOTrainer, ModelConfig, SFTConfig

from medjudge.errors import InputError
from medjudge.judge.generative import (
    GenerativeJudge,
    GenerativeSettings,
    before_score_ids,
    score_line,
    score_token_ids,
)
from medjudge.judge.prompts import require_chat_template
from medjudge.records import TrainingLine
from medjudge.rubrics.render import Style
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.train.arguments import JudgeArguments
from medjudge.train.features import TrainingData, line_assignment, prompt_ids
from medjudge.train.generative import (
    JudgedEvaluation,
    keep_columns,
    load_for_training,
    lora_refusal,
    on_device,
    readable,
    require_installed,
)
from medjudge.train.lean_steps import LeanSteps
from medjudge.train.lora import lora_config


class PreferenceTrainer(JudgedEvaluation, LeanSteps, DPOTrainer):
    """TRL's DPO trainer over rows of `preference_dataset`."""

    def _prepare_dataset(self, dataset: Dataset, *_: Any) -> Dataset:
        return dataset  # in tokens already, exactly those that the judge sees


def preference_dataset(
    lines: Sequence[TrainingLine],
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    style: Style,
    scheme: Scheme = LLMEVAL_MED,
) -> Dataset:
    """Columns `prompt_ids`, `chosen_ids` and `rejected_ids`: the two scores after the same text.

    Chosen is the line's level. Rejected is, of the other levels, the one that the judge finds likeliest: its
    mistake where it is wrong, its most likely mistake where it is right. A reason-first judge writes
    its own rationale before both, so that only the verdict is compared. Lines of source `teacher` are left out: a
    preference is a person's, or true by construction. The weights of lines are not used.

    Args:
        model: The judge as it is now.
    """
    backed = [line for line in lines if line.source != "teacher"]
    label_ids = score_token_ids(tokenizer)
    judge = GenerativeJudge("current", readable(model), tokenizer, GenerativeSettings(max_length, style=style))
    work = [line_assignment(line, scheme) for line in backed]
    prompts = [prompt_ids(assignment, tokenizer, max_length, style) for assignment in work]
    score_lines = [score_line(assignment) for assignment in work]
    training = model.training
    model.eval()
    readings = judge.read(prompts, score_lines)
    model.train(training)
    rows = []
    for line, prompt, last_line, reading in zip(backed, prompts, score_lines, readings, strict=True):
        before: list[int] = []
        if style == "reason-first":
            before = before_score_ids(tokenizer, reading.rationale or "", last_line, judge.settings.rationale_tokens)
        others = np.where(np.arange(1, 6) == line.level, -np.inf, reading.logits)
        rows.append(
            {
                "prompt_ids": prompt.input_ids + before,
                "chosen_ids": [label_ids[line.level - 1]],
                "rejected_ids": [label_ids[int(others.argmax())]],
            }
        )
    return Dataset.from_list(rows)


def preference_trainer(
    judge: JudgeArguments,
    model: ModelConfig,
    training: SFTConfig,
    tokenizer: PreTrainedTokenizerBase,
    data: TrainingData,
) -> PreferenceTrainer:
    """A trainer that continues from the adapter of the judge `start_from`, its reference, or from the base model.

    Raises:
        InputError: The base model cannot be loaded or has no chat template, an option needs what is not installed, or
            one of the files has no line that a preference can be made of.
    """
    require_chat_template(tokenizer)
    require_installed(training)
    for name, lines in (("train_file", data.train), ("validation_file", data.validation)):
        if all(line.source == "teacher" for line in lines):
            raise InputError(
                f"stage preference: {name} holds a teacher's levels only, and a preference must be a physician's; "
                "distil with physicians' scores"
            )
    if is_deepspeed_zero3_enabled():
        raise InputError("stage preference: the judge cannot be read under ZeRO-3 before it trains; use zero2.yaml")
    current = on_device(load_for_training(model, judge.start_folder), training)
    assert training.max_length
    keep_columns(training)
    train, validation = [
        preference_dataset(lines, current, tokenizer, training.max_length, judge.style, data.scheme)
        for lines in (data.train, data.validation)
    ]
    try:
        trainer = PreferenceTrainer(
            model=current,
            args=_as_dpo(training),
            train_dataset=train,
            eval_dataset=validation,
            processing_class=tokenizer,
            peft_config=None if judge.start_from else lora_config(model, "CAUSAL_LM"),
        )
    except ValueError as error:
        raise lora_refusal(error) from None
    trainer.style, trainer.validation_lines, trainer.scheme = judge.style, data.validation, data.scheme
    return trainer


def _as_dpo(training: SFTConfig) -> DPOConfig:
    """The options that both trainers have; those of DPO alone keep TRL's values (beta 0.1)."""
    ours = {field.name for field in fields(SFTConfig) if field.init}
    shared = [field.name for field in fields(DPOConfig) if field.init and field.name in ours]
    return DPOConfig(**{name: getattr(training, name) for name in shared if name not in ("loss_type", "padding_free")})
