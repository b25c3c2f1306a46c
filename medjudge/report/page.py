"""The HTML report: one file that opens offline, every text escaped."""

import gzip
import json
from base64 import b64encode
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from medjudge.errors import InputError
from medjudge.files import write_whole
from medjudge.judge.items import judges_of_items
from medjudge.judge.pairs import compared_by
from medjudge.report.boards import Board, judged_runs, leaderboards
from medjudge.report.cases import cases
from medjudge.report.contents import Contents, read_contents, read_runs
from medjudge.report.sections import JudgePart, item_section, judge_part, provenance
from medjudge.report.sources import Source, print_style, source_of
from medjudge.report.tables import Kind, rates_csv
from medjudge.report.verdict import SPOILED, banner, verdict
from medjudge.report.words import Words, environment, inline
from medjudge.statistics.estimates import FEWEST_FOR_INTERVAL
from medjudge.store import Run
from medjudge.validation.comparison import read_pair_study
from medjudge.validation.items import read_item_study
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS

_SCRIPTS = ("elements.js", "answers.js", "tables.js", "pictures.js", "answers_file.js", "theme.js", "views.js")
_FEW_QUESTIONS = 5
"""Rates of fewer questions are greyed."""
_MOST_APART = 30
"""The most answers that are listed where a judge and physicians differ."""


class Panel(NamedTuple):
    """A part of the page that is seen, printed and exported by itself, with the origin of its numbers."""

    id: str
    shown: Any
    source: Source


class ShownBoard(NamedTuple):
    """A leaderboard with what the page says of it.

    `title` tells it from the others: its judge, with its runs where the judge has several boards. `parts` has one for
    each of its runs. `csv` holds its rates as `medjudge report --format csv` writes them.
    """

    board: Board
    title: str
    verdict: list[Markup]
    banner: Markup
    parts: list[JudgePart]
    csv: dict[Kind, str]


def write_page(path: Path, runs: Sequence[Run], language: str = "en", since: Run | None = None) -> None:
    """Writes the report of one or several runs; arguments and errors as for `report_page`."""
    write_whole(path, report_page(runs, language, since))


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
    boards = _boards(parts, words)
    studies = _panels(
        "study",
        (
            (study, source_of([part.run], part.judged.judge, part.judged.validation_status["OP"].state))
            for part in parts
            for study in part.studies
        ),
    )
    comparisons = _panels(
        "pairs",
        (
            (study, source_of([run], judge))
            for run in contents
            for judge in compared_by(run.run)
            if (study := read_pair_study(run.run, judge)) is not None
        ),
    )
    checked = _panels(
        "items",
        (
            (item_section(run.run, of_items), source_of([run], judge))
            for run in contents
            for judge in judges_of_items(run.run)
            if (of_items := read_item_study(run.run, judge)) is not None
        ),
    )
    source = source_of(contents)
    titles = {category.id: category.title_in(language) for run in contents for category in run.scheme.categories}
    return (
        environment(language)
        .get_template("page.html")
        .render(
            fewest=FEWEST_CONVERSATIONS,
            least_conversations=FEWEST_FOR_INTERVAL,
            few_questions=_FEW_QUESTIONS,
            most_apart=_MOST_APART,
            spoiled=SPOILED,
            category_names=titles,
            boards=boards,
            studies=studies,
            comparisons=comparisons,
            checked=checked,
            source=source,
            notes=dict.fromkeys(words.known(note) for run in contents for note in run.run.notes()),
            provenance={run.name: provenance(run.manifest, words) for run in contents},
            names=[run.name for run in contents],
            benchmarks={run.benchmark for run in contents},
            answers=sum(len(run.answers) for run in contents),
            style=inline("page.css", more=print_style(source, words)),
            script=inline(*_SCRIPTS),
            blocks=_blocks(contents, titles, words),
        )
    )


def _panels(kind: str, shown: Iterable[tuple[Any, Source]]) -> list[Panel]:
    return [Panel(f"{kind}-{number}", *one) for number, one in enumerate(shown)]


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
        studies = [study.study for part in parts for study in part.studies]
        said = verdict(board, studies, words, has_scores=any(part.run.scores for part in parts))
        kinds: tuple[Kind, ...] = ("leaderboard", "subcategories")
        csv = {kind: rates_csv(board.judged, [kind]) for kind in kinds}
        line = banner(board.validation_status, words)
        whole = ShownBoard(board, title, said, line, parts, csv)
        state = board.validation_status["OP"].state
        shown.append((whole, source_of([part.run for part in parts], board.judge, state)))
    return _panels("board", shown)


def _blocks(runs: Sequence[Contents], titles: dict[str, str], words: Words) -> list[Markup]:
    """An index of everything, then each run's questions and answers, in the order in which the page's script reads."""
    all_cases = [cases(run) for run in runs]
    index = {"categories": titles, "texts": words.texts, "runs": [one.overview for one in all_cases]}
    return [_packed(value) for value in (index, *(block for one in all_cases for block in (one.texts, *one.blocks)))]


def _packed(value: Any) -> Markup:
    """JSON, compressed, in base64: it holds nothing to escape, and looking for it in 30 MB would take a while."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(b64encode(gzip.compress(text.encode(), mtime=0)).decode())
