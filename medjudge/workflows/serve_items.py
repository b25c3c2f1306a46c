"""Serves the pages on which physicians mark items: to this machine, or to the physicians of a network."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medjudge.annotate.item_plan import read_item_plan
from medjudge.store import Run
from medjudge.workflows.annotation_pages import AnnotationPages, open_pages
from medjudge.workflows.network import Network

if TYPE_CHECKING:
    from fastapi import FastAPI

    from medjudge.annotate.access import Access


def open_item_pages(
    run: Run | Path | str, raters: Sequence[str] = (), *, network: Network = Network()
) -> AnnotationPages:
    """Opens the pages on which raters mark the items of the run's plan.

    Args:
        raters: Raters of the plan; all of them unless given.

    Raises:
        InputError: There is no plan, a rater has no answers in it, FastAPI is not installed, the address cannot be
            used, or the certificate cannot be read.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    plan = read_item_plan(run)

    def app_of(access: "Access") -> "FastAPI":
        from medjudge.annotate.item_serve import item_app  # needs FastAPI, an extra

        return item_app(run, plan, access)

    return open_pages(
        run, plan.by_rater, raters, network, app_of, command="annotate items serve", what="answers in the item plan"
    )
