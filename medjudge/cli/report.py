"""`medjudge report`: leaderboard, HTML page, tables for papers."""

import sys
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Optional

from medjudge.cli import options
from medjudge.cli.options import flags, option
from medjudge.errors import InputError, notify

if TYPE_CHECKING:
    from medjudge.workflows.report import Report

_TABLES = "Tables for papers"


class TableKind(str, Enum):
    """Tables of `--table`; typer knows no list of literals."""

    leaderboard = "leaderboard"
    subcategories = "subcategories"
    agreement = "agreement"


@dataclass(kw_only=True)
class ReportOptions:
    """The options of `medjudge report`."""

    runs: options.RunFolders
    judge: options.JudgeOfRun = None
    html: Optional[Path] = option(None, "FILE", "The page. Default: report.html in the first run.")
    plots: Optional[Path] = option(None, "FOLDER", "Also write the plots, each as SVG.")
    since: Optional[Path] = option(None, "RUN", "An earlier run: the page says what changed since then.")
    lang: options.PageLanguage = "en"
    format: Optional[Literal["csv", "latex", "markdown"]] = option(
        None, "csv|latex|markdown", "Write no page, only tables in the paper's layout.", _TABLES
    )
    tables: Optional[list[TableKind]] = option(
        None,
        "TABLE",
        "leaderboard, subcategories or agreement. Repeatable. Default: all; csv holds the first two, or agreement.",
        _TABLES,
        name="--table",
    )
    out: Optional[Path] = option(None, "FILE", "The file of the tables. Default: stdout.", _TABLES)
    as_json: options.AsJson = False


@flags
def report(options: ReportOptions) -> None:
    """Write the leaderboard and the HTML page, or tables for a paper."""
    format, out, html = options.format, options.out, options.html
    if format is None and (options.tables or out):
        raise InputError("--table and --out go with --format csv, latex or markdown; the page goes to --html")
    if format is not None and (html or options.plots or options.since or options.as_json):
        raise InputError(
            "--format writes tables only; leave --html, --plots, --since and --json out, or call report once for each"
        )
    if out is not None and out.is_dir():
        raise InputError(f"--out {out}: is a folder; name the file in it that is to be written")
    if format is not None:
        _write_tables(options, format)
        return
    from medjudge.workflows.report import write_report

    written = write_report(
        options.runs,
        judge=options.judge,
        html=html,
        plots=options.plots,
        language=options.lang,
        since=options.since,
    )
    _print_report(written, options.as_json)


def _write_tables(options: ReportOptions, format: str) -> None:
    from medjudge.files import write_whole
    from medjudge.workflows.report import tables_for_papers

    kinds: Any = [table.value for table in options.tables or []]
    text, notes = tables_for_papers(options.runs, format, kinds, options.judge)
    for note in notes:
        notify(note)
    if options.out is None:
        # As bytes: CSV keeps its line ends, and Chinese its characters, whatever the terminal is set to.
        sys.stdout.buffer.write(text.encode())
    else:
        write_whole(options.out, text)
        print(options.out)


def _print_report(report: "Report", as_json: bool) -> None:
    from medjudge.cli.output import console, leaderboard_table, print_json, subcategory_tables
    from medjudge.report.verdict import few_answers_line
    from medjudge.validation.usability import truncated_line

    if as_json:
        print_json(report.as_json())
        return

    screen = console(as_json)
    for board in report.leaderboards:
        # One row of validation status makes sense for one run only; each has its line below in any case.
        status = board.judged[0].validation_status if len(board.judged) == 1 else None
        which = f" of benchmark {board.judged[0].key.benchmark[:12]}" if len(report.leaderboards) > 1 else ""
        title = f"Usability rates by judge {board.judge}{which}, percent (95 % interval)"
        if few := few_answers_line(board.models):
            screen.print(few)
        screen.print(leaderboard_table(board.models, title, status, list(board.validation_status)))
        for table in subcategory_tables(board.models):
            screen.print(table)
        if truncated := truncated_line(board.truncated):
            screen.print(truncated)
        for run in board.judged:
            screen.print(f"{run}: {run.validation_status['OP'].line}")
    for note in report.notes:
        screen.print(note)
    screen.print(f"\n{report.page}")
    if report.plots:
        screen.print(f"{len(report.plots)} plot files in {report.plots[0].parent}")
