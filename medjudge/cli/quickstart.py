"""`medjudge quickstart`: the full pipeline on the bundled sample."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from medjudge.cli import groups, options
from medjudge.cli.options import flags, option
from medjudge.offline import go_offline


@dataclass(kw_only=True)
class Quickstart(groups.Output):
    """The options of `medjudge quickstart`."""

    run: Path = option(
        Path("runs/quickstart"), "FOLDER", "Run folder to write; one of an earlier quickstart is replaced."
    )
    judge: Path = option(
        Path("judges/quickstart"), "FOLDER", "Judge folder to write; one of an earlier quickstart is replaced."
    )
    epochs: int = option(1, "N", "Passes over the training set.", min=1)
    seed: options.Seed = 0


@flags
def quickstart(options: Quickstart) -> None:
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
    screen = console(options.as_json)
    result = run_quickstart(options.run, options.judge, options.epochs, options.seed, progress=screen.print)
    if options.as_json:
        print_json(result.as_json())
    questions = result.studies[0].questions
    title = f"\nAgreement with the sample's constructed levels ({questions} unseen questions, 95 % interval)"
    rates_title = f"\nUsability rates of the sample's five answer sets by judge {options.judge.name}"
    screen.print(leaderboard_table(result.scores.models, rates_title, result.scores.validation_status))
    screen.print(agreement_table(list(result.studies), title))
    screen.print(NOTICE)
    screen.print(
        f"\nDone in {time.monotonic() - start:.0f} s. Report: {result.page}\n"
        f"Next: medjudge eval --judge {quote(str(result.judge))} --benchmark FILE --answers FILE"
    )
