"""Serves the pages on which physicians compare pairs, to browsers of this machine."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from medjudge.annotate.pair_plan import read_pair_plan
from medjudge.errors import InputError
from medjudge.store import Run
from medjudge.workflows.network import Listener, Network, listen, web_server_needed
from medjudge.workflows.serve_scoring import RaterLink

if TYPE_CHECKING:
    from fastapi import FastAPI


@dataclass(frozen=True)
class PairPages:
    """The pages of some raters, listening; `serve` runs them until Ctrl-C."""

    links: dict[str, RaterLink]
    _listener: Listener
    _app: "FastAPI"

    def serve(self) -> None:
        """Serves the pages until Ctrl-C."""
        self._listener.serve(self._app)


def open_pair_pages(run: Run | Path | str, raters: Sequence[str] = (), port: int = 0) -> PairPages:
    """Opens the pages on which raters compare the pairs of the run's plan.

    Args:
        raters: Raters of the plan; all of them unless given.
        port: 0 for a free one.

    Raises:
        InputError: There is no plan, a rater has no pairs in it, FastAPI is not installed, or the port is taken.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    plan = read_pair_plan(run)
    chosen = list(dict.fromkeys(raters)) or [rater for rater, items in plan.by_rater.items() if items]
    for rater in chosen:
        if not plan.by_rater.get(rater):
            raise InputError(
                f"--rater {rater}: no pairs in the plan of {run.path}; the raters are {', '.join(plan.by_rater)}"
            )
    with web_server_needed("annotate pairs serve", "annotate"):
        from medjudge.annotate.access import Access
        from medjudge.annotate.pair_serve import pair_app
    listener = listen(Network(port=port))
    tokens = {rater: secrets.token_urlsafe(24) for rater in chosen}
    app = pair_app(run, plan, Access({token: rater for rater, token in tokens.items()}, listener.host_names))
    links = {
        rater: RaterLink(f"{listener.address}/?token={token}", len(plan.by_rater[rater]))
        for rater, token in tokens.items()
    }
    return PairPages(links, listener, app)
