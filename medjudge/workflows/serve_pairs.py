"""Serves the pages on which physicians compare pairs: to this machine, or to the physicians of a network."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from medjudge.annotate.pair_plan import read_pair_plan
from medjudge.store import Run
from medjudge.workflows.annotation_pages import AnnotationPages, open_pages
from medjudge.workflows.network import Network

if TYPE_CHECKING:
    from fastapi import FastAPI

    from medjudge.annotate.access import Access


def open_pair_pages(
    run: Run | Path | str, raters: Sequence[str] = (), *, network: Network = Network()
) -> AnnotationPages:
    """Opens the pages on which raters compare the pairs of the run's plan.

    Args:
        raters: Raters of the plan; all of them unless given.

    Raises:
        InputError: There is no plan, a rater has no pairs in it, FastAPI is not installed, the address cannot be used,
            or the certificate cannot be read.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    plan = read_pair_plan(run)

    def app_of(access: "Access") -> "FastAPI":
        from medjudge.annotate.pair_serve import pair_app  # needs FastAPI, an extra

        return pair_app(run, plan, access)

    return open_pages(
        run, plan.by_rater, raters, network, app_of, command="annotate pairs serve", what="pairs in the plan"
    )
