"""`medjudge eval`: the answer-and-judge benchmark."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from medjudge.cli import options
from medjudge.errors import InputError

if TYPE_CHECKING:
    from rich.console import Console

    from medjudge.judge.cascade import CascadeRecord
    from medjudge.judge.panel import PanelRecord
    from medjudge.workflows.cost_estimate import CostEstimate, PanelCostEstimate
    from medjudge.workflows.evaluate import Evaluation, InFlight


def evaluate(
    benchmark: options.Benchmark = "sample",
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    model: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="MODEL",
            help="Model that answers first: folder, hub id, or openai:MODEL. Repeatable.",
            rich_help_panel=options.ANSWERING,
        ),
    ] = None,
    answers: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="Existing answers: .jsonl, .json, .csv, .xlsx.")
    ] = None,
    judge: options.JudgeOrPanel = "local",
    run: options.NewRun = None,
    limit: options.Limit = None,
    ids: options.Ids = None,
    per_category: options.PerCategory = None,
    answered_only: options.AnsweredOnly = False,
    seed: options.Seed = 0,
    samples: options.Samples = 3,
    max_new_tokens: options.MaxNewTokens = 1024,
    temperature: options.Temperature = 0.7,
    thinking: options.Thinking = "default",
    thinking_tokens: options.ThinkingTokens = 8192,
    system: options.System = None,
    rounds: options.Rounds = 1,
    judge_tokens: options.JudgeTokens = None,
    rationale: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Tokens of rationale from a generative judge.", rich_help_panel=options.JUDGING
        ),
    ] = 0,
    attention: options.Attention = None,
    compile_model: options.Compile = False,
    judge_quantization: options.JudgeQuantization = None,
    items: Annotated[
        bool,
        typer.Option(
            "--items",
            help="Also judge every item of the questions' rubrics or numbered checklists.",
            rich_help_panel=options.JUDGING,
        ),
    ] = False,
    defer_to_physicians: Annotated[
        Optional[float],
        typer.Option(
            metavar="SHARE",
            min=0.0,
            max=1.0,
            help="Share of answers to list for physicians, the most uncertain first.",
            rich_help_panel=options.JUDGING,
        ),
    ] = None,
    escalate_to: Annotated[
        Optional[str],
        typer.Option(
            metavar="openai:MODEL",
            help="Judge behind an API for the answers that a validated local judge leaves open.",
            rich_help_panel=options.JUDGING,
        ),
    ] = None,
    error_rate: Annotated[
        Optional[float],
        typer.Option(
            metavar="SHARE",
            min=0.001,
            max=0.999,
            help="--escalate-to: how often the local judge may be wrong about what it settles. Default: 0.1.",
            rich_help_panel=options.JUDGING,
        ),
    ] = None,
    base_url: options.BaseUrl = None,
    concurrency: options.Concurrency = 8,
    tokens_per_minute: options.TokensPerMinute = None,
    max_cost: options.MaxCost = None,
    prices: options.Prices = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Estimate what an openai: judge would cost; send no request.",
            rich_help_panel=options.SERVERS,
        ),
    ] = False,
    batch: Annotated[
        bool,
        typer.Option(
            "--batch",
            help="Use OpenAI's Batch API: submit now; the same command collects later.",
            rich_help_panel=options.SERVERS,
        ),
    ] = False,
    wait: Annotated[
        bool,
        typer.Option("--wait", help="With --batch: wait until everything is judged.", rich_help_panel=options.SERVERS),
    ] = False,
    device: options.Device = "auto",
    engine: options.Engine = "transformers",
    judge_engine: options.JudgeEngine = None,
    tensor_parallel: options.TensorParallel = 1,
    gpu_share: options.GpuShare = 0.9,
    offline: options.Offline = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    as_json: options.AsJson = False,
) -> None:
    """Judge a benchmark's answers: usability rates.

    With nothing but --judge, the bundled sample and its answers are judged. Exits with 1 if an answer could not be
    scored.
    """
    if wait and not batch:
        raise InputError("--wait: belongs to --batch")
    if error_rate is not None and escalate_to is None:
        raise InputError("--error-rate: belongs to --escalate-to")
    from medjudge.answer.thinking import ThinkingOptions
    from medjudge.answer.vllm_engine import VllmMemory
    from medjudge.chat_api.client import Server
    from medjudge.chat_api.spending import Limit
    from medjudge.judge.api import reply_options
    from medjudge.judge.inference import Inference
    from medjudge.workflows.answer import AnswerOptions
    from medjudge.workflows.choice import Choice
    from medjudge.workflows.cost_estimate import estimate_cost
    from medjudge.workflows.escalate import Escalation
    from medjudge.workflows.evaluate import EvaluationRequest, InFlight, run_batch_evaluation, run_evaluation
    from medjudge.workflows.judge import JudgeOptions

    gpus = VllmMemory(tensor_parallel, gpu_share)
    judging_engine = judge_engine or ("transformers" if engine == "vllm" else engine)
    thought = ThinkingOptions(thinking, thinking_tokens)  # type: ignore[arg-type]  # checked before any work
    server, cost_limit = Server(base_url, concurrency, tokens_per_minute), Limit(max_cost, prices)
    request = EvaluationRequest(
        benchmark=benchmark,
        scheme=scheme,
        models=tuple(model or ()),
        answers=answers,
        judge=judge,
        run=run,
        limit=limit,
        choice=Choice(ids, per_category, answered_only),
        offline=offline,
        defer_share=defer_to_physicians,
        escalation=Escalation(escalate_to, error_rate or 0.1) if escalate_to else None,
        items=items,
        answering=AnswerOptions(
            samples, seed, max_new_tokens, temperature, device, engine, server, cost_limit, thought, system, gpus
        ),
        judging=JudgeOptions(
            device,
            judging_engine,
            rounds,
            Inference(rationale, attention, compile_model),
            judge_quantization,
            server,
            cost_limit,
            gpus,
            reply_options(judge_tokens, thinking, thinking_tokens),
        ),
    )
    if dry_run:
        _print_cost(estimate_cost(request, batch), as_json)
        return
    result = run_batch_evaluation(request, wait) if batch else run_evaluation(request)
    if isinstance(result, InFlight):
        _print_in_flight(result, as_json)
    elif result.first_process:
        _print_evaluation(result, as_json)
        if not result.complete:
            raise typer.Exit(1)


def _print_evaluation(result: "Evaluation", as_json: bool) -> None:
    from medjudge.cli.output import console, leaderboard_table, print_json

    screen = console(as_json)
    if as_json:
        variance = {"variance": result.variance.model_dump(mode="json")} if result.variance else {}
        items = {"items": result.items.model_dump(mode="json")} if result.items else {}
        print_json({**result.scores.as_json(), **items, **variance})
    else:
        title = f"Usability rates by judge {result.judge}, percent (95 % interval)"
        screen.print(leaderboard_table(result.scores.models, title, result.scores.validation_status))
    for note in result.notes:
        screen.print(note)
    answers, questions = result.scores.coverage, result.scores.questions
    why = f" ({answers.why})" if answers.unscored else ""
    screen.print(f"{answers.answers} answers judged, {answers.unscored} unscored{why}")
    screen.print(
        f"{questions.questions} questions: {questions.not_answered} not answered by any model, {questions.unscored} "
        "answered and without any score"
    )
    screen.print(f"judge {result.judge}: {result.status_line}")
    if result.spent_usd is not None:
        screen.print(f"spent on this run in total: {result.spent_usd:.4f} USD ({result.run.spending_file})")
    if result.deferred is not None:
        screen.print(
            f"{result.deferred.answers} answers for physicians to look at, {result.deferred.by}: {result.deferred.file}"
        )
    if result.cascade is not None:
        _print_cascade(result, result.cascade, screen)
    if result.panel is not None:
        _print_panel(result.panel, screen)
    if result.items is not None:
        from medjudge.cli.item_screen import print_items

        print_items(result.items, screen)
    for line in result.variance.lines if result.variance else ():
        screen.print(line)
    screen.print(f"{result.run.path / 'scores.json'}; next: medjudge report {quote(str(result.run.path))}")


def _print_cascade(result: "Evaluation", cascade: "CascadeRecord", screen: "Console") -> None:
    for stage in cascade.stages:
        screen.print(stage.line)
    if cascade.asked_again:
        screen.print(f"{cascade.asked_again} requests failed; the same command sends them again")
    if cascade.for_people:
        screen.print(
            f"{cascade.for_people} answers left to people: {result.run.path / cascade.file}; next: medjudge annotate "
            f"export {result.run.path} --rater NAME --which deferred"
        )


def _print_panel(panel: "PanelRecord", screen: "Console") -> None:
    for member in panel.members:
        screen.print(f"member {member.line}")
    if not panel.calibrated_on:
        why = "the run has no physicians' scores, or too few"
        screen.print(f"members are not calibrated: {why}; `medjudge validate` calibrates them")
    for member in panel.members:
        if member.waiting:
            screen.print(f"{member.judge}: {member.waiting} answers not judged yet; the same command goes on with them")


def _print_cost(estimate: "CostEstimate | PanelCostEstimate", as_json: bool) -> None:
    from medjudge.cli.output import console, print_json

    if as_json:
        print_json(estimate.as_json())
    for line in estimate.summary_lines():
        console(as_json).print(line)


def _print_in_flight(in_flight: "InFlight", as_json: bool) -> None:
    from medjudge.cli.output import console, print_json

    if as_json:
        print_json(in_flight.as_json())
    screen = console(as_json)
    for line in in_flight.batch_jobs:
        screen.print(line)
    screen.print("The same command collects the judgments later; --wait waits for them.")
