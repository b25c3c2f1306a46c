"""`medjudge init`: a project file."""

from typing import Annotated, Optional

import typer

from medjudge.cli import options


def init(
    benchmark: options.Benchmark = "sample",
    answers: Annotated[
        Optional[str], typer.Option(metavar="FILE", help="Existing answers: .jsonl, .json, .csv, .xlsx.")
    ] = None,
    model: Annotated[
        Optional[list[str]],
        typer.Option(metavar="MODEL", help="Model that answers: folder, hub id, or openai:MODEL. Repeatable."),
    ] = None,
    judge: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="JUDGE",
            help="local, built-in, similarity, a judge folder, or openai:MODEL. Repeatable. Default: local.",
        ),
    ] = None,
    rater: Annotated[
        Optional[list[str]],
        typer.Option(metavar="NAME", help="Name or e-mail address of a physician. Repeatable."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a commented project file, medjudge.yaml, into the current folder.

    `medjudge run` carries out the study that it describes; `eval`, `validate` and `report` read it too.
    """
    from medjudge.cli.output import console, print_json
    from medjudge.workflows.project import write_project

    file = write_project(benchmark, answers, model or [], judge or ["local"], rater or [])
    if as_json:
        print_json({"file": str(file)})
    console(as_json).print(f"{file}: read it and change what differs; next: medjudge run")
