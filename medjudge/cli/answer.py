"""`medjudge answer`: only the answers."""

from shlex import quote
from typing import Annotated

import typer

from medjudge.cli import options


def answer(
    model: Annotated[
        list[str],
        typer.Option(
            metavar="MODEL", help="Folder, hub id, or openai:MODEL. Repeatable.", rich_help_panel=options.ANSWERING
        ),
    ],
    benchmark: options.Benchmark = "sample",
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    run: options.NewRun = None,
    limit: options.Limit = None,
    seed: options.Seed = 0,
    samples: options.Samples = 3,
    max_new_tokens: options.MaxNewTokens = 1024,
    temperature: options.Temperature = 0.7,
    thinking: options.Thinking = "default",
    thinking_tokens: options.ThinkingTokens = 8192,
    system: options.System = None,
    base_url: options.BaseUrl = None,
    concurrency: options.Concurrency = 8,
    tokens_per_minute: options.TokensPerMinute = None,
    max_cost: options.MaxCost = None,
    prices: options.Prices = None,
    device: options.Device = "auto",
    engine: options.Engine = "transformers",
    tensor_parallel: options.TensorParallel = 1,
    gpu_share: options.GpuShare = 0.9,
    offline: options.Offline = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    as_json: options.AsJson = False,
) -> None:
    """Answer a benchmark's questions with models."""
    from medjudge.answer.thinking import ThinkingOptions
    from medjudge.answer.vllm_engine import VllmMemory
    from medjudge.chat_api.client import Server
    from medjudge.chat_api.spending import Limit
    from medjudge.cli.output import console, print_json
    from medjudge.workflows.answer import AnswerOptions, answer_questions

    server, cost_limit = Server(base_url, concurrency, tokens_per_minute), Limit(max_cost, prices)
    gpus = VllmMemory(tensor_parallel, gpu_share)
    thought = ThinkingOptions(thinking, thinking_tokens)  # type: ignore[arg-type]  # checked before any work
    answering = AnswerOptions(
        samples, seed, max_new_tokens, temperature, device, engine, server, cost_limit, thought, system, gpus
    )
    result = answer_questions(
        benchmark, scheme=scheme, models=model, run=run, limit=limit, options=answering, offline=offline
    )
    if not result.first_process:
        return
    if as_json:
        print_json({"run": str(result.run.path), "answers": len(result.answers), "empty": result.empty})
    console(as_json).print(
        f"{result}; next: medjudge eval --judge local --benchmark {quote(benchmark)} "
        f"--run {quote(str(result.run.path))}"
    )
