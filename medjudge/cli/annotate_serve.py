"""`medjudge annotate serve`: the pages on which physicians score answers."""

from __future__ import annotations

import sys
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from medjudge.cli import options
from medjudge.errors import notify

if TYPE_CHECKING:
    from medjudge.workflows.annotation_pages import AnnotationPages
    from medjudge.workflows.network import Network

Port = Annotated[
    Optional[int],
    typer.Option(
        metavar="N",
        min=0,
        max=65535,
        help="0 uses a free port. Default: 8443; where only this machine can connect, a free one if that is taken.",
    ),
]
OpenPage = Annotated[bool, typer.Option("--open/--no-open", help="Open the page of a single rater in the browser.")]


def network_of(
    host: str, port: int | None, certificate: Path | None, key: Path | None, public_url: str | None
) -> Network:
    """The address of the pages; their links need a port that stays."""
    from medjudge.workflows.network import Network

    network = Network(host, 8443 if port is None else port, certificate, key, public_url)
    return network._replace(or_free=port is None and network.for_this_machine)


def serve_links(pages: AnnotationPages, open_page: bool, as_json: bool) -> None:
    """Prints the raters' links, serves the pages until Ctrl-C, and says what is left to do."""
    import webbrowser

    from medjudge.cli.output import print_json

    task, what = pages.task, pages.task.work
    single = next(iter(pages.links.items())) if len(pages.links) == 1 else None
    if as_json:
        each = {name: {"link": link, what: count} for name, (link, count) in pages.links.items()}
        one = {"link": single[1].link, "rater": single[0], what: single[1].answers} if single else {}
        print_json({**one, "links": each})
    else:
        for name, (link, count) in pages.links.items():
            print(f"{name}, {count} {what}: {link}")
        print(f"Every {task.verdict} is saved at once. Press Ctrl-C to stop.")
    sys.stdout.flush()
    if open_page and single and pages.listener.network.for_this_machine:
        webbrowser.open(single[1].link)  # the socket is listening, so the browser waits for the server
    pages.serve()
    left, run = pages.open_units(), pages.run.path
    advice = f"next: medjudge {task.checked_by} {quote(str(run))} --judge JUDGE"
    if any(left.values()):
        advice = "run the same command to continue"
    counts = "; ".join(
        f"{name}: {count} of {pages.links[name].answers} {what} are open" for name, count in left.items()
    )
    notify(f"stopped; {counts}, in {run}; {advice}")


def serve(
    run: options.RunFolder,
    rater: Annotated[
        Optional[list[str]],
        typer.Option(metavar="NAME", help="Who scores: a rater of the plan. Repeatable. Default: all of them."),
    ] = None,
    adjudicate: Annotated[
        bool,
        typer.Option(
            "--adjudicate",
            help="Where physicians differ by two levels or across usable: --rater sees their scores without names and "
            "records the agreed one.",
        ),
    ] = False,
    port: Port = None,
    open_page: OpenPage = True,
    host: options.Host = "127.0.0.1",
    certificate: options.Certificate = None,
    key: options.CertificateKey = None,
    public_url: options.PublicUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Score answers on a web page, for this machine or, with --host, for a network.

    Every rater has a personal link. The run needs a plan, which `medjudge annotate export` makes.
    """
    from medjudge.workflows.annotation_pages import open_pages

    network = network_of(host, port, certificate, key, public_url)
    serve_links(open_pages(run, rater or (), network=network, adjudicate=adjudicate), open_page, as_json)
