"""`medjudge eval`: the answer-and-judge benchmark."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from medjudge.cli import options
from medjudge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from medjudge.judge.open import JudgeRef
    from medjudge.records import Answer, Question
    from medjudge.scheme import Scheme
    from medjudge.store import Run
    from medjudge.workflows.judge import JudgeOptions


def evaluate(
    benchmark: options.Benchmark = "sample",
    scheme: options.Scheme = None,
    model: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="MODEL",
            help="Model that answers first: folder, hub id, or openai:MODEL. Repeatable.",
            rich_help_panel=options.ANSWERING,
        ),
    ] = None,
    answers: Annotated[Optional[Path], typer.Option(metavar="FILE", help="Existing answers (.jsonl).")] = None,
    judge: options.Judge = "local",
    run: options.NewRun = None,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    samples: options.Samples = 3,
    max_new_tokens: options.MaxNewTokens = 1024,
    temperature: options.Temperature = 0.7,
    rounds: options.Rounds = 1,
    rationale: Annotated[
        int,
        typer.Option(
            metavar="N", min=0, help="Tokens of rationale from a generative judge.", rich_help_panel=options.JUDGING
        ),
    ] = 0,
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
    offline: options.Offline = False,
    as_json: options.AsJson = False,
) -> None:
    """Judge a benchmark's answers: usability rates.

    Nothing but --judge: the bundled sample and its answers. Exits with 1 where an answer could not be scored.
    """
    from medjudge.benchmark.sample import NOTICE, sample_folder
    from medjudge.chat_api.spending import Limit
    from medjudge.cli.answer import AnswerOptions, answer_with_all, check_model, open_benchmark
    from medjudge.cli.output import console, leaderboard_table, print_json
    from medjudge.judge.open import check_judge_ref, resolve_judge
    from medjudge.models.hardware import peak_memory_told
    from medjudge.parallel.group import check_sharing, join
    from medjudge.records import Answer
    from medjudge.store import Run, read_records
    from medjudge.workflows.defer import defer
    from medjudge.workflows.judge import JudgeOptions, answers_to, judge_answers, start_run, take_answers, write_scores

    if model and answers:
        raise InputError("--model and --answers: give one of the two; a model answers, or existing answers are judged")
    group = join(device)
    if not group.first:
        group.wait()  # until the first has looked at everything, so that one wrong option is one message
    # Everything that can be wrong is looked at before anything is written or paid for.
    check_sharing(group, engine, device, [f"--judge {judge}", *[f"--model {name}" for name in model or []]])
    chosen = resolve_judge(judge)
    at_most = Limit(max_cost, prices)
    if (dry_run or batch or wait) and chosen.api_model is None:
        raise InputError(f"--dry-run, --batch, --wait: for an openai: judge; {judge} works here and costs nothing")
    if wait and not batch:
        raise InputError("--wait: belongs to --batch")
    if not dry_run:
        check_judge_ref(chosen, base_url, offline, at_most)
    if defer_to_physicians is not None and chosen.api_model is not None:
        raise InputError(f"--defer-to-physicians: {judge} gives no probabilities; take a local judge")
    opened = open_benchmark(benchmark, scheme)
    everything = opened.questions
    questions = everything[:limit]
    file = answers or (sample_folder() / "answers.jsonl" if benchmark == "sample" and not model else None)
    given = None if file is None else answers_to(everything, limit, read_records(file, Answer), str(file))
    answering = AnswerOptions(
        samples,
        seed,
        device,
        max_new_tokens,
        temperature,
        base_url,
        concurrency,
        tokens_per_minute,
        max_cost,
        prices,
        engine,
    )
    for name in model or []:
        check_model(name, offline, answering)
    folder = Run(run or Path("runs") / Path(benchmark).stem)
    if given is None and not model and not folder.answers_file.exists():
        raise InputError("no answers to judge: give --answers FILE, or --model ID to answer first")
    judging = JudgeOptions(device, rounds, base_url, concurrency, rationale, tokens_per_minute, at_most, engine)
    if dry_run:
        if model:
            raise InputError("--dry-run: the answers of --model are not there yet; run `medjudge answer` first")
        _say_cost(folder, opened.scheme, questions, given or folder.answers(), chosen, judging, batch, as_json)
        return
    command = {
        "benchmark": benchmark,
        "models": model,
        "judge": judge,
        "samples": samples,
        "rounds": rounds,
        "seed": seed,
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
    }
    with folder.lock() if group.first else nullcontext():
        if group.first:
            start_run(folder, questions, opened.scheme, benchmark, command)
            if benchmark == "sample":
                folder.update_manifest(notes=[NOTICE])
            if given is not None:
                take_answers(folder, given, str(file))
            group.wait()
        answer_with_all(folder, model or [], answering, group)
        if batch:
            from medjudge.workflows.batch import judge_by_batch

            under_way = judge_by_batch(folder, chosen, judging, wait)
            if under_way:
                _say_under_way(under_way, folder, as_json)
                return
        else:
            here = chosen.folder is not None and engine != "ray"
            with peak_memory_told(f"judging with {chosen.name}", device if here else None):
                judge_answers(folder, chosen, judging, group=group)
        if not group.first:
            return
        scores, covered = write_scores(folder, chosen.name)
        deferred = None if defer_to_physicians is None else defer(folder, chosen, defer_to_physicians)

    screen = console(as_json)
    if as_json:
        print_json(scores)
    else:
        screen.print(leaderboard_table(scores, f"Usability rates by judge {chosen.name}, percent (95 % interval)"))
    if benchmark == "sample":
        screen.print(NOTICE)
    without = sum(rates["OP"]["unscored"] for rates in scores["models"].values())
    screen.print(
        f"{covered['answers']} answers judged, {covered['unscored']} unscored; {without} questions without any score"
    )
    screen.print(f"judge {chosen.name}: {scores['validation_status']['OP']['line']}")
    spent = folder.manifest().get("spending")
    if spent is not None and spent["usd"] is not None:
        screen.print(f"spent on this run in all: {spent['usd']:.4f} USD ({folder.spending_file})")
    if deferred is not None:
        screen.print(f"{deferred.answers} answers for physicians to look at, {deferred.by}: {deferred.file}")
    screen.print(f"{folder.path / 'scores.json'}; next: medjudge report {folder.path}")
    if covered["unscored"] or without:
        raise typer.Exit(1)


def _say_cost(
    run: "Run",
    scheme: "Scheme",
    questions: "Sequence[Question]",
    answers: "Sequence[Answer]",
    chosen: "JudgeRef",
    options: "JudgeOptions",
    batch: bool,
    as_json: bool,
) -> None:
    from medjudge.chat_api.spending import Limit, Spending
    from medjudge.cli.output import console, print_json
    from medjudge.judge.protocol import assignments
    from medjudge.workflows.dry_run import estimate, told
    from medjudge.workflows.judge import not_judged

    kept = [one for one in run.judgments(chosen.name) if not one.retryable]
    work = not_judged(assignments(questions, answers, options.rounds, scheme), kept)
    found = estimate(work, chosen.api_model or "", Spending(run, Limit(None, options.limit.prices)), batch)
    if as_json:
        print_json(found)
    for line in told(found):
        console(as_json).print(line)


def _say_under_way(under_way: "Sequence[str]", run: "Run", as_json: bool) -> None:
    from medjudge.cli.output import console, print_json

    if as_json:
        print_json({"run": str(run.path), "under_way": under_way})
    for line in under_way:
        console(as_json).print(line)
    console(as_json).print("The same command collects the judgments; --wait stays until they are there.")
