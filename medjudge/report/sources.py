"""The origin that exported tables, pictures and printed pages carry: run, judge, validation status, date."""

import re
from collections.abc import Sequence
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


def print_style(source: Source, words: Words) -> str:
    """The style that heads each printed page with the origin of its numbers, and numbers it."""
    style = "font-size: 7pt; color: #444444; white-space: normal"
    head = f'@top-left {{ content: "{_css(source.line(words))}"; {style} }}'
    return f"@page {{ {head} @bottom-right {{ content: counter(page) ' / ' counter(pages); {style} }} }}"


def _css(text: str) -> str:
    """A text inside a CSS string, with everything that could end the string or the style as its code."""
    return re.sub(r"[^\w .,:()/-]", lambda match: f"\\{ord(match[0]):x} ", text)
