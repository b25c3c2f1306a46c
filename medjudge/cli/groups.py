"""Options that several commands take together, and what the workflows make of them."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Optional

from medjudge.cli import options
from medjudge.cli.options import ANSWERING, BENCHMARK, JUDGING, MACHINE, NETWORK, REQUIRED, SERVERS, option, rare
from medjudge.errors import InputError

if TYPE_CHECKING:
    from medjudge.chat_api.client import Server
    from medjudge.chat_api.spending import Limit
    from medjudge.judge.open import JudgeOptions
    from medjudge.workflows.answer import AnswerOptions
    from medjudge.workflows.network import Network
    from medjudge.workflows.run_folder import Choice

_QUESTIONS = (".jsonl", ".json", ".csv", ".tsv", ".xlsx")
_THINKS_FIRST = "Whether models that answer, and an openai: judge, think first; default leaves it to the model."


@dataclass(kw_only=True)
class Questions:
    """Which questions of which benchmark, and the run folder."""

    benchmark: Optional[str] = option(
        None, "FILE", f"{BENCHMARK} Default: that of an existing run folder, else sample."
    )
    scheme: options.Scheme = None
    encoding: options.Encoding = None
    run: Optional[Path] = option(
        None, "FOLDER", "Run folder; an existing one is continued. Default: runs/BENCHMARK.", name="--run"
    )
    limit: Optional[int] = option(None, "N", "Use only the first N questions.", min=1)
    ids: Optional[Path] = rare(None, "FILE", "Use only the questions whose ids stand in this text file, one a line.")
    per_category: Optional[int] = rare(None, "N", "Use only the first N questions of each category.", min=1)

    def choice(self, answered_only: bool = False) -> "Choice":
        """The choice of questions."""
        from medjudge.workflows.run_folder import Choice

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


@dataclass(kw_only=True)
class Address:
    """The address of pages."""

    host: str = option(
        "127.0.0.1",
        "ADDRESS",
        "Address of this machine to listen on; 0.0.0.0 for all. Default: this machine only.",
        NETWORK,
    )
    certificate: Optional[Path] = option(None, "FILE", "Certificate chain for TLS, PEM.", NETWORK)
    key: Optional[Path] = option(None, "FILE", "Private key of the certificate, PEM.", NETWORK)
    public_url: Optional[str] = option(
        None, "URL", "Address of a reverse proxy before the server, for the links.", NETWORK
    )

    def network(self, port: int) -> "Network":
        """The address with a port."""
        from medjudge.workflows.network import Network

        return Network(self.host, port, self.certificate, self.key, self.public_url)


def require(*paths: Path | None) -> None:
    """Refuses files and folders that do not exist, before the imports that take seconds."""
    for path in paths:
        if path is not None and not path.exists():
            raise InputError(f"{path}: no such file or directory; check the path")


@dataclass(kw_only=True)
class Servers:
    """Servers of `openai:` models."""

    base_url: Optional[str] = option(None, "URL", "Server of openai: models; its key in OPENAI_API_KEY.", SERVERS)
    concurrency: int = rare(8, "N", "Requests in flight.", SERVERS, min=1)
    tokens_per_minute: Optional[int] = rare(None, "N", "The server's rate limit.", SERVERS, min=1)
    max_cost: Optional[float] = option(None, "USD", "Stop before the run costs more in total.", SERVERS, min=0.0)
    prices: Optional[Path] = rare(None, "FILE", "Prices, as in medjudge/data/prices.yaml.", SERVERS)

    @property
    def server(self) -> "Server":
        """The server of requests, and the patience with it."""
        from medjudge.chat_api.client import Server

        return Server(self.base_url, self.concurrency, self.tokens_per_minute)

    @property
    def cost_limit(self) -> "Limit":
        """The limits on a run's cost."""
        from medjudge.chat_api.spending import Limit

        return Limit(self.max_cost, self.prices)


@dataclass(kw_only=True)
class Device:
    """The machine's device."""

    device: str = option("auto", "auto|cpu|cuda", "Where models run.", MACHINE)


@dataclass(kw_only=True)
class Answering(Device, Servers):
    """The settings by which models answer."""

    model: list[str] = option(REQUIRED, "MODEL", "Folder, hub id, or openai:MODEL. Repeatable.", ANSWERING)
    seed: options.Seed = 0
    samples: int = option(3, "N", "Answers per question and model.", ANSWERING, min=1)
    max_new_tokens: int = rare(1024, "N", "Most tokens per answer.", ANSWERING, min=1)
    temperature: float = rare(0.7, "T", "Sampling temperature; 0 is greedy.", ANSWERING, min=0.0)
    thinking: options.Thinking = rare("default", "on|off|default", _THINKS_FIRST, ANSWERING)
    thinking_tokens: int = rare(8192, "N", "Most tokens per thought, beside those of what follows.", ANSWERING, min=1)
    system: Optional[str] = rare(None, "TEXT", "System message of every conversation.", ANSWERING)
    engine: str = rare(
        "transformers",
        "transformers|vllm|ray",
        "What runs the models that answer; ray, the workers of a Ray cluster, runs the judge too.",
        MACHINE,
    )
    tensor_parallel: int = rare(1, "N", "GPUs that share a model in vLLM.", MACHINE, min=1)
    gpu_share: float = rare(0.9, "SHARE", "Share of each GPU that vLLM takes.", MACHINE, min=0.05, max=1.0)

    def answering(self) -> "AnswerOptions":
        """The options of `answer_questions`."""
        from medjudge.answer.thinking import ThinkingOptions
        from medjudge.answer.vllm_engine import VllmMemory
        from medjudge.workflows.answer import AnswerOptions

        options = AnswerOptions(self.samples, self.seed, self.max_new_tokens, self.temperature, self.device)
        options = options._replace(engine=self.engine, server=self.server, limit=self.cost_limit, system=self.system)
        thinking = ThinkingOptions(self.thinking, self.thinking_tokens)
        return options._replace(thinking=thinking, vllm=VllmMemory(self.tensor_parallel, self.gpu_share))


@dataclass(kw_only=True)
class ApiJudging(Device, Servers):
    """The form of an API judge's replies."""

    judge_tokens: Optional[int] = rare(
        None,
        "N",
        "Most tokens of an openai: judge's reply, its thought included. Default: 1024, and 8192 more where the judge "
        "turns out to think first.",
        JUDGING,
        min=1,
    )
    thinking: options.Thinking = rare("default", "on|off|default", _THINKS_FIRST, JUDGING)

    def judging(self) -> "JudgeOptions":
        """The options of `judge_answers`."""
        from medjudge.judge.api import reply_options
        from medjudge.judge.open import JudgeOptions

        replies = reply_options(self.judge_tokens, self.thinking)
        return JudgeOptions(self.device, server=self.server, limit=self.cost_limit, replies=replies)


@dataclass(kw_only=True)
class Judging(ApiJudging):
    """The settings of running a judge."""

    rounds: int = rare(1, "N", "How often each answer is judged.", JUDGING, min=1)

    def judging(self) -> "JudgeOptions":
        """The options of `judge_answers`."""
        return super().judging()._replace(rounds=self.rounds)


@dataclass(kw_only=True)
class LocalJudging(Judging):
    """The settings of running a judge, a generative one on this machine included."""

    judge_quantization: Optional[str] = rare(
        None,
        "nf4",
        "Load a generative judge's base in 4 bits. It is then another judge, to be validated as such.",
        JUDGING,
    )

    def judging(self) -> "JudgeOptions":
        """The options of `judge_answers`."""
        return super().judging()._replace(quantization=self.judge_quantization)


@dataclass(kw_only=True)
class Output:
    """Options of output."""

    quiet: options.Quiet = False
    as_json: options.AsJson = False


@dataclass(kw_only=True)
class Screen(Output):
    """Options of output and network, and a help in two parts."""

    offline: options.Offline = False
    help_all: options.HelpAll = False
