"""`medjudge export`: a run in the formats of other tools."""

from pathlib import Path
from typing import Annotated, Optional

import typer

from medjudge.cli import options

app = typer.Typer(help="Export a run to other tools.", no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def _export() -> None:
    """Without it the only command would take the place of the group."""


@app.command("inspect")
def inspect(
    run: options.RunFolder,
    judge: options.JudgeOfRun = None,
    out: Annotated[
        Optional[Path],
        typer.Option(
            metavar="FOLDER", help="A folder, or a .eval file where one model answered. Default: RUN/inspect."
        ),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write Inspect logs, one per model, for `inspect view`."""
    from medjudge.cli.output import console, print_json
    from medjudge.workflows.report import export_inspect_logs

    files = export_inspect_logs(run, judge, out)
    if as_json:
        print_json({"written": [str(file) for file in files]})
        return
    screen = console(as_json)
    for file in files:
        screen.print(str(file))
    screen.print(f"\ninspect view --log-dir {files[0].parent}")
