"""The options and arguments that two or more commands take, each declared once.

A command takes them as annotated types and adds the default: `device: Device = "auto"`. A command with many options
takes one dataclass of them (`flags`); `groups.py` has those that several commands take together.
`hidden=True` marks an option that few need: a long `--help` leaves it out, `--help-all` shows it.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, fields
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Optional, get_type_hints

import typer

from medjudge.offline import go_offline
from medjudge.screen import Detail, show
from medjudge.tables.encodings import known_encoding, read_as


def flags(command: Callable[[Any], None]) -> Callable[..., None]:
    """Makes a command of a function of one dataclass: each field is an option, or an argument, in the panels' order."""
    (parameter,) = inspect.signature(command).parameters.values()
    options = parameter.annotation
    hints = get_type_hints(options, include_extras=True)

    def called(**values: Any) -> None:
        command(options(**values))

    def panel(name: str) -> int:
        title = hints[name].__metadata__[0].rich_help_panel
        return _PANELS.index(title) if title in _PANELS else -1

    signature = [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in sorted(fields(options), key=lambda field: panel(field.name))
    ]
    called.__signature__ = inspect.Signature(signature)  # type: ignore[attr-defined]
    called.__name__, called.__doc__ = command.__name__, command.__doc__
    return called


def _offline(offline: bool) -> bool:
    if offline:
        go_offline()
    return offline


def _encoding(context: typer.Context, encoding: str | None) -> str | None:
    if encoding is not None:
        before = read_as.set(known_encoding(encoding))
        context.call_on_close(lambda: read_as.reset(before))  # `medjudge run` has several commands
    return encoding


HELP_ALL = "medjudge.help_all"
"""Marks a context whose help shows every option."""


def _help_all(context: typer.Context, help_all: bool) -> bool:
    if help_all and not context.resilient_parsing:
        context.meta[HELP_ALL] = True
        print(context.get_help())
        raise typer.Exit()
    return help_all


def _quiet(quiet: bool) -> bool:
    if quiet:
        show(Detail.QUIET)
    return quiet


def _verbose(verbose: bool) -> bool:
    if verbose:
        show(Detail.VERBOSE)
    return verbose


# Panels of a command's help, in the order in which most commands show them. What belongs to none is under "Options".
ANSWERING = "Answering models"
JUDGING = "Judging"
SERVERS = "OpenAI-compatible servers"
MACHINE = "This machine"
OUTPUT = "Output"
NETWORK = "For other machines"
_PANELS = (ANSWERING, JUDGING, SERVERS, MACHINE, OUTPUT)

# What is judged, and where it lies.
_BENCHMARK = "'sample', LLMEval-Med's dataset.json, or questions: .jsonl, .json, .csv, .xlsx."
Benchmark = Annotated[str, typer.Option(metavar="FILE", help=_BENCHMARK)]
BenchmarkOrRuns = Annotated[
    Optional[str],
    typer.Option(metavar="FILE", help=f"{_BENCHMARK} Default: that of an existing run folder, else sample."),
]
Scheme = Annotated[
    Optional[str],
    typer.Option(
        metavar="NAME|FILE",
        help="Scheme of the questions: llmeval-med, consumer-health, reference-qa, consultations, a scheme's folder "
        "or file. Default: that of the run or beside the questions, else llmeval-med.",
    ),
]
Encoding = Annotated[
    Optional[str],
    typer.Option(
        metavar="NAME",
        hidden=True,
        help="Encoding of tables (.csv, .tsv) that are not UTF-8, such as cp1252, big5 or utf-16. Default: GB18030, if "
        "they read as Chinese.",
        callback=_encoding,
    ),
]
NewRun = Annotated[
    Optional[Path],
    typer.Option("--run", metavar="FOLDER", help="Run folder; an existing one is continued. Default: runs/BENCHMARK."),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run folder with questions and answers.", show_default=False)
]
RunFolders = Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders.", show_default=False)]
Limit = Annotated[Optional[int], typer.Option(metavar="N", min=1, help="Use only the first N questions.")]
Ids = Annotated[
    Optional[Path],
    typer.Option(
        metavar="FILE", hidden=True, help="Use only the questions whose ids stand in this text file, one a line."
    ),
]
PerCategory = Annotated[
    Optional[int],
    typer.Option(metavar="N", min=1, hidden=True, help="Use only the first N questions of each category."),
]
AnsweredOnly = Annotated[bool, typer.Option("--answered-only", help="Use only the questions that have an answer.")]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write.", show_default=False)]
Seed = Annotated[
    int, typer.Option(metavar="N", min=0, hidden=True, help="Random seed; the same seed gives the same result.")
]


# Who judges, and how.
def _judge(*more: str) -> Any:
    names = ["local", "built-in", "similarity", "a judge folder", "openai:MODEL", *more]
    help_text = f"{', '.join(names[:-1])}, or {names[-1]}."
    return typer.Option(metavar="JUDGE", help=help_text, rich_help_panel=JUDGING)


_PANEL, _JUDGMENTS = "a panel (panel:a,b,c or panel:FILE.yaml)", "the name of judgments in the run"
Judge = Annotated[str, _judge()]
JudgeOrJudgments = Annotated[str, _judge(_JUDGMENTS)]
JudgeOrPanel = Annotated[str, _judge(_PANEL)]
JudgePanelOrJudgments = Annotated[str, _judge(_PANEL, _JUDGMENTS)]
JudgeOfRun = Annotated[
    Optional[str],
    typer.Option("--judge", metavar="NAME", help="Judge whose judgments to use. Default: the last one that judged."),
]
JudgeTokens = Annotated[
    Optional[int],
    typer.Option(
        metavar="N",
        min=1,
        hidden=True,
        help="Most tokens of an openai: judge's reply, its thought included. Default: 1024, and 8192 more where the "
        "judge turns out to think first.",
        rich_help_panel=JUDGING,
    ),
]
_THINKS_FIRST = "Whether models that answer, and an openai: judge, think first; default leaves it to the model."
JudgeThinking = Annotated[
    str,
    typer.Option(
        "--thinking",
        metavar="on|off|default",
        hidden=True,
        help=_THINKS_FIRST,
        rich_help_panel=JUDGING,
    ),
]
Rounds = Annotated[
    int, typer.Option(metavar="N", min=1, hidden=True, help="How often each answer is judged.", rich_help_panel=JUDGING)
]

Attention = Annotated[
    Optional[str],
    typer.Option(
        metavar="sdpa|eager|flash_attention_2",
        hidden=True,
        help="Attention of a generative judge, as transformers names it. Default: that of the model.",
        rich_help_panel=JUDGING,
    ),
]
Compile = Annotated[
    bool,
    typer.Option(
        "--compile",
        hidden=True,
        help="Compile a generative judge with torch: minutes at the start, for many answers.",
        rich_help_panel=JUDGING,
    ),
]
JudgeQuantization = Annotated[
    Optional[str],
    typer.Option(
        metavar="nf4",
        hidden=True,
        help="Load a generative judge's base in 4 bits. It is then another judge, to be validated as such.",
        rich_help_panel=JUDGING,
    ),
]

# Which models answer, and how.
Samples = Annotated[
    int, typer.Option(metavar="N", min=1, help="Answers per question and model.", rich_help_panel=ANSWERING)
]
MaxNewTokens = Annotated[
    int, typer.Option(metavar="N", min=1, hidden=True, help="Most tokens per answer.", rich_help_panel=ANSWERING)
]
Temperature = Annotated[
    float,
    typer.Option(
        metavar="T", min=0.0, hidden=True, help="Sampling temperature; 0 is greedy.", rich_help_panel=ANSWERING
    ),
]

Thinking = Annotated[
    str,
    typer.Option(
        metavar="on|off|default",
        hidden=True,
        help=_THINKS_FIRST,
        rich_help_panel=ANSWERING,
    ),
]
ThinkingTokens = Annotated[
    int,
    typer.Option(
        metavar="N",
        min=1,
        hidden=True,
        help="Most tokens per thought, beside those of what follows.",
        rich_help_panel=ANSWERING,
    ),
]
System = Annotated[
    Optional[str],
    typer.Option(metavar="TEXT", hidden=True, help="System message of every conversation.", rich_help_panel=ANSWERING),
]

# Servers that models and judges named openai:MODEL are asked at, and what they may cost.
BaseUrl = Annotated[
    Optional[str],
    typer.Option(metavar="URL", help="Server of openai: models; its key in OPENAI_API_KEY.", rich_help_panel=SERVERS),
]
Concurrency = Annotated[
    int, typer.Option(metavar="N", min=1, hidden=True, help="Requests in flight.", rich_help_panel=SERVERS)
]
TokensPerMinute = Annotated[
    Optional[int],
    typer.Option(metavar="N", min=1, hidden=True, help="The server's rate limit.", rich_help_panel=SERVERS),
]
MaxCost = Annotated[
    Optional[float],
    typer.Option(metavar="USD", min=0.0, help="Stop before the run costs more in total.", rich_help_panel=SERVERS),
]
Prices = Annotated[
    Optional[Path],
    typer.Option(metavar="FILE", hidden=True, help="Prices, as in medjudge/data/prices.yaml.", rich_help_panel=SERVERS),
]

# The machine.
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where models run.", rich_help_panel=MACHINE)]
Engine = Annotated[
    str,
    typer.Option(
        metavar="transformers|vllm|ray",
        hidden=True,
        help="What runs the models that answer; ray, the workers of a Ray cluster, runs the judge too.",
        rich_help_panel=MACHINE,
    ),
]
JudgeEngine = Annotated[
    Optional[str],
    typer.Option(
        metavar="transformers|vllm|ray",
        hidden=True,
        help="What runs a local judge; vllm runs generative ones. Default: transformers, and ray with --engine ray.",
        rich_help_panel=JUDGING,
    ),
]
TensorParallel = Annotated[
    int,
    typer.Option(metavar="N", min=1, hidden=True, help="GPUs that share a model in vLLM.", rich_help_panel=MACHINE),
]
GpuShare = Annotated[
    float,
    typer.Option(
        metavar="SHARE",
        min=0.05,
        max=1.0,
        hidden=True,
        help="Share of each GPU that vLLM takes.",
        rich_help_panel=MACHINE,
    ),
]
Offline = Annotated[
    bool,
    typer.Option(
        "--offline",
        help="Fail instead of using the network.",
        rich_help_panel=MACHINE,
        callback=_offline,
        is_eager=True,
    ),
]

# The screen.
Quiet = Annotated[
    bool,
    typer.Option(
        "--quiet",
        hidden=True,
        help="Print only results, warnings and errors.",
        rich_help_panel=OUTPUT,
        callback=_quiet,
        is_eager=True,
    ),
]
Verbose = Annotated[
    bool,
    typer.Option(
        "--verbose",
        hidden=True,
        help="Print also how much memory each stage took.",
        rich_help_panel=OUTPUT,
        callback=_verbose,
        is_eager=True,
    ),
]
HelpAll = Annotated[
    bool,
    typer.Option(
        "--help-all",
        help="Show every option and exit.",
        rich_help_panel=OUTPUT,
        callback=_help_all,
        is_eager=True,
    ),
]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object to stdout, everything else to stderr.", rich_help_panel=OUTPUT),
]

# Where pages are served, and in which language they are.
Host = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Address of this machine to listen on; 0.0.0.0 for all. Default: this machine only.",
        rich_help_panel=NETWORK,
    ),
]
Certificate = Annotated[
    Optional[Path], typer.Option(metavar="FILE", help="Certificate chain for TLS, PEM.", rich_help_panel=NETWORK)
]
CertificateKey = Annotated[
    Optional[Path],
    typer.Option("--key", metavar="FILE", help="Private key of the certificate, PEM.", rich_help_panel=NETWORK),
]
PublicUrl = Annotated[
    Optional[str],
    typer.Option(
        metavar="URL", help="Address of a reverse proxy before the server, for the links.", rich_help_panel=NETWORK
    ),
]


class Language(str, Enum):
    """Languages of the report's pages."""

    en = "en"
    zh = "zh"


PageLanguage = Annotated[Language, typer.Option("--lang", metavar="en|zh", help="Language of the report.")]
