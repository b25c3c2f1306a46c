"""The HTML report: one file that opens offline, every text escaped."""

from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined

from medjudge.report.leaderboard import COLUMNS
from medjudge.store import write_whole


def write_page(path: Path, runs: list[dict[str, Any]]) -> None:
    """Writes the report.

    Args:
        path: The file to write.
        runs: For each run `name`, `notes` (lines to show above the numbers), `judges` (`name`, `scores`, `coverage`,
            `agreement` or None) and `answers` (the answers on which judge and physicians differ most).
    """
    environment = Environment(autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    template = environment.from_string((files("medjudge.report") / "page.html").read_text(encoding="utf-8"))
    write_whole(path, template.render(runs=runs, columns=COLUMNS))
