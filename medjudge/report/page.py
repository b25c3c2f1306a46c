"""The HTML report: one file that opens offline, every text escaped."""

import gzip
import json
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

from markupsafe import Markup

from medjudge.errors import InputError
from medjudge.judge.items import judges_of_items
from medjudge.judge.pairs import compared_by
from medjudge.report.boards import Board, judged_runs, leaderboards
from medjudge.report.cases import cases
from medjudge.report.contents import Contents, read_contents, read_runs
from medjudge.report.sections import JudgePart, item_section, judge_part, provenance
from medjudge.report.tables import rates_csv
from medjudge.report.verdict import SPOILED, banner, gate_sentence, verdict
from medjudge.report.words import Words, environment, inline
from medjudge.statistics.estimates import FEWEST_FOR_INTERVAL
from medjudge.store import Run
from medjudge.validation.comparison import read_pair_study
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS
from medjudge.validation.ranking import first_of_two
from medjudge.validation.records import Study

_SCRIPTS = ("elements.js", "answers.js", "tables.js", "pictures.js", "answers_file.js", "theme.js", "views.js")
_FEW_QUESTIONS = 5
"""Rates of fewer questions are greyed."""
_MOST_LISTED = 30
"""The most answers that are listed where a judge and physicians differ, or that changed since another run."""


class Source(NamedTuple):
    """The origin that exported tables, pictures and printed pages carry.

    `judge` and `validated`, its validation status, are empty where the numbers are of several judges.
    """

    run: str
    date: str
    judge: str = ""
    validated: str = ""

    def line(self, words: Words) -> str:
        """The origin in words."""
        judge = words.plain("judge {judge}", judge=self.judge) if self.judge else ""
        parts = [words.plain("run {run}", run=self.run), judge, words.plain(self.validated), self.date]
        return " · ".join(filter(None, parts))


class Panel(NamedTuple):
    """A part of the page that is seen, printed and exported by itself, with the origin of its numbers."""

    id: str
    shown: Any
    source: Source


class ShownBoard(NamedTuple):
    """A leaderboard with what the page says of it.

    `title` tells it from the others: its judge, with its runs where the judge has several boards. `parts` has one for
    each of its runs.
    """

    board: Board
    title: str
    verdict: list[Markup]
    parts: list[JudgePart]


def report_page(runs: Sequence[Run], language: str = "en", since: Run | None = None) -> str:
    """The report of one or several runs, as HTML.

    Leaderboards and validation are in the page as they are read; the answers are packed inside it, and its script shows
    them. The page fetches nothing, and its policy lets nothing run but that script.

    Args:
        language: What the page is written in: `en` or `zh`.
        since: An earlier run; the page says what changed since then.

    Raises:
        InputError: A record of a run breaks a rule, or the earlier run has no question in common with one.
    """
    contents, words = read_runs(runs), Words(language)
    parts = _parts(contents, words, None if since is None else read_contents(since))
    studies = (
        (study, _source([part.run], part.judged.judge, part.judged.validation_status["OP"].state))
        for part in parts
        for study in part.studies
    )
    source = _source(contents)
    titles = {category.id: category.title_in(language) for run in contents for category in run.scheme.categories}
    return (
        environment(language)
        .get_template("page.html")
        .render(
            fewest=FEWEST_CONVERSATIONS,
            least_conversations=FEWEST_FOR_INTERVAL,
            few_questions=_FEW_QUESTIONS,
            most_listed=_MOST_LISTED,
            spoiled=SPOILED,
            category_names=titles,
            boards=_boards(parts, words),
            studies=_panels("study", studies),
            comparisons=_made_by("pairs", contents, compared_by, read_pair_study),
            checked=_made_by("items", contents, judges_of_items, item_section),
            banner=banner,
            rates_csv=rates_csv,
            gate_sentence=gate_sentence,
            first_of_two=first_of_two,
            plots_of=_plots,
            source=source,
            notes=dict.fromkeys(words.known(note) for run in contents for note in run.run.notes()),
            provenance={run.name: provenance(run.manifest, words) for run in contents},
            names=[run.name for run in contents],
            benchmarks={run.benchmark for run in contents},
            answers=sum(len(run.answers) for run in contents),
            style=inline("page.css", more=_print_style(source.line(words))),
            script=inline(*_SCRIPTS),
            blocks=_blocks(contents, titles, words),
        )
    )


def _panels(kind: str, shown: Iterable[tuple[Any, Source]]) -> list[Panel]:
    return [Panel(f"{kind}-{number}", *one) for number, one in enumerate(shown)]


def _made_by(
    kind: str, contents: Sequence[Contents], judges: Callable[[Run], list[str]], read: Callable[[Run, str], Any]
) -> list[Panel]:
    """The panels of what each judge of each run made, where there is any."""
    made = ((read(run.run, judge), _source([run], judge)) for run in contents for judge in judges(run.run))
    return _panels(kind, (one for one in made if one[0] is not None))


def _parts(contents: Sequence[Contents], words: Words, since: Contents | None) -> list[JudgePart]:
    """Each run by each of its judges."""
    parts = [judge_part(contents[judged.place], judged, words, since) for judged in judged_runs(contents)]
    if since is not None and not any(part.changes for part in parts):
        judges = ", ".join(since.judgments) or "no judge"
        raise InputError(
            f"--since {since.run.path}: was judged by {judges}; name a run that has judgments by a judge of this report"
        )
    return parts


def _boards(all_parts: Sequence[JudgePart], words: Words) -> list[Panel]:
    by_run = {(part.judged.place, part.judged.judge): part for part in all_parts}
    boards, shown = leaderboards([part.judged for part in all_parts]), []
    for board in boards:
        parts = [by_run[run.place, run.judge] for run in board.judged]
        title = board.judge
        if sum(other.judge == title for other in boards) > 1:
            title = f"{title} · {', '.join(run.run for run in board.judged)}"
        studies = [study for part in parts for study in part.studies]
        said = verdict(board, studies, words, has_scores=any(part.run.scores for part in parts))
        source = _source([part.run for part in parts], board.judge, board.validation_status["OP"].state)
        shown.append((ShownBoard(board, title, said, parts), source))
    return _panels("board", shown)


def _source(runs: Sequence[Contents], judge: str = "", validated: str = "") -> Source:
    """The origin of numbers of some runs; its date is that of their last change."""
    date = max(run.manifest.get("updated", "")[:10] for run in runs)
    return Source(", ".join(run.name for run in runs), date, judge, validated)


def _print_style(line: str) -> str:
    """The style that heads each printed page with the origin of its numbers, and numbers it."""
    # Everything that could end the string or the style as its code.
    origin = re.sub(r"[^\w .,:()/-]", lambda match: f"\\{ord(match[0]):x} ", line)
    style = "font-size: 7pt; color: #444444; white-space: normal"
    head = f'@top-left {{ content: "{origin}"; {style} }}'
    return f"@page {{ {head} @bottom-right {{ content: counter(page) ' / ' counter(pages); {style} }} }}"


def _plots(study: Study, words: Words) -> list[dict[str, str]] | None:
    """A study's plots as `data:` addresses: None where matplotlib, an extra, is missing."""
    if find_spec("matplotlib") is None:
        return None
    from medjudge.report.drawing import in_page
    from medjudge.report.plots import plots

    return [in_page(plot) for plot in plots(study, words)]


def _blocks(runs: Sequence[Contents], titles: dict[str, str], words: Words) -> list[Markup]:
    """An index of everything, then each run's questions and answers, in the order in which the page's script reads."""
    all_cases = [cases(run) for run in runs]
    index = {"categories": titles, "texts": words.texts, "runs": [one.overview for one in all_cases]}
    return [_packed(value) for value in (index, *(block for one in all_cases for block in (one.texts, *one.blocks)))]


def _packed(value: Any) -> Markup:
    """JSON, compressed, in base64: it holds nothing to escape, and looking for it in 30 MB would take a while."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(b64encode(gzip.compress(text.encode(), mtime=0)).decode())
