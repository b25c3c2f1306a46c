"""`medjudge compare`: two models' answers at a time, and the ranking."""

from shlex import quote
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from medjudge.cli import options

if TYPE_CHECKING:
    from rich.table import Table

    from medjudge.judge.pair_study import PairAgreement, PairStudy, PhysicianPairStudy
    from medjudge.statistics.estimates import Estimate
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
    from medjudge.validation.pair_study import PairSettings
    from medjudge.workflows.compare import CompareOptions
    from medjudge.workflows.compare import compare as compare_run
    from medjudge.workflows.judge import JudgeOptions

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
    from medjudge.judge.pairs import comparison_file

    screen, study = console(as_json), comparison.study
    if as_json:
        print_json(comparison.as_json())
    screen.print(_ranking_table(study))
    for line in summary_lines(study):
        screen.print(line)
    if comparison.spent_usd is not None:
        screen.print(f"spent on this run in total: {comparison.spent_usd:.4f} USD ({comparison.run.spending_file})")
    file = comparison_file(comparison.run, study.judge)
    screen.print(f"\n{file} has everything; next: medjudge report {quote(str(comparison.run.path))}")


def summary_lines(study: "PairStudy") -> list[str]:
    """What a comparison says beside the ranking, a line each."""
    of = f" of {study.possible}" if study.pairs < study.possible else ""
    lines = [f"{study.pairs}{of} pairs on {study.questions} questions, {study.judged} with a verdict"]
    lines += [f"  without a verdict: {count}, {reason}" for reason, count in study.unjudged.items()]
    if study.shortened:
        lines.append(f"{study.shortened} prompts did not hold both answers in full; their middle was left out")
    if study.swaps is not None:
        swapped = study.swaps
        lines.append(
            f"swap consistency {_percent(swapped.consistency)}: {swapped.disagreeing} pairs changed with the order and "
            "count as ties"
        )
        lines.append(
            f"position bias: {_percent(swapped.shown_first)} of decided verdicts prefer the answer shown first"
        )
    length = study.ranking.length
    if length is not None:
        lines.append(f"length: {_span(length)} on the strength of the longer answer; strengths hold for equal length")
    if study.pointwise is not None:
        single = study.pointwise
        lines.append(f"single scores on the same pairs: {_agreement(single.with_pairs)}")
        lines.append(f"  mean distance of the share of the win: {_span(single.difference)}")
        if single.other_order:
            apart = ", ".join(f"{first} / {second}" for first, second in single.other_order)
            lines.append(f"  ranked in the other order: {apart}")
    elif study.how == "pairs":
        lines.append("no scores of single answers by this judge; `medjudge eval` makes them, to compare both ways")
    return [*lines, *physician_lines(study.physicians)]


def physician_lines(people: "PhysicianPairStudy | None") -> list[str]:
    """What physicians' pairs say of the judge's, a line each; none where there are none."""
    if people is None:
        return []
    who = "constructed pairs, not physicians'" if people.constructed else f"physicians ({', '.join(people.raters)})"
    lines = [f"pairs against {who}: {_agreement(people.judge)}"]
    if people.pointwise is not None:
        lines.append(f"  by its scores of single answers: {_agreement(people.pointwise)}")
    if people.among is not None:
        lines.append(f"  physicians with each other: {_agreement(people.among)}")
    return lines


def _ranking_table(study: "PairStudy") -> "Table":
    from rich.table import Table

    how = "pairs" if study.how == "pairs" else "scores of single answers"
    table = Table(
        title=f"Ranking by {how} of judge {study.judge} (95 % interval)",
        title_justify="left",
        box=None,
        pad_edge=False,
        header_style="bold",
        collapse_padding=True,
    )
    table.add_column("Model", overflow="fold", max_width=28)
    for heading in ("strength", "expected\nwins, %", "wins", "ties", "losses"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in study.ranking.models:
        counts = [str(count) for count in (row.wins, row.ties, row.losses)]
        table.add_row(row.model, _cell(row.strength, 2), _cell(row.win_share, 1, 100), *counts)
    return table


def _cell(value: "Estimate", digits: int, times: int = 1) -> str:
    middle, low, high = value["value"], value["low"], value["high"]
    if middle is None:
        return "-"
    shown = f"{times * middle:.{digits}f}"
    return shown if low is None or high is None else f"{shown}\n{times * low:.{digits}f} to {times * high:.{digits}f}"


def _agreement(agreement: "PairAgreement") -> str:
    return (
        f"agreement {_percent(agreement.agreement)}, kappa {_span(agreement.kappa)}, where both decide "
        f"{_percent(agreement.decided)}, {agreement.pairs} pairs"
    )


def _percent(value: "Estimate") -> str:
    from medjudge.cli.estimates import percent

    return percent(value)


def _span(value: "Estimate") -> str:
    from medjudge.cli.estimates import span

    return span(value)
