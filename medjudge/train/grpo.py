"""Trains a score-first judge by GRPO: verdicts near the physicians' level are rewarded against the group's mean.

GRPO (Shao et al., arXiv 2402.03300) samples a group of replies to a prompt and raises the probability of those whose
reward lies above the group's mean. Here a reply is one of five tokens. The group is all five, each counted by its
probability: the mean gradient of sampled groups, without their noise.

It is not TRL's GRPOTrainer, for three reasons. That one would read a prompt of up to 10,240 tokens once to sample and
once again for every sampled token, where one pass gives all five probabilities. It samples from the whole vocabulary,
and the judge is read on five tokens only. And it tokenises prompts itself, where a judge cuts the answer to its window.

A step uses the judge as it is, so the ratio to an older one is 1 and never clipped. Rewards are not divided by the
group's standard deviation, which would make lines count most where the judge is sure already (Liu et al., arXiv
2503.20783; TRL's `scale_rewards: none`).
"""

from collections.abc import Sequence
from typing import Any

import torch
from datasets import Dataset
from torch.nn import functional
from transformers import PreTrainedTokenizerBase
from trl import ModelConfig, SFTConfig, SFTTrainer

from medjudge.judge.generative import score_token_ids
from medjudge.models.padding import pad_left
from medjudge.records import TrainingLine
from medjudge.scale import LEVELS, USABLE_FROM
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.train.arguments import JudgeArguments
from medjudge.train.features import TrainingData, line_assignment, prompts_of
from medjudge.train.generative import JudgedEvaluation, score_logits
from medjudge.train.lean_steps import LeanSteps
from medjudge.train.score_only import backed, judge_to_continue, score_trainer
from medjudge.train.weighted_steps import WeightedSteps

BETA = 0.04
"""What the divergence from the judge that training starts from costs, in units of reward (that of the paper)."""


def rewards(level: torch.Tensor) -> torch.Tensor:
    """What each verdict earns: minus its distance to the physician's level, and 1 for the right usable label.

    Args:
        level: The physician's, 1..5, shape (lines,), integers.

    Returns:
        From -4 to 1, shape (lines, 5), verdict 1 first.
    """
    verdict, right = torch.arange(1, LEVELS + 1, device=level.device), level[:, None]
    return ((verdict >= USABLE_FROM) == (right >= USABLE_FROM)).float() - (verdict - right).abs()


class GrpoTrainer(JudgedEvaluation, LeanSteps, WeightedSteps, SFTTrainer):
    """Trains on rows of `grpo_dataset`; the loss is minus the expected reward, plus the cost of divergence.

    Its gradient is that of GRPO: the group's mean is the same for all five verdicts, so it cancels out.
    """

    def compute_loss(
        self, model: Any, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Any:
        text = {name: inputs[name] for name in ("input_ids", "attention_mask", "position_ids")}
        label_ids = score_token_ids(self.processing_class)
        logits = model(**text, use_cache=False, logits_to_keep=1).logits[:, -1][:, label_ids]
        log_policy, weight = logits.float().log_softmax(dim=1), inputs["weight"]
        earned = (log_policy.exp() * rewards(inputs["labels"])).sum(dim=1)
        diverged = functional.kl_div(inputs["before"], log_policy, reduction="none", log_target=True).sum(dim=1)
        mode = "train" if self.model.training else "eval"
        for name, values in (("reward", earned), ("kl", diverged)):
            self._metrics[mode][name].append(float((values.detach() * weight).sum() / weight.sum()))
        loss = ((BETA * diverged - earned) * weight).sum() / weight.sum()
        return self.of_step(loss, weight, num_items_in_batch)


def collate_verdicts(rows: list[dict[str, Any]], pad_id: int) -> dict[str, torch.Tensor]:
    """Rows of `grpo_dataset` as tensors, padded on the left.

    Returns:
        `input_ids`, `attention_mask` and `position_ids`, each (rows, length); of each row the physician's level as
        `labels`, log probabilities `before` (rows, 5), and `weight`.
    """
    ids, mask = pad_left([row["prompt_ids"] for row in rows], pad_id, torch.device("cpu"))
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "position_ids": (mask.cumsum(dim=1) - 1).clamp_min(0),
        "labels": torch.tensor([row["level"] for row in rows]),
        "before": torch.tensor([row["before"] for row in rows], dtype=torch.float32),
        "weight": torch.tensor([row["weight"] for row in rows], dtype=torch.float32),
    }


def grpo_dataset(
    lines: Sequence[TrainingLine],
    model: Any,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    scheme: Scheme = LLMEVAL_MED,
) -> Dataset:
    """Columns `prompt_ids`, `level`, `weight`, and `before`: the judge's log probabilities of the five levels now.

    A teacher's lines are left out: the reward is a physician's, or true by construction.

    Args:
        model: The judge as it is now, on its device.
    """
    kept = backed(lines)
    before = torch.tensor(score_logits(model, tokenizer, kept, max_length, "score-first", scheme)).log_softmax(dim=1)
    prompts = prompts_of([line_assignment(line, scheme) for line in kept], tokenizer, max_length, "score-first")
    return Dataset.from_list(
        [
            {"prompt_ids": prompt.input_ids, "level": line.level, "weight": line.weight, "before": row}
            for line, prompt, row in zip(kept, prompts, before.tolist(), strict=True)
        ]
    )


def grpo_trainer(
    judge: JudgeArguments,
    model: ModelConfig,
    training: SFTConfig,
    tokenizer: PreTrainedTokenizerBase,
    data: TrainingData,
) -> GrpoTrainer:
    """A trainer that continues from the adapter of the judge `start_from`, or from the base model.

    Raises:
        InputError: The base model cannot be loaded, an option needs what is not installed, or
            one of the files has no physician's level.
    """
    current = judge_to_continue(judge, model, training, tokenizer, data)
    assert training.max_length
    train, validation = [
        grpo_dataset(lines, current, tokenizer, training.max_length, data.scheme)
        for lines in (data.train, data.validation)
    ]
    trainer = score_trainer(
        GrpoTrainer, current, (train, validation), collate_verdicts, judge, model, training, tokenizer
    )
    trainer.style, trainer.validation_lines, trainer.scheme = judge.style, data.validation, data.scheme
    return trainer
