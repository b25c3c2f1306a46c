"""What the evaluations of a run predicted, so that the checkpoint that becomes the judge is not read again."""

from typing import Any

from transformers import Trainer
from transformers.trainer_utils import EvalLoopOutput


class KeptEvaluations(Trainer):
    """A Trainer that keeps what each evaluation predicted, by step."""

    def __init__(self, *arguments: Any, **options: Any) -> None:
        self.evaluations: dict[int, EvalLoopOutput] = {}
        super().__init__(*arguments, **options)

    def evaluation_loop(self, *arguments: Any, **options: Any) -> EvalLoopOutput:
        options["prediction_loss_only"] = self.compute_metrics is None
        output = self.judged(super().evaluation_loop(*arguments, **options))
        self.evaluations[self.state.global_step] = output
        return output

    def judged(self, output: EvalLoopOutput) -> EvalLoopOutput:
        """The evaluation, with what the judge reads of the validation lines where the loss has not read it."""
        return output
