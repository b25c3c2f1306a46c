"""Trains a generative judge by preference (DPO): a level over the likeliest other one, an answer over another."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from torch.nn import functional
from transformers import PreTrainedTokenizerBase
from trl import ModelConfig, SFTConfig, SFTTrainer

from medjudge.judge.generative import (
    GenerativeJudge,
    GenerativeSettings,
    before_score_ids,
    score_line,
    score_token_ids,
)
from medjudge.judge.generative_pairs import GenerativePairJudge
from medjudge.models.padding import pad_left
from medjudge.records import TrainingLine
from medjudge.rubrics.render import Style
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.train.arguments import JudgeArguments
from medjudge.train.features import TrainingData, line_assignment, prompts_of
from medjudge.train.generative import JudgedEvaluation, readable
from medjudge.train.lean_steps import LeanSteps
from medjudge.train.pairs import EncodedPair
from medjudge.train.score_only import backed, judge_to_continue, score_trainer
from medjudge.train.weighted_steps import WeightedSteps

BETA = 0.1
"""How strongly the judge is held to the one that it starts from."""


class PreferenceTrainer(JudgedEvaluation, LeanSteps, WeightedSteps, SFTTrainer):
    """Trains on rows of `level_rows` and `pair_rows` with the loss of DPO (Rafailov et al., arXiv 2305.18290).

    Both replies are one token after the same prompt, so one pass gives the logits of both, and the constant that makes
    them probabilities cancels out. The margin of the judge that training starts from is read once, with the data.
    """

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        text = {name: inputs[name] for name in ("input_ids", "attention_mask", "position_ids")}
        logits = model(**text, use_cache=False, logits_to_keep=1).logits[:, -1].float()
        chosen, rejected = [logits.gather(1, inputs[name][:, None])[:, 0] for name in ("labels", "rejected")]
        gained = chosen - rejected - inputs["margin"]
        loss = -functional.logsigmoid(BETA * gained).mean()
        mode = "train" if self.model.training else "eval"
        self._metrics[mode]["rewards/margins"].append(float(BETA * gained.detach().mean()))
        self._metrics[mode]["rewards/accuracies"].append(float((gained.detach() > 0).float().mean()))
        return self.of_step(loss, inputs["weight"], num_items_in_batch)


def collate_pairs(rows: list[dict[str, Any]], pad_id: int) -> dict[str, torch.Tensor]:
    """Rows of `level_rows` and `pair_rows` as tensors, padded on the left.

    Returns:
        `input_ids`, `attention_mask` and `position_ids`, each (rows, length); of each row the tokens `labels` (chosen)
        and `rejected`, the `margin` of the reference, and `weight`.
    """
    ids, mask = pad_left([row["prompt_ids"] for row in rows], pad_id, torch.device("cpu"))
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": (mask.cumsum(dim=1) - 1).clamp_min(0),
        "labels": torch.tensor([row["chosen_ids"][0] for row in rows]),
        "rejected": torch.tensor([row["rejected_ids"][0] for row in rows]),
        "margin": torch.tensor([row["margin"] for row in rows], dtype=torch.float32),
        "weight": torch.ones(len(rows)),
    }


def level_rows(
    lines: Sequence[TrainingLine],
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    style: Style,
    scheme: Scheme = LLMEVAL_MED,
) -> list[dict[str, Any]]:
    """Rows with `prompt_ids`, `chosen_ids`, `rejected_ids` (two scores after the same text), and `margin` between them.

    Chosen is the line's level. Rejected is, of the other levels, the one that the judge finds likeliest: its
    mistake where it is wrong, its most likely mistake where it is right. A reason-first judge writes
    its own rationale before both, so that only the verdict is compared. Lines of source `teacher` are left out: a
    preference is a person's, or true by construction. The weights of lines are not used.

    Args:
        model: The judge as it is now.
    """
    kept = backed(lines)
    label_ids = score_token_ids(tokenizer)
    judge = GenerativeJudge("current", readable(model), tokenizer, GenerativeSettings(max_length, style=style))
    work = [line_assignment(line, scheme) for line in kept]
    prompts = prompts_of(work, tokenizer, max_length, style)
    score_lines = [score_line(assignment) for assignment in work]
    with evaluating(model):
        readings = judge.read(prompts, score_lines)
    rows = []
    for line, prompt, last_line, reading in zip(kept, prompts, score_lines, readings, strict=True):
        before: list[int] = []
        if style == "reason-first":
            before = before_score_ids(tokenizer, reading.rationale or "", last_line, judge.settings.rationale_tokens)
        others = np.where(np.arange(1, 6) == line.level, -np.inf, reading.logits)
        rival = int(others.argmax())
        rows.append(
            {
                "prompt_ids": prompt.input_ids + before,
                "chosen_ids": [label_ids[line.level - 1]],
                "rejected_ids": [label_ids[rival]],
                "margin": float(reading.logits[line.level - 1] - reading.logits[rival]),
            }
        )
    return rows


def pair_rows(
    pairs: Sequence[EncodedPair], model: Any, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> list[dict[str, Any]]:
    """The rows of pairs, with the columns of `level_rows`.

    Chosen is the letter of the better answer. Rejected is the one that the judge finds likelier of the other answer's
    letter and that of a tie. A pair has a row for each order, so the position earns nothing.
    """
    current = GenerativeJudge("current", readable(model), tokenizer, GenerativeSettings(max_length))
    judge = GenerativePairJudge(current)
    with evaluating(model):
        readings = dict(judge.read([pair.input_ids for pair in pairs]))
    rows = []
    for place, pair in enumerate(pairs):
        logits, chosen = readings[place], 0 if pair.chosen_first else 2
        others = np.where(np.arange(3) == chosen, -np.inf, logits)
        rival = int(others.argmax())
        rows.append(
            {
                "prompt_ids": pair.input_ids,
                "chosen_ids": [judge.label_ids[chosen]],
                "rejected_ids": [judge.label_ids[rival]],
                "margin": float(logits[chosen] - logits[rival]),
            }
        )
    return rows


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """Without dropout for as long as it is open."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def preference_trainer(
    judge: JudgeArguments,
    model: ModelConfig,
    training: SFTConfig,
    tokenizer: PreTrainedTokenizerBase,
    data: TrainingData,
) -> PreferenceTrainer:
    """A trainer that continues from the adapter of the judge `start_from`, its reference, or from the base model.

    Raises:
        InputError: The base model cannot be loaded, an option needs what is not installed, or
            one of the files has no line, and no pair comes with it, that a preference can be made of.
    """
    current = judge_to_continue(judge, model, training, tokenizer, data)
    assert training.max_length
    train, validation = [
        Dataset.from_list(
            level_rows(lines, current, tokenizer, training.max_length, judge.style, data.scheme)
            + pair_rows(pairs, current, tokenizer, training.max_length)
        )
        for lines, pairs in zip((data.train, data.validation), data.encoded_pairs, strict=True)
    ]
    trainer = score_trainer(
        PreferenceTrainer, current, (train, validation), collate_pairs, judge, model, training, tokenizer
    )
    trainer.style, trainer.validation_lines, trainer.scheme = judge.style, data.validation, data.scheme
    return trainer
