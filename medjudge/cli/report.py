"""`medjudge report`: leaderboard, HTML page, tables for papers."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Optional

import typer

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
    runs: Annotated[list[Path], typer.Argument(help="Run folders.")],
    judge: Annotated[Optional[str], typer.Option(help="Whose judgments; the last one used unless given.")] = None,
    html: Annotated[
        Optional[Path], typer.Option(help="Where the page goes; report.html of the first run unless given.")
    ] = None,
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
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Leaderboard, subcategories, HTML page; or tables for a paper."""
    if format is None and (tables or out):
        raise InputError("--table and --out go with --format csv, latex or markdown; the page goes to --html")
    if format is not None and (html or as_json):
        raise InputError("--format writes tables only; leave --html and --json out, or call report once for each")
    from medjudge.cli.output import console, leaderboard_table, print_json, subcategory_tables
    from medjudge.cli.pipeline import write_scores
    from medjudge.report.page import write_page
    from medjudge.store import Run

    folders = [Run.existing(path) for path in runs]
    models: dict[str, Any] = {}
    standings: dict[str, dict[str, Any]] = {}
    used = [judge_of(folder, judge) for folder in folders]
    if format is not None:
        from medjudge.cli.report_tables import write_tables

        write_tables(folders, used, format.value, [one.value for one in tables or []], out)
        return
    for folder, name_of_judge in zip(folders, used, strict=True):
        scores, _ = write_scores(folder, name_of_judge)
        standings[f"judge {name_of_judge}, {folder.path}"] = scores["standing"]
        for name, rates in scores["models"].items():
            models[name if name not in models else f"{folder.path.name}/{name}"] = rates
    page = html or folders[0].path / "report.html"
    write_page(page, folders)
    if as_json:
        print_json({"models": models, "standing": standings})
        return
    screen = console(as_json)
    # One row of standings makes sense for one run only; each has its line below in any case.
    shown: dict[str, Any] = {"models": models} | ({"standing": scores["standing"]} if len(folders) == 1 else {})
    screen.print(
        leaderboard_table(shown, f"Usability rates by judge {', '.join(dict.fromkeys(used))}, percent (95 % interval)")
    )
    for table in subcategory_tables({"models": models}):
        screen.print(table)
    for whose, standing in standings.items():
        screen.print(f"{whose}: {standing['OP']['line']}")
    for folder in folders:
        for note in folder.manifest().get("notes", []):
            screen.print(note)
    screen.print(f"\n{page}")


def judge_of(run: Any, judge: str | None) -> str:
    """The judge whose judgments of a run are meant."""
    there: list[str] = run.judges()
    wanted = judge or run.manifest().get("judge") or (there[0] if len(there) == 1 else None)
    if wanted in there and wanted is not None:
        return str(wanted)
    if not there:
        raise InputError(f"{run.path}: no judgments in it; run `medjudge eval` first")
    raise InputError(f"{run.path}: give --judge, one of {', '.join(there)}")
