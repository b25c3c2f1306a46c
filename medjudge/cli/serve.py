"""`medjudge serve`: the report pages of all runs in a folder."""

import sys
from dataclasses import dataclass
from pathlib import Path

from medjudge.cli import options
from medjudge.cli.groups import Address
from medjudge.cli.options import REQUIRED, argument, flags, option
from medjudge.errors import notify


@dataclass(kw_only=True)
class ServeOptions(Address):
    """The options of `medjudge serve`."""

    runs: Path = argument(REQUIRED, "RUNS", "Folder that holds run folders.")
    lang: options.PageLanguage = "en"
    port: int = option(8765, "N", "0 uses a free port.", min=0, max=65535)
    as_json: options.AsJson = False


@flags
def serve(options: ServeOptions) -> None:
    """Serve the report pages of all runs in a folder.

    Nothing is written. Pages follow the runs: reload one to see what changed.
    """
    from medjudge.cli.output import counted, print_json
    from medjudge.workflows.serve_site import open_run_pages

    pages = open_run_pages(options.runs, network=options.network(options.port), language=options.lang)
    if options.as_json:
        print_json({"address": pages.listener.address, "runs": pages.runs})
    else:
        print(f"{counted(pages.runs, 'run')} in {options.runs}: {pages.listener.address}/")
        print("Press Ctrl-C to stop.")
    sys.stdout.flush()
    pages.serve()
    notify("stopped")
