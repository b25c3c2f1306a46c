"""`medjudge eval`: the answer-and-judge benchmark."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Optional

import typer

from medjudge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from medjudge.judge.open import JudgeRef
    from medjudge.records import Answer, Question
    from medjudge.store import Run
    from medjudge.workflows.judge import JudgeOptions


def evaluate(
    benchmark: Annotated[
        str, typer.Option(help="'sample', LLMEval-Med's dataset.json, or a .jsonl of questions.")
    ] = "sample",
    model: Annotated[
        Optional[list[str]],
        typer.Option(help="Model that answers first: folder, hub id or openai:MODEL. Repeatable."),
    ] = None,
    answers: Annotated[Optional[Path], typer.Option(help="Existing answers (.jsonl) instead.")] = None,
    judge: Annotated[str, typer.Option(help="local, a judge folder, openai:MODEL, or similarity.")] = "local",
    run: Annotated[
        Optional[Path], typer.Option(help="Run folder; runs/BENCHMARK unless given. An existing one goes on.")
    ] = None,
    samples: Annotated[int, typer.Option(min=1, help="Answers a question and model.")] = 3,
    rounds: Annotated[int, typer.Option(min=1, help="Times that each answer is judged.")] = 1,
    limit: Annotated[Optional[int], typer.Option(min=1, help="Only the first N questions.")] = None,
    offline: Annotated[bool, typer.Option("--offline", help="Fail rather than use the network.")] = False,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda.")] = "auto",
    engine: Annotated[
        str,
        typer.Option(
            help="transformers; vllm for --model; ray: models and local judges on the workers of a Ray cluster."
        ),
    ] = "transformers",
    seed: Annotated[int, typer.Option(help="Seed of the answers.")] = 0,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="The most tokens of an answer.")] = 1024,
    temperature: Annotated[float, typer.Option(min=0.0, help="Of the answering model; 0 for greedy.")] = 0.7,
    base_url: Annotated[Optional[str], typer.Option(help="Server of openai: models; key in OPENAI_API_KEY.")] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Requests under way at once.")] = 8,
    tokens_per_minute: Annotated[
        Optional[int], typer.Option(min=1, help="The most that a server's rate limit allows.")
    ] = None,
    max_cost: Annotated[
        Optional[float], typer.Option(min=0.0, help="Stop before this run costs more in all, USD.")
    ] = None,
    prices: Annotated[Optional[Path], typer.Option(help="YAML with prices, as medjudge/data/prices.yaml.")] = None,
    rationale: Annotated[int, typer.Option(min=0, help="Tokens of rationale from a generative judge.")] = 0,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what an openai: judge would cost, and ask nothing.")
    ] = False,
    batch: Annotated[
        bool, typer.Option("--batch", help="By OpenAI's Batch API: submit now, the same command collects later.")
    ] = False,
    wait: Annotated[bool, typer.Option("--wait", help="With --batch: stay until everything is judged.")] = False,
    defer_to_physicians: Annotated[
        Optional[float],
        typer.Option(min=0.0, max=1.0, help="Share of answers to list for physicians, the most uncertain first."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Judge a benchmark's answers: usability rates.

    Nothing but --judge: the bundled sample and its answers. Exits with 1 where an answer could not be scored.
    """
    from medjudge.cli.answer import AnswerOptions, answer_with_all, check_model, go_offline, open_benchmark

    if offline:
        go_offline()
    from medjudge.benchmark.sample import NOTICE, sample_folder
    from medjudge.chat_api.spending import Limit
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
    everything = open_benchmark(benchmark)
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
    options = JudgeOptions(device, rounds, base_url, concurrency, rationale, tokens_per_minute, at_most, engine)
    if dry_run:
        if model:
            raise InputError("--dry-run: the answers of --model are not there yet; run `medjudge answer` first")
        _say_cost(folder, questions, given or folder.answers(), chosen, options, batch, as_json)
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
            start_run(folder, questions, benchmark, command)
            if benchmark == "sample":
                folder.update_manifest(notes=[NOTICE])
            if given is not None:
                take_answers(folder, given, str(file))
            group.wait()
        answer_with_all(folder, model or [], answering, group)
        if batch:
            from medjudge.workflows.batch import judge_by_batch

            under_way = judge_by_batch(folder, chosen, options, wait)
            if under_way:
                _say_under_way(under_way, folder, as_json)
                return
        else:
            here = chosen.folder is not None and engine != "ray"
            with peak_memory_told(f"judging with {chosen.name}", device if here else None):
                judge_answers(folder, chosen, options, group=group)
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
    screen.print(f"judge {chosen.name}: {scores['standing']['OP']['line']}")
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
    work = not_judged(assignments(questions, answers, options.rounds), kept)
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
