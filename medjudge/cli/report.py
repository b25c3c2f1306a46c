"""`medjudge report`: leaderboard, HTML page, tables for papers."""

from enum import Enum
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from medjudge.cli import options
from medjudge.errors import InputError


class Format(str, Enum):
    """Formats of `--format`."""

    csv = "csv"
    latex = "latex"
    markdown = "markdown"


class TableKind(str, Enum):
    """Tables of `--table`."""

    leaderboard = "leaderboard"
    subcategories = "subcategories"
    agreement = "agreement"


def report(
    runs: options.RunFolders,
    judge: options.JudgeOfRun = None,
    html: Annotated[
        Optional[Path], typer.Option(help="Where the page goes; report.html of the first run unless given.")
    ] = None,
    plots: Annotated[Optional[Path], typer.Option(help="A folder for the report's plots, each as SVG and PNG.")] = None,
    format: Annotated[
        Optional[Format], typer.Option(help="No page, only tables in the paper's layout: csv, latex or markdown.")
    ] = None,
    tables: Annotated[
        Optional[list[TableKind]],
        typer.Option(
            "--table",
            help="With --format: leaderboard, subcategories or agreement; may be repeated. All unless given; csv: the "
            "first two, or agreement.",
        ),
    ] = None,
    out: Annotated[Optional[Path], typer.Option(help="With --format: the file; stdout unless given.")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Leaderboard, subcategories, HTML page; or tables for a paper."""
    if format is None and (tables or out):
        raise InputError("--table and --out go with --format csv, latex or markdown; the page goes to --html")
    if format is not None and (html or plots or as_json):
        raise InputError(
            "--format writes tables only; leave --html, --plots and --json out, or call report once for each"
        )
    for option, file in (("--html", html), ("--out", out)):
        if file is not None and file.is_dir():
            raise InputError(f"{option} {file}: is a folder; name the file in it that is to be written")
    if plots is not None and find_spec("matplotlib") is None:
        raise InputError("--plots: plots need matplotlib; pip install 'medjudge[report]'")
    from medjudge.cli.output import console, leaderboard_table, print_json, subcategory_tables
    from medjudge.report.page import write_page
    from medjudge.store import Run
    from medjudge.workflows.which_judge import judge_of_run

    folders = [Run.existing(path) for path in runs]
    used = [judge_of_run(folder, judge) for folder in folders]
    if format is not None:
        from medjudge.cli.report_tables import write_tables

        write_tables(folders, used, format.value, [one.value for one in tables or []], out)
        return
    boards = _boards(folders, used)
    page = html or folders[0].path / "report.html"
    write_page(page, folders)
    files = []
    if plots is not None:
        from medjudge.report.plot_files import write_plots

        files = write_plots(plots, folders)
    if as_json:
        # One leaderboard is the whole answer; rates of different benchmarks or judges stay apart.
        only = {name: boards[0][name] for name in ("models", "validation_status")} if len(boards) == 1 else {}
        print_json({**only, "leaderboards": boards, "plots": [str(file) for file in files]})
        return
    screen = console(as_json)
    for board in boards:
        # One row of statuses makes sense for one run only; each run has its line below in any case.
        statuses = board["validation_status"]
        row = {"validation_status": next(iter(statuses.values()))} if len(statuses) == 1 else {}
        of = f" of benchmark {board['benchmark'][:12]}" if len(boards) > 1 else ""
        title = f"Usability rates by judge {board['judge']}{of}, percent (95 % interval)"
        screen.print(leaderboard_table({"models": board["models"], **row}, title))
        for table in subcategory_tables({"models": board["models"]}):
            screen.print(table)
        for judge_and_run, status in statuses.items():
            screen.print(f"{judge_and_run}: {status['OP']['line']}")
    for folder in folders:
        for note in folder.manifest().get("notes", []):
            screen.print(note)
    screen.print(f"\n{page}")
    if files:
        screen.print(f"{len(files)} files of plots in {plots}")


def _boards(folders: list[Any], used: list[str]) -> list[dict[str, Any]]:
    """Rates and validation statuses of the runs, together where benchmark and judge are the same."""
    from medjudge.report.boards import board_key
    from medjudge.report.contents import models_apart, names_apart
    from medjudge.workflows.judge import write_scores

    together: dict[Any, list[tuple[Any, dict[str, Any]]]] = {}
    for folder, judge in zip(folders, used, strict=True):
        together.setdefault(board_key(folder, judge), []).append((folder, write_scores(folder, judge)[0]))
    boards = []
    for (benchmark, judge, _), some in together.items():
        rates = [scores["models"] for _, scores in some]
        names = models_apart(names_apart([folder for folder, _ in some]), [list(one) for one in rates])
        models = {
            name: rate
            for called, of_run in zip(names, rates, strict=True)
            for name, rate in zip(called, of_run.values(), strict=True)
        }
        statuses = {f"judge {judge}, {folder.path}": scores["validation_status"] for folder, scores in some}
        boards.append({"benchmark": benchmark, "judge": judge, "models": models, "validation_status": statuses})
    return boards
