"""`medjudge export`: a run in the formats of other tools."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Optional

import typer

from medjudge.cli import options
from medjudge.errors import InputError

app = typer.Typer(help="Bring a run into other tools.", no_args_is_help=True, rich_markup_mode="rich")


@app.callback()
def _export() -> None:
    """Without it the only command would take the place of the group."""


@app.command("inspect")
def inspect(
    run: options.RunFolder,
    judge: options.JudgeOfRun = None,
    out: Annotated[
        Optional[Path],
        typer.Option(help="A folder, or a file that ends in .eval where one model answered; RUN/inspect unless given."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write Inspect logs, one a model, for `inspect view`."""
    from medjudge.cli.output import console, print_json
    from medjudge.store import Run
    from medjudge.workflows.which_judge import judge_of_run

    if find_spec("inspect_ai") is None:
        raise InputError("export inspect: needs inspect-ai, and Python 3.11 for it; pip install 'medjudge[inspect]'")
    from medjudge.report.inspect_logs import write_inspect_logs

    folder = Run.existing(run)
    target = out or folder.path / "inspect"
    paths = write_inspect_logs(folder, judge_of_run(folder, judge), target)
    if as_json:
        print_json({"written": [str(path) for path in paths]})
        return
    screen = console(as_json)
    for path in paths:
        screen.print(str(path))
    screen.print(f"\ninspect view --log-dir {paths[0].parent}")
