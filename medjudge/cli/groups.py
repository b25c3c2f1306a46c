"""Options that several commands take together, and what the workflows make of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medjudge.cli import options
from medjudge.errors import InputError

if TYPE_CHECKING:
    from medjudge.chat_api.client import Server
    from medjudge.chat_api.spending import Limit
    from medjudge.judge.open import JudgeOptions
    from medjudge.workflows.answer import AnswerOptions
    from medjudge.workflows.choice import Choice

_QUESTIONS = (".jsonl", ".json", ".csv", ".tsv", ".xlsx")


@dataclass(kw_only=True)
class Questions:
    """Which questions of which benchmark, and the run folder."""

    benchmark: options.BenchmarkOrRuns = None
    scheme: options.Scheme = None
    encoding: options.Encoding = None
    run: options.NewRun = None
    limit: options.Limit = None
    ids: options.Ids = None
    per_category: options.PerCategory = None

    def choice(self, answered_only: bool = False) -> "Choice":
        """The choice of questions."""
        from medjudge.workflows.choice import Choice

        return Choice(self.ids, self.per_category, answered_only)

    def require_files(self, *others: Path) -> None:
        """Refuses files that do not exist, before the imports that take seconds."""
        benchmark = Path(self.benchmark) if self.benchmark and self.benchmark != "sample" else None
        if benchmark is not None and benchmark.suffix.lower() not in _QUESTIONS:
            benchmark = None  # the message about its format helps more
        require(benchmark, self.ids, *others)

    def named_run(self, folder: Path | None) -> Path | None:
        """The run folder, which the first argument or `--run` names.

        Raises:
            InputError: The argument is no run folder, or `--run` names another one.
        """
        if folder is None:
            return self.run
        if self.run not in (None, folder):
            raise InputError(f"{folder} and --run {self.run}: name one run folder")
        if not (folder / "questions.jsonl").is_file():
            raise InputError(
                f"{folder}: is no run folder to continue; --run FOLDER starts one, --benchmark FILE names questions"
            )
        return folder


def require(*paths: Path | None) -> None:
    """Refuses files and folders that do not exist, before the imports that take seconds."""
    for path in paths:
        if path is not None and not path.exists():
            raise InputError(f"{path}: no such file or directory; check the path")


@dataclass(kw_only=True)
class Servers:
    """Servers of `openai:` models."""

    base_url: options.BaseUrl = None
    concurrency: options.Concurrency = 8
    tokens_per_minute: options.TokensPerMinute = None
    max_cost: options.MaxCost = None
    prices: options.Prices = None

    @property
    def server(self) -> "Server":
        """Where requests go, and how patiently."""
        from medjudge.chat_api.client import Server

        return Server(self.base_url, self.concurrency, self.tokens_per_minute)

    @property
    def cost_limit(self) -> "Limit":
        """What the run may cost."""
        from medjudge.chat_api.spending import Limit

        return Limit(self.max_cost, self.prices)


@dataclass(kw_only=True)
class Answering(Servers):
    """How models answer."""

    model: Annotated[
        list[str],
        typer.Option(
            metavar="MODEL", help="Folder, hub id, or openai:MODEL. Repeatable.", rich_help_panel=options.ANSWERING
        ),
    ]
    seed: options.Seed = 0
    samples: options.Samples = 3
    max_new_tokens: options.MaxNewTokens = 1024
    temperature: options.Temperature = 0.7
    thinking: options.Thinking = "default"
    thinking_tokens: options.ThinkingTokens = 8192
    system: options.System = None
    device: options.Device = "auto"
    engine: options.Engine = "transformers"
    tensor_parallel: options.TensorParallel = 1
    gpu_share: options.GpuShare = 0.9

    def answering(self) -> "AnswerOptions":
        """The options of `answer_questions`."""
        from medjudge.answer.thinking import ThinkingOptions
        from medjudge.answer.vllm_engine import VllmMemory
        from medjudge.workflows.answer import AnswerOptions

        return AnswerOptions(
            self.samples,
            self.seed,
            self.max_new_tokens,
            self.temperature,
            self.device,
            self.engine,
            self.server,
            self.cost_limit,
            ThinkingOptions(self.thinking, self.thinking_tokens),  # type: ignore[arg-type]  # checked before any work
            self.system,
            VllmMemory(self.tensor_parallel, self.gpu_share),
        )


@dataclass(kw_only=True)
class Judging(Servers):
    """How a judge is run."""

    rounds: options.Rounds = 1
    judge_tokens: options.JudgeTokens = None
    thinking: options.JudgeThinking = "default"
    device: options.Device = "auto"

    def judging(self) -> "JudgeOptions":
        """The options of `judge_answers`."""
        from medjudge.judge.api import reply_options
        from medjudge.judge.open import JudgeOptions

        replies = reply_options(self.judge_tokens, self.thinking)
        return JudgeOptions(
            device=self.device, rounds=self.rounds, server=self.server, limit=self.cost_limit, replies=replies
        )


@dataclass(kw_only=True)
class LocalJudging(Judging):
    """How a judge is run, a generative one on this machine included."""

    attention: options.Attention = None
    compile_model: options.Compile = False
    judge_quantization: options.JudgeQuantization = None

    def judging(self) -> "JudgeOptions":
        """The options of `judge_answers`."""
        from medjudge.judge.inference import Inference

        inference = Inference(attention=self.attention, compile=self.compile_model)
        return super().judging()._replace(inference=inference, quantization=self.judge_quantization)


@dataclass(kw_only=True)
class Screen:
    """What is shown, and whether the network may be used."""

    offline: options.Offline = False
    quiet: options.Quiet = False
    verbose: options.Verbose = False
    as_json: options.AsJson = False
    help_all: options.HelpAll = False
