"""`medjudge compare`: two models' answers at a time, and the ranking."""

from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Optional

import typer

from medjudge.cli import groups, options
from medjudge.cli.options import flags, names_in, option

if TYPE_CHECKING:
    from medjudge.workflows.compare import Comparison


@dataclass(kw_only=True)
class Compare(groups.Output, groups.ApiJudging):
    """The options of `medjudge compare`."""

    run: options.RunFolder
    judge: options.JudgeOrJudgments = "local"
    models: options.Models = None
    budget: Optional[int] = option(None, "N", "Judge at most N pairs, drawn at random. Default: all pairs.")
    length_control: bool = option(False, None, "Rank as if all answers were of equal length.")
    seed: options.Seed = 0
    offline: options.Offline = False


@flags
def compare(options: Compare) -> None:
    """Rank models by pairs of answers: which of two is better, judged in both orders.

    A pair whose orders disagree counts as a tie. Exits with 1 if a pair has no verdict.
    """
    from medjudge.workflows.compare import CompareOptions
    from medjudge.workflows.compare import compare as compare_run

    comparison = compare_run(
        options.run,
        options.judge,
        CompareOptions(
            models=names_in(options.models),
            budget=options.budget,
            length_control=options.length_control,
            seed=options.seed,
            judging=options.judging(),
            offline=options.offline,
        ),
    )
    _print(comparison, options.as_json)
    if not comparison.complete:
        raise typer.Exit(1)


def _print(comparison: "Comparison", as_json: bool) -> None:
    from medjudge.cli.output import console
    from medjudge.cli.study_screens import ranking_table, summary_lines
    from medjudge.judge.pairs import comparison_file

    screen, study = console(as_json, comparison.as_json()), comparison.study
    screen.print(ranking_table(study))
    for line in summary_lines(study):
        screen.print(line)
    if comparison.spent_usd is not None:
        screen.print(f"spent on this run in total: {comparison.spent_usd:.4f} USD ({comparison.run.spending_file})")
    file = comparison_file(comparison.run, study.judge)
    screen.print(f"\n{file} has everything; next: medjudge report {quote(str(comparison.run.path))}")
