"""Opens pages for raters, each with a personal link: on this machine, or on a network."""

import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from medjudge.annotate.plan import plan_file, rater_problem
from medjudge.errors import InputError
from medjudge.files import read_json, write_whole
from medjudge.store import Run
from medjudge.workflows.network import Listener, Network, listen, web_server_needed

if TYPE_CHECKING:
    from fastapi import FastAPI

    from medjudge.annotate.access import Access


class RaterLink(NamedTuple):
    """A rater's own link, which carries the access token, and how many answers, or pairs, the rater has."""

    link: str
    answers: int


@dataclass(frozen=True)
class AnnotationPages:
    """The pages of some raters, listening; `links` are by rater."""

    links: dict[str, RaterLink]
    listener: Listener
    _app: "FastAPI"

    def serve(self) -> None:
        """Serves the pages until Ctrl-C."""
        self.listener.serve(self._app)


def open_pages(
    run: Run,
    by_rater: Mapping[str, Sequence[str]],
    raters: Sequence[str],
    network: Network,
    app_of: "Callable[[Access], FastAPI]",
    *,
    command: str,
    what: str,
) -> AnnotationPages:
    """Opens the pages of raters. Beyond this machine their links are those of `annotation/links.json`, and stay.

    Args:
        by_rater: The plan: a rater's answers, or pairs.
        raters: Raters of the plan; all of them that have work unless given.
        app_of: Builds the pages of whoever has access.
        command: The command that opens them, for messages.
        what: What raters have in the plan, such as "pairs in the plan".

    Raises:
        InputError: A rater has nothing in the plan, FastAPI is not installed, the address cannot be used, or the
            certificate cannot be read.
    """
    chosen = list(dict.fromkeys(raters)) or [rater for rater, items in by_rater.items() if items]
    for rater in chosen:
        if not by_rater.get(rater):
            raise InputError(f"--rater {rater}: no {what} of {run.path}; the raters are {', '.join(by_rater)}")
    with web_server_needed(command, "annotate"):
        from medjudge.annotate.access import Access
    listener = listen(network)
    tokens = _fresh_tokens(chosen) if network.for_this_machine else _kept_tokens(run, chosen)
    access = Access(
        {token: rater for rater, token in tokens.items()},
        listener.host_names,
        network.certificate is not None,
        listener.public_url,
        for_others=not network.for_this_machine,
    )
    with web_server_needed(command, "annotate"):
        app = app_of(access)
    network.warn_unencrypted("Links, answers and scores", ", and score in the name of each rater")
    links = {
        rater: RaterLink(f"{listener.address}/?token={token}", len(set(by_rater[rater])))
        for rater, token in tokens.items()
    }
    return AnnotationPages(links, listener, app)


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
