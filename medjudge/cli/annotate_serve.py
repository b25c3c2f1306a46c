"""`medjudge annotate serve`: the page on which a physician scores answers."""

import os
import socket
import sys
from contextlib import suppress
from typing import Annotated

import typer

from medjudge.cli import options
from medjudge.errors import InputError


def serve(
    run: options.RunFolder,
    rater: Annotated[str, typer.Option(help="Who scores; one of the plan's raters.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="0 takes a free one.")] = 0,
    open_page: Annotated[bool, typer.Option("--open/--no-open", help="Open the page in the browser.")] = True,
    as_json: options.AsJson = False,
) -> None:
    """Score answers on a local web page."""
    import secrets
    import webbrowser

    from medjudge.annotate.plan import read_plan
    from medjudge.cli.output import print_json
    from medjudge.store import Run

    folder = Run.existing(run)
    plan = read_plan(folder)
    if not plan.by_rater.get(rater):
        raise InputError(f"--rater {rater}: no answers in the plan of {run}; the raters are {', '.join(plan.by_rater)}")
    try:
        import uvicorn

        from medjudge.annotate.serve import HOST, app, scores_of
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "uvicorn"):
            raise
        raise InputError("annotate serve needs FastAPI and uvicorn; pip install 'medjudge[annotate]'") from None
    token = secrets.token_urlsafe(24)
    page = app(folder, plan, rater, token)
    try:
        listening = socket.create_server((HOST, port))
    except OSError as error:
        reason = os.strerror(error.errno or 0).lower()
        raise InputError(f"--port {port}: {reason}; leave it out for a free one") from None
    link = f"http://{HOST}:{listening.getsockname()[1]}/?token={token}"
    items = set(plan.by_rater[rater])
    if as_json:
        print_json({"link": link, "rater": rater, "answers": len(items)})
    else:
        print(f"{rater}, {len(items)} answers: {link}\nEvery score is saved at once. Ctrl-C stops.")
    sys.stdout.flush()
    if open_page:
        webbrowser.open(link)  # the socket listens already: the browser waits for the server
    # The access log would write the token down.
    config = uvicorn.Config(
        page, log_level="warning", access_log=False, server_header=False, timeout_graceful_shutdown=2
    )
    with suppress(KeyboardInterrupt):  # which does not come where the shell that started us ignores Ctrl-C
        uvicorn.Server(config).run(sockets=[listening])
    scored = scores_of(folder, rater)()
    left = len([item for item in plan.items if item.id in items and item.key not in scored])
    go_on = "the same command goes on" if left else f"next: medjudge validate {run} --judge JUDGE"
    print(f"stopped; {left} of {len(items)} answers are open in {run}; {go_on}", file=sys.stderr)
