"""Serves the scoring pages: to this machine, or to the physicians of a network."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from medjudge.annotate.adjudicate import adjudication_plan
from medjudge.annotate.plan import Plan, plan_file, rater_problem, read_plan
from medjudge.annotate.progress import progress_by_rater
from medjudge.errors import InputError
from medjudge.files import read_json, write_whole
from medjudge.store import Run
from medjudge.workflows.network import Listener, Network, listen, web_server_needed

if TYPE_CHECKING:
    from fastapi import FastAPI


class RaterLink(NamedTuple):
    """A rater's own link, which carries the access token, and how many answers the rater has to score."""

    link: str
    answers: int


@dataclass(frozen=True)
class ScoringPages:
    """The scoring pages of some raters, listening; `serve` runs them.

    Attributes:
        links: By rater.
        adjudicates: Whether agreed scores are recorded.
    """

    run: Run
    plan: Plan
    links: dict[str, RaterLink]
    adjudicates: bool
    listener: Listener
    _app: "FastAPI"

    def serve(self) -> None:
        """Serves the pages until Ctrl-C."""
        self.listener.serve(self._app)

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
    chosen = list(dict.fromkeys(raters)) or [rater for rater, items in plan.by_rater.items() if items]
    for rater in chosen:
        if not plan.by_rater.get(rater):
            raise InputError(
                f"--rater {rater}: no answers in the plan of {run.path}; the raters are {', '.join(plan.by_rater)}"
            )
    with web_server_needed("annotate serve", "annotate"):
        from medjudge.annotate.access import Access
        from medjudge.annotate.serve import scoring_app
    listener = listen(network)
    tokens = _fresh_tokens(chosen) if network.for_this_machine else _kept_tokens(run, chosen)
    access = Access(
        {token: rater for rater, token in tokens.items()},
        listener.host_names,
        network.certificate is not None,
        listener.public_url,
        for_others=not network.for_this_machine,
    )
    app = scoring_app(run, plan, access, adjudicate)
    network.warn_unencrypted("Links, answers and scores", ", and score in the name of each rater")
    links = {
        rater: RaterLink(f"{listener.address}/?token={token}", len(set(plan.by_rater[rater])))
        for rater, token in tokens.items()
    }
    return ScoringPages(run, plan, links, adjudicate, listener, app)


def _fresh_tokens(raters: Sequence[str]) -> dict[str, str]:
    return {rater: secrets.token_urlsafe(24) for rater in raters}


def _kept_tokens(run: Run, raters: Sequence[str]) -> dict[str, str]:
    """The raters' tokens, which outlive the server: a physician keeps the link."""
    file = plan_file(run).with_name("links.json")
    known = read_json(file, "remove it for new links") if file.exists() else {}
    if not isinstance(known, dict) or not all(
        isinstance(token, str) and len(token) >= 32 and rater_problem(rater) is None for rater, token in known.items()
    ):
        raise InputError(f"{file}: not the links of raters; remove it for new links")
    tokens = {rater: known.get(rater) or secrets.token_urlsafe(24) for rater in raters}
    if tokens.items() - known.items():
        write_whole(file, json.dumps({**known, **tokens}, ensure_ascii=False, indent=2) + "\n")
    return tokens
