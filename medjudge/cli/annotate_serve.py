"""`medjudge annotate serve`: the page on which a physician scores answers."""

import sys
from typing import Annotated

import typer

from medjudge.cli import options
from medjudge.errors import notify


def serve(
    run: options.RunFolder,
    rater: Annotated[str, typer.Option(metavar="NAME", help="Who scores: one of the plan's raters.")],
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0 uses a free port.")] = 0,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
    as_json: options.AsJson = False,
) -> None:
    """Score answers on a local web page.

    The run needs a plan, which `medjudge annotate export` makes.
    """
    import webbrowser

    from medjudge.cli.output import print_json
    from medjudge.workflows.annotate import open_scoring_page

    page = open_scoring_page(run, rater, port=port)
    if as_json:
        print_json({"link": page.link, "rater": rater, "answers": page.answers})
    else:
        print(f"{rater}, {page.answers} answers: {page.link}\nEvery score is saved at once. Press Ctrl-C to stop.")
    sys.stdout.flush()
    if open_page:
        webbrowser.open(page.link)  # the socket is listening, so the browser waits for the server
    page.serve()
    left = page.open_answers()
    advice = "run the same command to continue" if left else f"next: medjudge validate {run} --judge JUDGE"
    notify(f"stopped; {left} of {page.answers} answers are open in {run}; {advice}")
