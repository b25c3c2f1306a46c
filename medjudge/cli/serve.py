"""`medjudge serve`: the report pages of all runs in a folder."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from medjudge.cli import options
from medjudge.errors import notify


def serve(
    runs: Annotated[Path, typer.Argument(metavar="RUNS", help="Folder that holds run folders.", show_default=False)],
    language: options.PageLanguage = "en",
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0 uses a free port.")] = 8765,
    host: options.Host = "127.0.0.1",
    certificate: options.Certificate = None,
    key: options.CertificateKey = None,
    public_url: options.PublicUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Serve the report pages of all runs in a folder.

    Nothing is written. Pages follow the runs: reload one to see what changed.
    """
    from medjudge.cli.output import print_json
    from medjudge.workflows.network import Network
    from medjudge.workflows.serve_site import open_run_pages

    network = Network(host, port, certificate, key, public_url)
    pages = open_run_pages(runs, network=network, language=language)
    if as_json:
        print_json({"address": pages.listener.address, "runs": pages.runs})
    else:
        print(f"{pages.runs} runs in {runs}: {pages.listener.address}/")
        print("Press Ctrl-C to stop.")
    sys.stdout.flush()
    pages.serve()
    notify("stopped")
