"""`medjudge init` and `run`: a study in one file."""

import io
import json
import signal
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from dataclasses import dataclass
from shlex import join
from typing import Any, Optional

import typer

from medjudge.cli import options
from medjudge.cli.options import flags, option
from medjudge.screen import say


@dataclass(kw_only=True)
class Init:
    """The options of `medjudge init`."""

    benchmark: options.Benchmark = "sample"
    answers: Optional[str] = option(None, "FILE", "Existing answers: .jsonl, .json, .csv, .xlsx.")
    model: Optional[list[str]] = option(
        None, "MODEL", "Model that answers: folder, hub id, or openai:MODEL. Repeatable."
    )
    judge: Optional[list[str]] = option(
        None,
        "JUDGE",
        "local, built-in, similarity, a judge folder, or openai:MODEL. Repeatable. Default: local.",
    )
    rater: Optional[list[str]] = option(None, "NAME", "Name or e-mail address of a physician. Repeatable.")
    as_json: options.AsJson = False


@flags
def init(options: Init) -> None:
    """Write a commented project file, medjudge.yaml, into the current folder.

    `medjudge run` carries out the study that it describes.
    """
    from medjudge.cli.output import console
    from medjudge.workflows.project import write_project

    file = write_project(
        options.benchmark, options.answers, options.model or [], options.judge or ["local"], options.rater or []
    )
    screen = console(options.as_json, {"file": str(file)})
    screen.print(f"{file}: read it and change what differs; next: medjudge run")


def run(context: typer.Context, quiet: options.Quiet = False, as_json: options.AsJson = False) -> None:
    """Carry out the study of the project file, medjudge.yaml: models answer, judges score, a page reports.

    Each command is printed before it runs. What the run folder holds already is not done again. Physicians' scores that
    exist validate the judges; where there are none yet, a form for each rater is written. Exits with 1 if one of the
    commands does.
    """
    from medjudge.cli.output import print_json
    from medjudge.workflows.project import has_scores, read_project, study_commands

    project = read_project()
    results: list[dict[str, Any]] = []
    failed = False
    for words in study_commands(project):
        say(f"$ medjudge {join(words)}")
        output = io.StringIO()
        with redirect_stdout(output) if as_json else nullcontext():
            failed |= _exits_with_1(context, words, quiet, as_json)
        if as_json:
            results.append({"command": words, "result": json.loads(output.getvalue())})
    if as_json:
        print_json({"run": project.run_folder, "steps": results})
    if project.raters and not has_scores(project):
        say(
            f"no physicians' scores in {project.run_folder} yet: collect them with `medjudge annotate import` or "
            "`medjudge annotate serve`, then run the same command again"
        )
    if failed:
        raise typer.Exit(1)


def _exits_with_1(context: typer.Context, words: Sequence[str], quiet: bool, as_json: bool) -> bool:
    """Runs a command of this app."""
    assert context.parent is not None
    shown = ["--quiet"] if quiet and words[0] in ("eval", "validate") else []
    shown += ["--json"] if as_json else []
    app: Any = context.parent.command
    status = app.main([*words, *shown], prog_name="medjudge", standalone_mode=False)
    if status == 128 + signal.SIGINT:  # typer catches Ctrl-C and returns this
        raise KeyboardInterrupt
    return bool(status)
