"""The index of the runs of a folder. Every text is escaped."""

from collections.abc import Collection, Sequence
from typing import Any
from urllib.parse import quote

from medjudge.report.run_list import ListedRun, UnreadableRun, oldest_first
from medjudge.report.words import Words, environment, inline

_SCRIPTS = ("elements.js", "tables.js", "pictures.js", "theme.js", "site.js")
_NAMED = 3
"""Models that a row names; more are counted."""


class Pages:
    """Writes the pages of one folder.

    Args:
        folder: Its name, for the heading.
        words: The pages' language.
    """

    def __init__(self, folder: str, words: Words) -> None:
        self._folder = folder
        self._words = words
        self._templates = environment(words.language)

    def runs(self, runs: Sequence[ListedRun | UnreadableRun], writing: Collection[str]) -> str:
        """The index.

        Args:
            writing: The names of the runs that a process is writing to.
        """
        listed = [run for run in runs if isinstance(run, ListedRun)]
        unreadable = [run for run in runs if isinstance(run, UnreadableRun)]
        values = {"runs": oldest_first(listed)[::-1], "unreadable": unreadable, "writing": writing, "named": _NAMED}
        return self._page("runs.html", here="runs", title=self._words("Runs"), address=run_address, **values)

    def message(self, title: str, line: str) -> str:
        """A page that says why there is no other one; both are texts of the page, in its language."""
        return self._page("message.html", here="", title=title, line=line)

    def _page(self, template: str, **values: Any) -> str:
        return self._templates.get_template(template).render(
            folder=self._folder,
            texts=self._words.texts,
            style=inline("page.css"),
            script=inline(*_SCRIPTS),
            **values,
        )


def run_address(name: str) -> str:
    """The address of the report of a run."""
    return f"/run/{quote(name, safe='')}"
