"""The trainer of both kinds of judges, losses weighted over a whole step, and the losses."""

from typing import Any

import torch
from torch.nn import functional
from transformers import Trainer
from transformers.trainer_utils import EvalLoopOutput


class JudgeTrainer(Trainer):
    """A Trainer whose step is the mean over its lines by their weights, and which keeps what evaluations predicted.

    `compute_loss` gets the weight of all lines of a step as `num_items_in_batch`. Two processes then give the gradient,
    and the loss, of one with double batch; so do two steps of accumulation. A batch needs an entry `weight`, shape
    (lines,). `evaluations` has them by step, so that the checkpoint that becomes the judge is not read again.
    """

    loss_is_scaled_for_ga = True  # by the weights of the step

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.evaluations: dict[int, EvalLoopOutput] = {}
        super().__init__(*arguments, **options)

    def evaluation_loop(self, *arguments: Any, **options: Any) -> EvalLoopOutput:
        options["prediction_loss_only"] = self.compute_metrics is None
        output = super().evaluation_loop(*arguments, **options)
        self.evaluations[self.state.global_step] = output
        return output

    def _run_epoch(self, *arguments: Any, **options: Any) -> None:
        # A run that resumes from its last step, within an epoch, has no step left; the Trainer would take one more.
        if self.state.global_step < self.state.max_steps:
            super()._run_epoch(*arguments, **options)

    def get_batch_samples(self, *arguments: Any, **options: Any) -> Any:
        batches, _ = super().get_batch_samples(*arguments, **options)
        if not batches:
            return batches, None
        weight = torch.stack([batch["weight"].sum() for batch in batches]).sum().to(self.args.device)
        return batches, self.accelerator.gather(weight).sum()

    def of_step(self, loss: torch.Tensor, weight: torch.Tensor, step_weight: torch.Tensor | None) -> torch.Tensor:
        """A batch's share in the loss of its step.

        Args:
            loss: The mean over the batch by the weights.
            weight: Of the batch's lines, shape (lines,).
            step_weight: Of all lines of the step; None in evaluation, where the loss stays as it is.
        """
        if step_weight is None:
            return loss
        # Gradients, and the logged loss, are averaged over the processes.
        return loss * (weight.sum() / step_weight * self.accelerator.num_processes)


def cumulative_loss(cumulative: torch.Tensor, target: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Binary cross-entropy of each of the four questions "is the level above k?" (Cao, Mirjalili and Raschka, 2020).

    Confusing 1 with 5 costs four questions, confusing 4 with 5 one, which is what an ordinal scale means.

    Args:
        cumulative: Logits of level > 1, > 2, > 3, > 4, shape (batch, 4).
        target: Soft labels, level 1 first, shape (batch, 5), rows adding up to 1.
        weight: Of the answers in the mean, shape (batch,), positive.
    """
    above = target.flip(1).cumsum(1).flip(1)[:, 1:]
    each = functional.binary_cross_entropy_with_logits(cumulative, above.to(cumulative.dtype), reduction="none").sum(1)
    return (each * weight).sum() / weight.sum()


def verdict_loss(logits: torch.Tensor, target: torch.Tensor, row: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the verdicts on points: the mean over an answer's labelled points, then over the answers.

    Args:
        logits: Of met, open and contradicted, shape (points, 3).
        target: Soft labels, shape (points, 3); all 0 for a point without a label.
        row: The answer of each point, shape (points,); one without a labelled point counts as 0.
        weight: Of the answers in the mean, shape (batch,), positive.
    """
    target = target.to(logits.dtype)
    none = logits.new_zeros(len(weight))
    total = none.index_add(0, row, -(target * functional.log_softmax(logits, dim=1)).sum(dim=1))
    labelled = none.index_add(0, row, target.sum(dim=1))
    return (total / labelled.clamp_min(1) * weight).sum() / weight.sum()


def language_loss(logits: torch.Tensor, token: torch.Tensor, line: torch.Tensor, lines: int) -> torch.Tensor:
    """The mean negative log likelihood of each line's own words: a long rationale does not outweigh a short one.

    Args:
        logits: Next-token logits, shape (tokens, vocabulary).
        token: The token that follows, shape (tokens,).
        line: The line that each token belongs to, 0..lines-1, shape (tokens,).
        lines: The number of lines.

    Returns:
        Shape (lines,), nats; 0 for a line without tokens.
    """
    each = functional.cross_entropy(logits.float(), token, reduction="none")
    total = torch.zeros(lines, device=each.device).index_add(0, line, each)
    return total / torch.bincount(line, minlength=lines).clamp_min(1)


def score_loss(levels: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Cross-entropy of the soft label with the probabilities that the five score tokens have in the whole vocabulary.

    It is the cross-entropy within the five levels plus the negative log probability of saying any level at all.

    Args:
        levels: Log probabilities of the five score tokens in the whole vocabulary, level 1 first, shape (lines, 5).
        target: Soft labels, shape (lines, 5), rows adding up to 1.

    Returns:
        Shape (lines,), nats.
    """
    return -(target * levels).sum(dim=1)


def regression_loss(logits: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """Squared error of the expected level, sum over k of k p(k) (regression-aware, TRACT, arXiv 2503.04381).

    p is the distribution within the five levels, as the judge reads it, and the target the mean of the soft label. Its
    gradient is most of an untuned model's, which is clipped: `configs/judges/gemma3-270m-lora.yaml` gives it a tenth.

    Args:
        logits: Of the five score tokens, or their log probabilities, level 1 first, shape (lines, 5).
        target: Soft labels, shape (lines, 5), rows adding up to 1.

    Returns:
        Shape (lines,), squared levels, 0 to 16.
    """
    levels = torch.arange(1, 6, dtype=torch.float32, device=logits.device)
    return (logits.float().softmax(dim=1) @ levels - target @ levels).square()
