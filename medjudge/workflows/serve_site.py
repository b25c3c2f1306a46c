"""`medjudge serve`: the report pages of all runs in a folder; nothing is written."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from medjudge.errors import InputError, notify
from medjudge.workflows.network import Network, Pages, listen, require_web_server


@dataclass(frozen=True)
class RunPages(Pages):
    """The pages of the runs in a folder; `runs` is how many there are now, readable or not."""

    runs: int


def open_run_pages(folder: Path | str, *, network: Network = Network(), language: str = "en") -> RunPages:
    """Opens the pages of the runs that lie right in a folder.

    Args:
        language: What the pages are written in, `en` or `zh`.

    Raises:
        InputError: There is no such folder, no run in it, FastAPI is not installed, the address cannot be used, or the
            certificate cannot be read.
    """
    folder = Path(folder)
    require_web_server("serve", "web")
    from medjudge.report.run_list import run_folders
    from medjudge.report.site_app import site_app

    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder; name the one that holds the run folders, such as runs")
    runs = run_folders(folder)
    if not runs and any((folder / name).exists() for name in ("questions.jsonl", "answers.jsonl")):
        raise InputError(f"{folder}: is a run itself; name the folder that holds it, {folder.resolve().parent}")
    if not runs:
        raise InputError(f"{folder}: no run in it; `medjudge eval --run {quote(str(folder / 'NAME'))}` makes one")
    listener = listen(network)
    app = site_app(folder, listener.host_names, language)
    network.warn_unencrypted("Questions, answers and scores")
    if not network.for_this_machine:
        notify(f"WARNING: no login. Whoever reaches {listener.address} can read every run in {folder}.")
    return RunPages(listener, app, len(runs))
