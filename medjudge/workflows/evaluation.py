"""The result of `medjudge eval`: a run folder after its answers were judged."""

from dataclasses import dataclass
from typing import Any

from medjudge.store import Run
from medjudge.validation.items import ItemStudy
from medjudge.validation.usability import ModelUsability, Rate
from medjudge.workflows.physician_scores import Deferred
from medjudge.workflows.report import Scores


@dataclass(frozen=True)
class Evaluation:
    """A run folder after its answers were judged.

    Attributes:
        run: The run folder.
        judge: The judge's name.
        scores: Rates, validation status and coverage: what `scores.json` holds.
        notes: What the run says about its data.
        spent_usd: What requests to servers cost in total; None where none was sent or a price is unknown.
        deferred: The answers listed for physicians, if any.
        items: The scores by items, where the judge checked them.
        first_process: False in the other processes of `accelerate launch`, which report nothing.
    """

    run: Run
    judge: str
    scores: Scores
    notes: tuple[str, ...] = ()
    spent_usd: float | None = None
    deferred: Deferred | None = None
    items: ItemStudy | None = None
    first_process: bool = True

    @property
    def rates(self) -> dict[str, ModelUsability]:
        """Usability rates by model."""
        return self.scores.models

    @property
    def status_line(self) -> str:
        """The trust that the judge's scores deserve, in one sentence."""
        return self.scores.validation_status["OP"].line

    @property
    def complete(self) -> bool:
        """True if every answer has a score, every model answered every question, and every member of a panel judged.

        With items, also whether every answer to a question with items has verdicts on them.
        """
        panel = self.scores.panel
        behind = sum(member.waiting for member in panel.members) if panel else 0
        not_answered = (rates.overall.not_answered for rates in self.rates.values())
        without_verdicts = self.items.answers - self.items.judged if self.items else 0
        return not any([self.scores.coverage.unscored, behind, without_verdicts, *not_answered])

    def __repr__(self) -> str:
        lines = [f"Usability rates by judge {self.judge}, percent ({self.status_line})"]
        lines += [f"  {model}: {_cell(rates.overall)}" for model, rates in self.rates.items()]
        return "\n".join([*lines, *self.notes])


def _cell(rate: Rate) -> str:
    if rate.rate is None:
        return "-"
    if rate.mostly_unanswered:
        return f"{rate.usable} of {rate.answered} answered"
    return f"{rate.rate:.1f}" if rate.low is None else f"{rate.rate:.1f} ({rate.low:.0f}–{rate.high:.0f})"


@dataclass(frozen=True)
class InFlight:
    """A run whose judgments OpenAI's Batch API is still making; the same call collects them later.

    Attributes:
        run: The run folder.
        batch_jobs: A line for each batch job.
    """

    run: Run
    batch_jobs: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """The object that `eval --batch --json` prints."""
        return {"run": str(self.run.path), "under_way": list(self.batch_jobs)}
