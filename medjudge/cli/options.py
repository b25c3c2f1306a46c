"""The options and arguments that two or more commands take, each declared once.

A command takes them as annotated types and adds the default: `device: Device = "auto"`.
"""

from enum import Enum
from pathlib import Path
from typing import Annotated, Optional

import typer

from medjudge.offline import go_offline
from medjudge.screen import Detail, show
from medjudge.tables.encodings import known_encoding, read_as


def _offline(offline: bool) -> bool:
    if offline:
        go_offline()
    return offline


def _encoding(context: typer.Context, encoding: str | None) -> str | None:
    if encoding is not None:
        before = read_as.set(known_encoding(encoding))
        context.call_on_close(lambda: read_as.reset(before))  # `medjudge run` has several commands
    return encoding


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

# What is judged, and where it lies.
Benchmark = Annotated[
    str,
    typer.Option(
        metavar="FILE", help="'sample', LLMEval-Med's dataset.json, or questions: .jsonl, .json, .csv, .xlsx."
    ),
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
    typer.Option(metavar="FILE", help="Use only the questions whose ids stand in this text file, one a line."),
]
PerCategory = Annotated[
    Optional[int], typer.Option(metavar="N", min=1, help="Use only the first N questions of each category.")
]
AnsweredOnly = Annotated[bool, typer.Option("--answered-only", help="Use only the questions that have an answer.")]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write.", show_default=False)]
Seed = Annotated[int, typer.Option(metavar="N", min=0, help="Random seed; the same seed gives the same result.")]

# Who judges, and how.
Judge = Annotated[
    str,
    typer.Option(
        metavar="JUDGE", help="local, built-in, similarity, a judge folder, or openai:MODEL.", rich_help_panel=JUDGING
    ),
]
JudgeOrJudgments = Annotated[
    str,
    typer.Option(
        metavar="JUDGE",
        help="local, built-in, similarity, a judge folder, openai:MODEL, or the name of judgments in the run.",
        rich_help_panel=JUDGING,
    ),
]
JudgeOrPanel = Annotated[
    str,
    typer.Option(
        metavar="JUDGE",
        help="local, built-in, similarity, a judge folder, openai:MODEL, or a panel: panel:a,b,c or panel:FILE.yaml.",
        rich_help_panel=JUDGING,
    ),
]
JudgePanelOrJudgments = Annotated[
    str,
    typer.Option(
        metavar="JUDGE",
        help="local, built-in, similarity, a judge folder, openai:MODEL, a panel (panel:a,b,c or "
        "panel:FILE.yaml), or "
        "the name of judgments in the run.",
        rich_help_panel=JUDGING,
    ),
]
JudgeOfRun = Annotated[
    Optional[str],
    typer.Option("--judge", metavar="NAME", help="Judge whose judgments to use. Default: the last one that judged."),
]
JudgeTokens = Annotated[
    Optional[int],
    typer.Option(
        metavar="N",
        min=1,
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
        help=_THINKS_FIRST,
        rich_help_panel=JUDGING,
    ),
]
Rounds = Annotated[
    int, typer.Option(metavar="N", min=1, help="How often each answer is judged.", rich_help_panel=JUDGING)
]

Attention = Annotated[
    Optional[str],
    typer.Option(
        metavar="sdpa|eager|flash_attention_2",
        help="Attention of a generative judge, as transformers names it. Default: that of the model.",
        rich_help_panel=JUDGING,
    ),
]
Compile = Annotated[
    bool,
    typer.Option(
        "--compile",
        help="Compile a generative judge with torch: minutes at the start, for many answers.",
        rich_help_panel=JUDGING,
    ),
]
JudgeQuantization = Annotated[
    Optional[str],
    typer.Option(
        metavar="nf4",
        help="Load a generative judge's base in 4 bits. It is then another judge, to be validated as such.",
        rich_help_panel=JUDGING,
    ),
]

# Which models answer, and how.
Samples = Annotated[
    int, typer.Option(metavar="N", min=1, help="Answers per question and model.", rich_help_panel=ANSWERING)
]
MaxNewTokens = Annotated[
    int, typer.Option(metavar="N", min=1, help="Most tokens per answer.", rich_help_panel=ANSWERING)
]
Temperature = Annotated[
    float, typer.Option(metavar="T", min=0.0, help="Sampling temperature; 0 is greedy.", rich_help_panel=ANSWERING)
]

Thinking = Annotated[
    str,
    typer.Option(
        metavar="on|off|default",
        help=_THINKS_FIRST,
        rich_help_panel=ANSWERING,
    ),
]
ThinkingTokens = Annotated[
    int,
    typer.Option(
        metavar="N", min=1, help="Most tokens per thought, beside those of what follows.", rich_help_panel=ANSWERING
    ),
]
System = Annotated[
    Optional[str],
    typer.Option(metavar="TEXT", help="System message of every conversation.", rich_help_panel=ANSWERING),
]

# Servers that models and judges named openai:MODEL are asked at, and what they may cost.
BaseUrl = Annotated[
    Optional[str],
    typer.Option(metavar="URL", help="Server of openai: models; its key in OPENAI_API_KEY.", rich_help_panel=SERVERS),
]
Concurrency = Annotated[int, typer.Option(metavar="N", min=1, help="Requests in flight.", rich_help_panel=SERVERS)]
TokensPerMinute = Annotated[
    Optional[int], typer.Option(metavar="N", min=1, help="The server's rate limit.", rich_help_panel=SERVERS)
]
MaxCost = Annotated[
    Optional[float],
    typer.Option(metavar="USD", min=0.0, help="Stop before the run costs more in total.", rich_help_panel=SERVERS),
]
Prices = Annotated[
    Optional[Path],
    typer.Option(metavar="FILE", help="Prices, as in medjudge/data/prices.yaml.", rich_help_panel=SERVERS),
]

# The machine.
Device = Annotated[str, typer.Option(metavar="auto|cpu|cuda", help="Where models run.", rich_help_panel=MACHINE)]
Engine = Annotated[
    str,
    typer.Option(
        metavar="transformers|vllm|ray",
        help="What runs the models that answer; ray, the workers of a Ray cluster, runs the judge too.",
        rich_help_panel=MACHINE,
    ),
]
JudgeEngine = Annotated[
    Optional[str],
    typer.Option(
        metavar="transformers|vllm|ray",
        help="What runs a local judge; vllm runs generative ones. Default: transformers, and ray with --engine ray.",
        rich_help_panel=JUDGING,
    ),
]
TensorParallel = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="GPUs that share a model in vLLM.", rich_help_panel=MACHINE),
]
GpuShare = Annotated[
    float,
    typer.Option(
        metavar="SHARE", min=0.05, max=1.0, help="Share of each GPU that vLLM takes.", rich_help_panel=MACHINE
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
        help="Print also how much memory each stage took.",
        rich_help_panel=OUTPUT,
        callback=_verbose,
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
