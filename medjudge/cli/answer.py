"""`medjudge answer`: only the answers."""

from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NamedTuple

import typer

from medjudge.cli import options
from medjudge.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from medjudge.benchmark.llmeval_med import Benchmark
    from medjudge.parallel.group import Group
    from medjudge.records import Answer, Question
    from medjudge.store import Run


_AT_A_SERVER = "openai:"


class AnswerOptions(NamedTuple):
    """How models answer."""

    samples: int
    seed: int
    device: str
    max_new_tokens: int
    temperature: float
    base_url: str | None = None
    concurrency: int = 8
    tokens_per_minute: int | None = None
    max_cost: float | None = None
    prices: Path | None = None
    engine: str = "transformers"


class _Answering(NamedTuple):
    """A model that is ready to answer: its name, where it comes from, which revision that is, and what answers."""

    name: str
    source: str
    revision: str | None
    answer_questions: "Callable[[Sequence[Question], int, int, Sequence[Answer]], Iterator[Answer]]"


def answer(
    model: Annotated[
        list[str],
        typer.Option(
            metavar="MODEL", help="Folder, hub id, or openai:MODEL. Repeatable.", rich_help_panel=options.ANSWERING
        ),
    ],
    benchmark: options.Benchmark = "sample",
    scheme: options.Scheme = None,
    run: options.NewRun = None,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    samples: options.Samples = 3,
    max_new_tokens: options.MaxNewTokens = 1024,
    temperature: options.Temperature = 0.7,
    base_url: options.BaseUrl = None,
    concurrency: options.Concurrency = 8,
    tokens_per_minute: options.TokensPerMinute = None,
    max_cost: options.MaxCost = None,
    prices: options.Prices = None,
    device: options.Device = "auto",
    engine: options.Engine = "transformers",
    offline: options.Offline = False,
    as_json: options.AsJson = False,
) -> None:
    """Answer a benchmark's questions with models."""
    from medjudge.cli.output import console, print_json
    from medjudge.parallel.group import check_sharing, join
    from medjudge.store import Run
    from medjudge.workflows.judge import start_run

    group = join(device)
    if not group.first:
        group.wait()  # until the first has looked at everything, so that one wrong option is one message
    check_sharing(group, engine, device, [f"--model {name}" for name in model])
    opened = open_benchmark(benchmark, scheme)
    questions = opened.questions[:limit]
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
    for name in model:
        check_model(name, offline, answering)
    folder = Run(run or Path("runs") / Path(benchmark).stem)
    command = {
        "benchmark": benchmark,
        "models": model,
        "samples": samples,
        "seed": seed,
        "max_new_tokens": max_new_tokens,
        "temperature": temperature,
    }
    with folder.lock() if group.first else nullcontext():
        if group.first:
            start_run(folder, questions, opened.scheme, benchmark, command)
            group.wait()
        answer_with_all(folder, model, answering, group)
    if not group.first:
        return
    answers = folder.answers()
    empty = sum(not one.text.strip() for one in answers)
    if as_json:
        print_json({"run": str(folder.path), "answers": len(answers), "empty": empty})
    console(as_json).print(
        f"{len(answers)} answers in {folder.answers_file}, {empty} of them empty; next: medjudge eval --judge local "
        f"--benchmark {benchmark} --run {folder.path}"
    )


def open_benchmark(source: str, scheme: str | None) -> "Benchmark":
    """A benchmark's questions and their scheme."""
    from medjudge.benchmark.files import read_benchmark
    from medjudge.scheme import open_scheme

    return read_benchmark(source, None if scheme is None else open_scheme(scheme))


def check_model(model: str, offline: bool, options: AnswerOptions) -> None:
    """Finds out before anything is written whether a model can answer; raises InputError where it cannot."""
    if model.startswith(_AT_A_SERVER):
        from medjudge.chat_api.client import check_server
        from medjudge.chat_api.spending import Limit

        name = model.removeprefix(_AT_A_SERVER)
        if not name:
            raise InputError("--model openai: no model named; write for example --model openai:gpt-4o")
        limit = Limit(options.max_cost, options.prices)
        check_server(f"--model {model}", name, options.base_url, offline, limit)
        return
    from medjudge.answer.transformers_engine import require_chat_model

    require_chat_model(model)


def answer_with_all(run: "Run", models: "Sequence[str]", options: AnswerOptions, group: "Group") -> None:
    """Answers with one model after the other: each is out of memory before the next one is loaded."""
    from medjudge.models.hardware import peak_memory_told

    for name in models:
        here = options.engine == "transformers" and not name.startswith(_AT_A_SERVER)
        with peak_memory_told(f"answering with {name}", options.device if here else None):
            answer_with(run, name, options, group)


def answer_with(run: "Run", model: str, options: AnswerOptions, group: "Group") -> None:
    """Answers what a model has not answered yet; every answer is on disk before the next one is made.

    Args:
        group: The processes that share the work, which all call this.
    """
    import time

    from medjudge.answer.conversation import unanswered
    from medjudge.workflows.judge import record_spending

    answering = _answering(run, model, options)
    models = run.manifest().get("models", {})
    there = run.answers()
    settings = {
        "source": answering.source,
        "seed": options.seed,
        "temperature": options.temperature,
        "max_new_tokens": options.max_new_tokens,
        # vLLM draws other answers from the same seeds; Ray's workers draw those of one process.
        "vllm": options.engine == "vllm",
    }
    entry = models.setdefault(
        answering.name, {**settings, "revision": answering.revision, "answers": 0, "seconds": 0.0}
    )
    for name, value in settings.items():
        if entry.get(name, value) != value:
            raise InputError(
                f"{run.path}: holds answers of {answering.name} with {name} {entry[name]}, and now it is {value}; "
                "choose another --run"
            )
    # Before the first answer, so that a run that was killed still knows whose answers it holds.
    entry["answers"] = sum(one.model == answering.name for one in there)
    if group.first:
        run.update_manifest(models=models)
    group.wait()
    start = time.monotonic()
    questions = unanswered(run.questions(), answering.name, options.samples, there)
    mine = group.share(questions, lambda one: one.group, lambda one: len(one.prompt))
    try:
        with group.writing(run) as place:
            for one in answering.answer_questions(mine, options.samples, options.seed, there):
                place.append(place.answers_file, one.model_dump_json())
    finally:
        if group.first:
            entry["answers"] = sum(one.model == answering.name for one in run.answers())
            entry["seconds"] = round(entry["seconds"] + time.monotonic() - start, 1)
            run.update_manifest(models=models)
            record_spending(run, options.prices)


def _answering(run: "Run", model: str, options: AnswerOptions) -> _Answering:
    from functools import partial

    from medjudge.answer.conversation import answer_questions

    if model.startswith(_AT_A_SERVER):
        from medjudge.answer.openai_engine import OpenAIEngine
        from medjudge.chat_api.client import Server
        from medjudge.chat_api.spending import Limit, Spending

        server = Server(options.base_url, options.concurrency, options.tokens_per_minute)
        spending = Spending(run, Limit(options.max_cost, options.prices))
        name = model.removeprefix(_AT_A_SERVER)
        at = f" at {options.base_url}" if options.base_url else ""
        asked = OpenAIEngine(name, server, spending, options.max_new_tokens, options.temperature)
        return _Answering(name, model + at, None, partial(answer_questions, asked))
    from medjudge.answer.transformers_engine import TransformersEngine, model_name
    from medjudge.models.loading import commit

    about = (model_name(model), str(Path(model).resolve()) if Path(model).is_dir() else model, commit(model))
    if options.engine == "ray":
        from medjudge.answer.ray_engine import RayEngine

        shared = RayEngine(*about[:2], options.device, options.max_new_tokens, options.temperature)
        return _Answering(*about, shared.answer_questions)
    if options.engine == "vllm":
        from medjudge.answer.vllm_engine import VllmEngine

        offline = VllmEngine(model, max_new_tokens=options.max_new_tokens, temperature=options.temperature)
        return _Answering(*about, partial(answer_questions, offline))
    local = TransformersEngine(
        model, device=options.device, max_new_tokens=options.max_new_tokens, temperature=options.temperature
    )
    return _Answering(*about, partial(answer_questions, local))
