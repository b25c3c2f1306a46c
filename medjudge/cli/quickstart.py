"""`medjudge quickstart`: the full pipeline on the bundled sample."""

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from medjudge.cli import options
from medjudge.offline import go_offline


def quickstart(
    run: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Run folder to write; one of an earlier quickstart is replaced.")
    ] = Path("runs/quickstart"),
    judge: Annotated[
        Path, typer.Option(metavar="FOLDER", help="Judge folder to write; one of an earlier quickstart is replaced.")
    ] = Path("judges/quickstart"),
    epochs: Annotated[int, typer.Option(metavar="N", min=1, help="Passes over the training set.")] = 3,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    as_json: options.AsJson = False,
) -> None:
    """Run the full pipeline on the bundled sample.

    A language model answers, the built-in judge scores, and a judge that continues from it is distilled, trained and
    validated: on the CPU, without a network or a key, in a few minutes. Replaces its own folders from an earlier run.
    """
    import time

    go_offline()
    from medjudge.benchmark.sample import NOTICE
    from medjudge.cli.output import agreement_table, console, leaderboard_table, print_json
    from medjudge.workflows.quickstart import run_quickstart

    start = time.monotonic()
    screen = console(as_json)
    result = run_quickstart(run, judge, epochs, seed, progress=screen.print)
    if as_json:
        print_json(result.as_json())
    questions = result.studies[0].questions
    title = f"\nAgreement with the sample's constructed levels ({questions} unseen questions, 95 % interval)"
    rates_title = f"\nUsability rates of the sample's five answer sets by judge {judge.name}"
    screen.print(leaderboard_table(result.scores.models, rates_title, result.scores.validation_status))
    screen.print(agreement_table(list(result.studies), title))
    screen.print(NOTICE)
    screen.print(
        f"\nDone in {time.monotonic() - start:.0f} s. Report: {result.page}\n"
        f"Next: medjudge eval --judge {quote(str(result.judge))} --benchmark FILE --answers FILE"
    )
