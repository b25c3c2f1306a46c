"""`medjudge compare`: two models' answers at a time, and the ranking."""

from shlex import quote
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from medjudge.cli import options

if TYPE_CHECKING:
    from medjudge.workflows.compare import Comparison


def compare(
    run: options.RunFolder,
    judge: options.JudgeOrJudgments = "local",
    models: Annotated[
        Optional[str], typer.Option(metavar="NAMES", help="Models to compare: a,b,c. Default: all of the run.")
    ] = None,
    budget: Annotated[
        Optional[int],
        typer.Option(metavar="N", help="Judge at most N pairs, the most informative ones first. Default: all pairs."),
    ] = None,
    length_control: Annotated[
        bool,
        typer.Option("--length-control", help="Rank as if all answers were of equal length."),
    ] = False,
    seed: options.Seed = 0,
    judge_tokens: options.JudgeTokens = None,
    thinking: options.JudgeThinking = "default",
    base_url: options.BaseUrl = None,
    concurrency: options.Concurrency = 8,
    tokens_per_minute: options.TokensPerMinute = None,
    max_cost: options.MaxCost = None,
    prices: options.Prices = None,
    device: options.Device = "auto",
    offline: options.Offline = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    as_json: options.AsJson = False,
) -> None:
    """Rank models by pairs of answers: which of two is better, judged in both orders.

    A pair whose orders disagree counts as a tie. Exits with 1 if a pair has no verdict.
    """
    from medjudge.chat_api.client import Server
    from medjudge.chat_api.spending import Limit
    from medjudge.judge.api import reply_options
    from medjudge.judge.open import JudgeOptions
    from medjudge.validation.comparison import PairSettings
    from medjudge.workflows.compare import CompareOptions
    from medjudge.workflows.compare import compare as compare_run

    server = Server(base_url, concurrency, tokens_per_minute)
    comparison = compare_run(
        run,
        judge,
        CompareOptions(
            models=tuple(name.strip() for name in (models or "").split(",") if name.strip()),
            budget=budget,
            settings=PairSettings(length_control, seed=seed),
            judging=JudgeOptions(
                device=device,
                server=server,
                limit=Limit(max_cost, prices),
                replies=reply_options(judge_tokens, thinking),
            ),
            offline=offline,
        ),
    )
    _print(comparison, as_json)
    if not comparison.complete:
        raise typer.Exit(1)


def _print(comparison: "Comparison", as_json: bool) -> None:
    from medjudge.cli.output import console, print_json
    from medjudge.cli.pair_screen import ranking_table, summary_lines
    from medjudge.judge.pairs import comparison_file

    screen, study = console(as_json), comparison.study
    if as_json:
        print_json(comparison.as_json())
    screen.print(ranking_table(study))
    for line in summary_lines(study):
        screen.print(line)
    if comparison.spent_usd is not None:
        screen.print(f"spent on this run in total: {comparison.spent_usd:.4f} USD ({comparison.run.spending_file})")
    file = comparison_file(comparison.run, study.judge)
    screen.print(f"\n{file} has everything; next: medjudge report {quote(str(comparison.run.path))}")
