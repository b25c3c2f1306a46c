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
from medjudge.report.verdict import Banner, banner, verdict
from medjudge.report.words import Words, environment, inline
from medjudge.store import Run
from medjudge.validation.comparison import PairStudy, read_pair_study
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS
from medjudge.validation.usability import Coverage

_SCRIPTS = ("elements.js", "answers.js", "tables.js", "pictures.js", "theme.js", "views.js")
_FEW_QUESTIONS = 5
"""Rates of fewer questions are greyed."""
_MOST_APART = 30
"""The most answers that are listed where a judge and physicians differ."""


class ShownBoard(NamedTuple):
    """A leaderboard with what the page says of it.

    `title` tells it from the others: its judge, with its runs where the judge has several boards. `why` names the
    reasons of unscored answers.
    """

    id: str
    title: str
    board: Board
    verdict: list[Markup]
    banner: Banner
    why: str
    efforts: list[RunEffort]
    changes: list[Changes]


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
    values = [index, *(block for run_cases in cases_by_run for block in (run_cases.texts, *run_cases.blocks))]
    return (
        environment(language)
        .get_template("page.html")
        .render(
            fewest=FEWEST_CONVERSATIONS,
            few_questions=_FEW_QUESTIONS,
            most_apart=_MOST_APART,
            category_names=titles,
            boards=_boards(leaderboards(contents), runs_shown, names, words, _changes(contents, since)),
            runs=runs_shown,
            notes=dict.fromkeys(note for run in runs_shown for note in run["notes"]),
            studies=[
                (f"study-{number}", shown)
                for number, shown in enumerate(
                    study for run in runs_shown for judge in run["judges"].values() for study in judge["studies"]
                )
            ],
            comparisons=_comparisons(runs, names),
            checked=[(f"items-{number}", shown) for number, shown in enumerate(item_sections(runs, names))],
            names=names,
            benchmarks={run.benchmark for run in contents},
            answers=sum(len(run.answers) for run in contents),
            style=inline("page.css"),
            script=inline(*_SCRIPTS),
            blocks=[_packed(value) for value in values],
        )
    )


def _boards(
    boards: Sequence[Board],
    runs: Sequence[dict[str, Any]],
    names: Sequence[str],
    words: Words,
    changed: Mapping[tuple[int, str], Changes],
) -> list[ShownBoard]:
    shown = []
    judges = [board.judge for board in boards]
    for number, board in enumerate(boards):
        studies = [study.study for place in board.runs for study in runs[place]["judges"][board.judge]["studies"]]
        said, statuses = verdict(board, studies, words), banner(board.validation_status, words)
        efforts = [runs[place]["judges"][board.judge]["effort"] for place in board.runs]
        of = f" · {', '.join(names[place] for place in board.runs)}" if judges.count(board.judge) > 1 else ""
        since = [changed[place, board.judge] for place in board.runs if (place, board.judge) in changed]
        id, title, why = f"board-{number}", f"{board.judge}{of}", _reasons(board.coverage, words)
        shown.append(ShownBoard(id, title, board, said, statuses, why, efforts, since))
    return shown


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
