"""The HTML report: one file that opens offline, every text escaped."""

from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from medjudge.report.leaderboard import COLUMNS
from medjudge.report.sections import section
from medjudge.store import Run, write_whole


def write_page(path: Path, runs: Sequence[Run]) -> None:
    """Writes the report of one or several runs."""
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files("medjudge.report") / "page.html").read_text(encoding="utf-8"))
    write_whole(path, template.render(runs=[section(run) for run in runs], columns=COLUMNS))
