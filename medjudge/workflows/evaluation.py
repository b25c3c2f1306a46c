"""The result of `medjudge eval`: a run folder after its answers were judged."""

from dataclasses import dataclass
from typing import Any

from medjudge.judge.panel import PanelRecord
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
        panel: What each member of a panel did.
        items: The scores by items, where the judge checked them.
        first_process: False in the other processes of `accelerate launch`, which report nothing.
    """

    run: Run
    judge: str
    scores: Scores
    notes: tuple[str, ...] = ()
    spent_usd: float | None = None
    deferred: Deferred | None = None
    panel: PanelRecord | None = None
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
        behind = sum(member.waiting for member in self.panel.members) if self.panel else 0
        not_answered = (rates.overall.not_answered for rates in self.rates.values())
        without_verdicts = self.items.answers - self.items.judged if self.items else 0
        return not any([self.scores.coverage.unscored, behind, without_verdicts, *not_answered])

    def __repr__(self) -> str:
        lines = [f"Usability rates by judge {self.judge}, percent ({self.status_line})"]
        lines += [f"  {model}: {self._cell(rates.overall)}" for model, rates in self.rates.items()]
        return "\n".join([*lines, *self.notes])

    def _repr_html_(self) -> str:
        """The table of a notebook: a row per model, a column per category."""
        from html import escape

        columns = list(dict.fromkeys(name for rates in self.rates.values() for name in rates.parts))
        head = "".join(f"<th>{escape(column)}</th>" for column in ("Model", *columns))
        rows = "".join(
            f"<tr><td>{escape(model)}</td>"
            + "".join(f"<td>{self._cell(rates.parts.get(column))}</td>" for column in columns)
            + "</tr>"
            for model, rates in self.rates.items()
        )
        notes = "".join(f"<p>{escape(note)}</p>" for note in self.notes)
        caption = f"Usability rates by judge {escape(self.judge)}, percent (95 % interval); {escape(self.status_line)}"
        return f"<table><caption>{caption}</caption><tr>{head}</tr>{rows}</table>{notes}"

    @staticmethod
    def _cell(rate: Rate | None) -> str:
        if rate is None or rate.rate is None:
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
