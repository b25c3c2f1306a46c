"""Serves the pages on which physicians mark items, to browsers of this machine."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medjudge.annotate.item_plan import read_item_plan
from medjudge.errors import InputError
from medjudge.store import Run
from medjudge.workflows.network import Listener, Network, listen, web_server_needed
from medjudge.workflows.serve_scoring import RaterLink

if TYPE_CHECKING:
    from fastapi import FastAPI


@dataclass(frozen=True)
class ItemPages:
    """The pages of some raters, listening; `serve` runs them until Ctrl-C."""

    links: dict[str, RaterLink]
    _listener: Listener
    _app: "FastAPI"

    def serve(self) -> None:
        """Serves the pages until Ctrl-C."""
        self._listener.serve(self._app)


def open_item_pages(run: Run | Path | str, raters: Sequence[str] = (), port: int = 0) -> ItemPages:
    """Opens the pages on which raters mark the items of the run's plan.

    Args:
        raters: Raters of the plan; all of them unless given.
        port: 0 for a free one.

    Raises:
        InputError: There is no plan, a rater has no answers in it, FastAPI is not installed, or the port is taken.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    plan = read_item_plan(run)
    chosen = list(dict.fromkeys(raters)) or [rater for rater, items in plan.by_rater.items() if items]
    for rater in chosen:
        if not plan.by_rater.get(rater):
            raise InputError(
                f"--rater {rater}: no answers in the item plan of {run.path}; the raters are {', '.join(plan.by_rater)}"
            )
    with web_server_needed("annotate items serve", "annotate"):
        from medjudge.annotate.access import Access
        from medjudge.annotate.item_serve import item_app
    listener = listen(Network(port=port))
    tokens = {rater: secrets.token_urlsafe(24) for rater in chosen}
    app = item_app(run, plan, Access({token: rater for rater, token in tokens.items()}, listener.host_names))
    links = {
        rater: RaterLink(f"{listener.address}/?token={token}", len(plan.by_rater[rater]))
        for rater, token in tokens.items()
    }
    return ItemPages(links, listener, app)
