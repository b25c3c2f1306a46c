"""The trainer of both kinds of judges: losses weighted over a whole step, evaluations that are kept."""

from typing import Any

import torch
from transformers import Trainer
from transformers.trainer_utils import EvalLoopOutput


class JudgeTrainer(Trainer):
    """A Trainer whose step is the mean over its lines by their weights, and which keeps what evaluations predicted.

    `compute_loss` gets the weight of all lines of a step as `num_items_in_batch`. Two processes then give the gradient,
    and the loss, of one with double batch; so do two steps of accumulation. A batch needs an entry `weight`, shape
    (lines,).

    Attributes:
        evaluations: What each evaluation predicted, by step, so that the checkpoint that becomes the judge is not read
            again.
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
