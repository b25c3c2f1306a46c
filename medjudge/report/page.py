"""The HTML report: one file that opens offline, every text escaped."""

import gzip
import json
from base64 import b64encode
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from markupsafe import Markup

from medjudge.errors import InputError
from medjudge.files import write_whole
from medjudge.judge.pairs import compared_by
from medjudge.report.boards import Board, leaderboards
from medjudge.report.cases import cases
from medjudge.report.changes import Changes, changes
from medjudge.report.contents import Contents, RunEffort, distinct_run_names, read_contents
from medjudge.report.sections import item_sections, section
from medjudge.report.sources import Source, print_style, source_of
from medjudge.report.tables import Kind, rates_csv
from medjudge.report.verdict import SPOILED, Banner, banner, other_orders, verdict
from medjudge.report.words import Words, environment, inline
from medjudge.statistics.estimates import FEWEST_FOR_INTERVAL
from medjudge.store import Run
from medjudge.validation.comparison import PairStudy, read_pair_study
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS
from medjudge.validation.usability import Coverage
from medjudge.validation.validations import statuses_in

_SCRIPTS = ("elements.js", "answers.js", "tables.js", "pictures.js", "answers_file.js", "theme.js", "views.js")
_FEW_QUESTIONS = 5
"""Rates of fewer questions are greyed."""
_MOST_APART = 30
"""The most answers that are listed where a judge and physicians differ."""


class ShownBoard(NamedTuple):
    """A leaderboard with what the page says of it.

    `title` tells it from the others: its judge, with its runs where the judge has several boards. `why` names the
    reasons of unscored answers. `csv` holds its rates as `medjudge report --format csv` writes them.
    """

    id: str
    title: str
    board: Board
    verdict: list[Markup]
    banner: Banner
    why: str
    efforts: list[RunEffort]
    changes: list[Changes]
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
    contents = [read_contents(run) for run in runs]
    cases_by_run = [cases(run) for run in contents]
    words, names = Words(language), distinct_run_names(runs)
    runs_shown = [section(run, position, words) for position, run in enumerate(contents)]
    # In this order: an index of everything, then each run's questions and answers.
    titles = {category.id: category.title_in(language) for run in contents for category in run.scheme.categories}
    index = {
        "categories": titles,
        "texts": words.texts,
        "runs": [run_cases.overview for run_cases in cases_by_run],
    }
    boards = _boards(leaderboards(contents), contents, runs_shown, names, words, _changes(contents, since))
    studies, comparisons = _studies(runs_shown), _comparisons(runs, names)
    checked = [(f"items-{number}", shown) for number, shown in enumerate(item_sections(runs, names))]
    of_run = [(id, study.judge, name) for id, study, name in comparisons]
    of_run += [(id, shown.study.judge, shown.run) for id, shown in checked]
    sources = _sources(boards, studies, of_run, contents, names)
    values = [index, *(block for run_cases in cases_by_run for block in (run_cases.texts, *run_cases.blocks))]
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
            sources=sources,
            runs=runs_shown,
            notes=dict.fromkeys(note for run in runs_shown for note in run["notes"]),
            studies=[(study.id, study.shown) for study in studies],
            comparisons=comparisons,
            checked=checked,
            names=names,
            benchmarks={run.benchmark for run in contents},
            answers=sum(len(run.answers) for run in contents),
            style=inline("page.css", more=print_style(sources, words)),
            script=inline(*_SCRIPTS),
            blocks=[_packed(value) for value in values],
        )
    )


def _boards(
    boards: Sequence[Board],
    contents: Sequence[Contents],
    runs: Sequence[dict[str, Any]],
    names: Sequence[str],
    words: Words,
    changed: Mapping[tuple[int, str], Changes],
) -> list[ShownBoard]:
    shown = []
    judges = [board.judge for board in boards]
    for number, board in enumerate(boards):
        studies = [study.study for place in board.runs for study in runs[place]["judges"][board.judge]["studies"]]
        scored = any(contents[place].scores for place in board.runs)
        said = [*verdict(board, studies, words, scored), *other_orders(board, boards, words)]
        statuses = banner(board.validation_status, words)
        efforts = [runs[place]["judges"][board.judge]["effort"] for place in board.runs]
        of = f" · {', '.join(names[place] for place in board.runs)}" if judges.count(board.judge) > 1 else ""
        since = [changed[place, board.judge] for place in board.runs if (place, board.judge) in changed]
        id, title, why = f"board-{number}", f"{board.judge}{of}", _reasons(board.coverage, words)
        kinds: tuple[Kind, ...] = ("leaderboard", "subcategories")
        csv = {kind: rates_csv(board.judged, [kind]) for kind in kinds}
        shown.append(ShownBoard(id, title, board, said, statuses, why, efforts, since, csv))
    return shown


class _StudyPanel(NamedTuple):
    """A study with its id on the page, the place of its run and its judge's name in that run."""

    id: str
    place: int
    judge: str
    shown: Any


def _studies(runs: Sequence[dict[str, Any]]) -> list[_StudyPanel]:
    found = [
        (place, judge, shown)
        for place, run in enumerate(runs)
        for judge, parts in run["judges"].items()
        for shown in parts["studies"]
    ]
    return [_StudyPanel(f"study-{number}", *study) for number, study in enumerate(found)]


def _sources(
    boards: Sequence[ShownBoard],
    studies: Sequence[_StudyPanel],
    of_run: Sequence[tuple[str, str, str]],
    contents: Sequence[Contents],
    names: Sequence[str],
) -> dict[str, Source]:
    """The origin of what each panel shows, by the panel's id; that of the whole page is `report`.

    Args:
        of_run: Ids of further panels, each with its judge and the name of its run.
    """
    sources = {"report": source_of(range(len(contents)), contents, names)}
    for shown in boards:
        status = shown.board.validation_status["OP"]
        sources[shown.id] = source_of(shown.board.runs, contents, names, shown.board.judge, status.state)
    for study in studies:
        run = contents[study.place]
        status = statuses_in(run.run, study.judge, run.models)["OP"]
        sources[study.id] = source_of([study.place], contents, names, study.judge, status.state)
    for id, judge, name in of_run:
        sources[id] = source_of([names.index(name)], contents, names, judge)
    return sources


def _comparisons(runs: Sequence[Run], names: Sequence[str]) -> list[tuple[str, PairStudy, str]]:
    """Results of `medjudge compare` in each run: the id on the page, the comparison, the run's name."""
    studies = [
        (study, name)
        for run, name in zip(runs, names, strict=True)
        for judge in compared_by(run)
        if (study := read_pair_study(run, judge)) is not None
    ]
    return [(f"pairs-{number}", study, name) for number, (study, name) in enumerate(studies)]


def _changes(runs: Sequence[Contents], since: Run | None) -> dict[tuple[int, str], Changes]:
    """By run and judge, what changed since an earlier run."""
    if since is None:
        return {}
    old = read_contents(since)
    compared = {
        (place, judge): changes(run, old, judge, place) for place, run in enumerate(runs) for judge in run.judgments
    }
    found = {key: change for key, change in compared.items() if change is not None}
    if not found:
        judges = ", ".join(old.judgments) or "no judge"
        raise InputError(
            f"--since {since.path}: was judged by {judges}; name a run that has judgments by a judge of this report"
        )
    return found


def _reasons(coverage: Coverage, words: Words) -> str:
    """Reasons why answers have no score, the most frequent reason first."""
    ordered = sorted(coverage.reasons.items(), key=lambda item: -item[1])
    return ", ".join(f"{number:,} {words(reason)}" for reason, number in ordered)


def _packed(value: Any) -> Markup:
    """JSON, compressed, in base64: it holds nothing to escape, and looking for it in 30 MB would take a while."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return Markup(b64encode(gzip.compress(text.encode(), mtime=0)).decode())
