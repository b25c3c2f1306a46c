"""The pages about the runs of a folder: an index, and the rates of models over time. Every text is escaped."""

from collections.abc import Callable, Collection, Mapping, Sequence
from importlib.util import find_spec
from typing import Any
from urllib.parse import quote

from markupsafe import Markup

from medjudge.report.changes import Changes
from medjudge.report.over_time import Comparison, Point, comparisons, histories
from medjudge.report.run_list import ListedRun, UnreadableRun, oldest_first
from medjudge.report.words import Words, environment, inline, isolated

_SCRIPTS = ("elements.js", "tables.js", "pictures.js", "theme.js", "site.js")
_NAMED = 3
"""Models that a row or a finding names; more are counted."""


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

    def over_time(
        self, runs: Sequence[ListedRun], key: str | None, changed: Callable[[str, str, str], Changes | None]
    ) -> str | None:
        """The runs of one benchmark by one judge, compared; None where there is no comparison of this key.

        Args:
            key: Which comparison; the one with the newest run unless given.
            changed: As for `histories`.

        Raises:
            InputError: A run cannot be compared.
        """
        known = comparisons(runs)
        shown = next((one for one in known if key in (None, one.key)), None)
        if shown is None and key is not None:
            return None
        by_model = {} if shown is None else histories(shown, changed)
        findings = _findings(by_model, self._words)
        return self._page(
            "over_time.html",
            here="over time",
            comparisons=known,
            shown=shown,
            title=self._words("Over time"),
            name_of=_name_of,
            histories=by_model,
            findings=findings,
            other_judge=any(point.judge_changed for points in by_model.values() for point in points),
            plot=_plot(by_model, findings, self._words) if by_model else None,
            address=run_address,
        )

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


def run_address(name: str, since: str | None = None) -> str:
    """The address of the report of a run; with the changes since an earlier one."""
    earlier = "" if since is None else f"?since={quote(since, safe='')}"
    return f"/run/{quote(name, safe='')}{earlier}"


def _name_of(comparison: Comparison) -> Markup:
    newest = comparison.runs[-1]
    return Markup("{} · {}").format(isolated(comparison.judge), isolated(newest.source or newest.scheme))


def _findings(by_model: Mapping[str, Sequence[Point]], words: Words) -> list[Markup]:
    """The models whose last change is more than chance, a sentence each."""
    said = []
    for model, points in by_model.items():
        change = points[-1].change
        if change is None or change.difference.tie:
            continue
        values = {"before": f"{change.before:.1f}", "now": f"{change.now:.1f}", "run": isolated(points[-1].since)}
        values["model"] = Markup("<b>{}</b>").format(isolated(model))
        if change.difference.value > 0:
            said.append(words("{model} rose from {before} % to {now} % since {run}.", **values))
        else:
            said.append(words("{model} fell from {before} % to {now} % since {run}.", **values))
    if not said:
        return [words("No model's rate changed by more than chance between its last two runs.")]
    more = [words("{n} more models changed by more than chance.", n=len(said) - _NAMED)] if len(said) > _NAMED else []
    return [*said[:_NAMED], *more]


def _plot(by_model: Mapping[str, Sequence[Point]], findings: Sequence[Markup], words: Words) -> dict[str, str] | None:
    """An image as a `data:` address, with its numbers as JSON; None where matplotlib, an extra, is missing."""
    if find_spec("matplotlib") is None:
        return None
    from medjudge.report.board_plots import over_time_plot
    from medjudge.report.drawing import in_page

    title = " ".join(finding.striptags() for finding in findings).rstrip(".。")
    return in_page(over_time_plot(by_model, title, words))
