"""Opens pages for raters, each with a personal link: on this machine, or on a network."""

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from medjudge.annotate.add_scores import scores_lock
from medjudge.annotate.adjudicate import adjudication_plan
from medjudge.annotate.plan import Plan, plan_file, rater_problem
from medjudge.annotate.tasks import AGREED, LEVELS, Task
from medjudge.errors import InputError
from medjudge.files import read_json, write_whole
from medjudge.store import Run
from medjudge.workflows.network import Network, Pages, listen, require_web_server


class RaterLink(NamedTuple):
    """A rater's own link, which carries the access token, and how many answers, or pairs, the rater has."""

    link: str
    answers: int


@dataclass(frozen=True)
class AnnotationPages(Pages):
    """The pages of some raters; `links` are by rater."""

    links: dict[str, RaterLink]
    run: Run
    plan: Plan
    task: Task

    def open_units(self) -> dict[str, int]:
        """The number of units that each rater has left."""
        progress = self.task.progress(self.run, [self.plan])
        return {rater: progress[rater].open for rater in self.links}


def open_pages(
    run: Run | Path | str,
    raters: Sequence[str] = (),
    *,
    task: Task = LEVELS,
    network: Network = Network(),
) -> AnnotationPages:
    """Opens the pages on which raters work through the run's plan.

    The links stay the same when the server starts again; their tokens are in `annotation/links.json`.

    Args:
        raters: Raters of the plan; all of them that have work unless given.
        task: What they do: score answers, compare pairs, or mark items. Under `AGREED` the only rater is a third
            physician, who records the agreed score where two others differ.

    Raises:
        InputError: There is no plan, a rater has nothing in it, FastAPI is not installed, the address cannot be used,
            or the certificate cannot be read.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    if task is AGREED and len(raters) != 1:
        raise InputError("--adjudicate: name one --rater, a physician who did not score the disputed answers")
    plan = adjudication_plan(run, raters[0]) if task is AGREED else task.read_plan(run)
    by_rater = plan.by_rater
    chosen = list(dict.fromkeys(raters)) or [rater for rater, items in by_rater.items() if items]
    for rater in chosen:
        if not by_rater.get(rater):
            raise InputError(
                f"--rater {rater}: no {task.work} in the plan of {run.path}; the raters are {', '.join(by_rater)}"
            )
    require_web_server(f"{task.command} serve", "annotate")
    from medjudge.annotate.access import Access
    from medjudge.annotate.serve import annotation_app

    listener = listen(network)
    with scores_lock(run):
        tokens = _kept_tokens(run, chosen)
    access = Access(
        {token: rater for rater, token in tokens.items()},
        listener.host_names,
        network.certificate is not None,
        listener.public_url,
    )
    app = annotation_app(run, plan, access, task)
    network.warn_unencrypted("Links, answers and scores", ", and score in the name of each rater")
    links = {
        rater: RaterLink(f"{listener.address}/?token={token}", len(set(by_rater[rater])))
        for rater, token in tokens.items()
    }
    return AnnotationPages(listener, app, links, run, plan, task)


def _kept_tokens(run: Run, raters: Sequence[str]) -> dict[str, str]:
    """The raters' tokens, which outlive the server: a physician keeps the link."""
    file = plan_file(run).with_name("links.json")
    if file.exists() and file.stat().st_mode & 0o077:
        file.chmod(0o600)  # a copy of the run may have lost it
    known = read_json(file, "remove it for new links") if file.exists() else {}
    if not isinstance(known, dict) or not all(
        isinstance(token, str) and len(token) >= 32 and rater_problem(rater) is None for rater, token in known.items()
    ):
        raise InputError(f"{file}: not the links of raters; remove it for new links")
    tokens = {rater: known.get(rater) or secrets.token_urlsafe(24) for rater in raters}
    if tokens.items() - known.items():
        write_whole(file, json.dumps({**known, **tokens}, ensure_ascii=False, indent=2) + "\n")
    return tokens
