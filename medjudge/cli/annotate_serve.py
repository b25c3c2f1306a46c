"""`medjudge annotate serve`: the pages on which physicians score answers."""

import sys
from typing import Annotated, Optional

import typer

from medjudge.cli import options
from medjudge.errors import notify


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
    port: Annotated[
        Optional[int],
        typer.Option(
            metavar="N",
            min=0,
            max=65535,
            help="0 uses a free port. Default: 0, and 8443 where other machines can connect.",
        ),
    ] = None,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page of a single rater in the browser.")
    ] = True,
    host: options.Host = "127.0.0.1",
    certificate: options.Certificate = None,
    key: options.CertificateKey = None,
    public_url: options.PublicUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Score answers on a web page, for this machine or, with --host, for a network.

    Every rater has a personal link. The run needs a plan, which `medjudge annotate export` makes.
    """
    import webbrowser

    from medjudge.cli.output import print_json
    from medjudge.workflows.network import Network
    from medjudge.workflows.serve_scoring import open_scoring_pages

    network = Network(host, 0, certificate, key, public_url)
    if port is not None or not network.for_this_machine:  # links that are kept need a port that stays
        network = network._replace(port=8443 if port is None else port)
    pages = open_scoring_pages(run, rater or (), network=network, adjudicate=adjudicate)
    single = next(iter(pages.links.items())) if len(pages.links) == 1 else None
    if as_json:
        links = {name: link._asdict() for name, link in pages.links.items()}
        one = {"link": single[1].link, "rater": single[0], "answers": single[1].answers} if single else {}
        print_json({**one, "links": links})
    else:
        for name, (link, answers) in pages.links.items():
            print(f"{name}, {answers} answers: {link}")
        print("Every score is saved at once. Press Ctrl-C to stop.")
    sys.stdout.flush()
    if open_page and single and network.for_this_machine:
        webbrowser.open(single[1].link)  # the socket is listening, so the browser waits for the server
    pages.serve()
    left = pages.open_answers()
    advice = (
        "run the same command to continue" if any(left.values()) else f"next: medjudge validate {run} --judge JUDGE"
    )
    counts = "; ".join(
        f"{name}: {count} of {pages.links[name].answers} answers are open" for name, count in left.items()
    )
    notify(f"stopped; {counts}, in {run}; {advice}")
