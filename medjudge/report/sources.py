"""The origin that exported tables, pictures and printed pages carry: run, judge, validation status, date."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from medjudge.report.contents import Contents
from medjudge.report.words import Words


class Source(NamedTuple):
    """The origin of exported numbers; `judge` and `validated` are empty where they are of several judges."""

    run: str
    date: str
    judge: str = ""
    validated: str = ""

    def line(self, words: Words) -> str:
        """The origin in words, for captions and printed pages."""
        parts = [
            words.plain("run {run}", run=self.run),
            words.plain("judge {judge}", judge=self.judge) if self.judge else "",
            words.plain(self.validated),
            self.date,
        ]
        return " · ".join(filter(None, parts))


def source_of(runs: Sequence[Contents], judge: str = "", validated: str = "") -> Source:
    """The origin of numbers of some runs; its date is that of their last change."""
    date = max((run.manifest.get("updated", "")[:10] for run in runs), default="")
    return Source(", ".join(run.name for run in runs), date, judge, validated)


def print_style(sources: Mapping[str, Source], words: Words) -> str:
    """The style that heads each printed page with its origin and numbers it.

    Args:
        sources: By the id of a panel, the origin of what it shows; `report`: of all other pages.
    """
    style = "font-size: 7pt; color: #444444; white-space: normal"
    rules = [f"@page {{ @bottom-right {{ content: counter(page) ' / ' counter(pages); {style} }} }}"]
    places = {panel: f"#{panel}" for panel in sources} | {"report": "#validation, footer"}
    # Each change of name begins a page: the title of the report shares its page with the first leaderboard.
    places[next((panel for panel in sources if panel != "report"), "report")] += ", body"
    for panel, source in sources.items():
        rules.append(f'@page {panel} {{ @top-left {{ content: "{_css(source.line(words))}"; {style} }} }}')
        rules.append(f"@media print {{ {places[panel]} {{ page: {panel} }} }}")
    return "\n".join(rules)


def _css(text: str) -> str:
    """A text inside a CSS string, with everything that could end the string or the style as its code."""
    return re.sub(r"[^\w .,:()/-]", lambda match: f"\\{ord(match[0]):x} ", text)
