"""Runs a judge folder on the workers of a Ray cluster."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from medjudge.judge.folder import JudgeCard, load_judge
from medjudge.judge.protocol import Assignment
from medjudge.models.hardware import choose_device
from medjudge.parallel.ray_pool import map_on_actors
from medjudge.records import Judgment
from medjudge.scheme import Scheme


@dataclass
class RayJudge:
    """Gives the same judgments as the judge in the folder, computed by many workers.

    Attributes:
        folder: The judge folder. Every worker must find it, and its base model, at the same absolute path.
        device: The workers' device: `auto`, `cpu` or `cuda`. What follows it is as for `load_judge`.
    """

    name: str
    folder: Path
    device: str
    rationale_tokens: int
    scheme: Scheme
    card: JudgeCard

    def judge(self, assignments: Sequence[Assignment]) -> Iterator[Judgment]:
        """As `Judge.judge`.

        Raises:
            UnfinishedError: A worker failed.
        """
        for judgments in map_on_actors(
            _load,
            (str(self.folder.resolve()), self.name, self.device, self.rationale_tokens, self.scheme, self.card),
            assignments,
            # The tokens that answers to one question share are computed once if one worker judges them all.
            key=lambda assignment: assignment.question.id,
            weight=lambda assignment: len(assignment.answer.text),
            device=self.device,
        ):
            yield from judgments


def _load(
    folder: str, name: str, device: str, rationale_tokens: int, scheme: Scheme, card: JudgeCard
) -> Callable[[list[Assignment]], list[Judgment]]:
    judge = load_judge(Path(folder), name, choose_device(device), rationale_tokens, scheme, card)
    return lambda work: list(judge.judge(work))
