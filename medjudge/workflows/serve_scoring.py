"""Serves the scoring pages: to this machine, or to the physicians of a network."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medjudge.annotate.adjudicate import adjudication_plan
from medjudge.annotate.plan import Plan, read_plan
from medjudge.annotate.progress import progress_by_rater
from medjudge.errors import InputError
from medjudge.store import Run
from medjudge.workflows.annotation_pages import AnnotationPages, open_pages
from medjudge.workflows.network import Network

if TYPE_CHECKING:
    from fastapi import FastAPI

    from medjudge.annotate.access import Access


@dataclass(frozen=True)
class ScoringPages(AnnotationPages):
    """The scoring pages of some raters; `adjudicates` where agreed scores are recorded."""

    run: Run
    plan: Plan
    adjudicates: bool

    def open_answers(self) -> dict[str, int]:
        """How many answers each rater still has to score."""
        if self.adjudicates:
            return {
                rater: link.answers - sum(score.rater == rater for score in self.run.adjudicated())
                for rater, link in self.links.items()
            }
        progress = progress_by_rater(self.run, [self.plan])
        return {rater: progress[rater].open for rater in self.links}


def open_scoring_pages(
    run: Run | Path | str, raters: Sequence[str] = (), *, network: Network = Network(), adjudicate: bool = False
) -> ScoringPages:
    """Opens the pages on which raters score the answers of the run's plan.

    Beyond this machine the links stay the same when the server starts again; they are in `annotation/links.json`.

    Args:
        raters: Raters of the plan; all of them unless given.
        adjudicate: The only rater is a third physician, who records the agreed score where two others differ.

    Raises:
        InputError: A rater has no answers in the plan, FastAPI is not installed, the address cannot be used, or the
            certificate cannot be read.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    if adjudicate and len(raters) != 1:
        raise InputError("--adjudicate: name one --rater, a physician who did not score the disputed answers")
    plan = adjudication_plan(run, raters[0]) if adjudicate else read_plan(run)

    def app_of(access: "Access") -> "FastAPI":
        from medjudge.annotate.serve import scoring_app  # needs FastAPI, an extra

        return scoring_app(run, plan, access, adjudicate)

    pages = open_pages(
        run, plan.by_rater, raters, network, app_of, command="annotate serve", what="answers in the plan"
    )
    return ScoringPages(pages.links, pages.listener, pages._app, run, plan, adjudicate)
