"""Declarations of a command's options, and the options and arguments that two or more commands take.

A command with many options takes one dataclass of them (`flags`), whose fields are made by `option`, `rare` and
`argument`; `groups.py` has those that several commands take together. A small command takes annotated types and adds
the default: `seed: Seed = 0`.
"""

import inspect
from collections.abc import Callable
from dataclasses import MISSING, field, fields
from pathlib import Path
from typing import Annotated, Any, Literal, Optional, get_type_hints

import typer

from medjudge.offline import go_offline
from medjudge.screen import set_quiet

# Panels of a command's help, in the order in which most commands show them. What belongs to none is under "Options".
ANSWERING = "Answering models"
JUDGING = "Judging"
SERVERS = "OpenAI-compatible servers"
MACHINE = "This machine"
OUTPUT = "Output"
NETWORK = "For other machines"
_PANELS = (ANSWERING, JUDGING, SERVERS, MACHINE, NETWORK, OUTPUT)

REQUIRED = MISSING
"""As a default: the option must be given."""


def option(
    default: Any, metavar: str | None, help: str, panel: str | None = None, *, name: str | None = None, **more: Any
) -> Any:
    """A field of a command's dataclass that is an option.

    Args:
        name: Of the option, such as `--json`; that of the field unless given.
        more: Further settings of `typer.Option`, such as `min`.
    """
    settings = {"metavar": metavar, "help": help, "rich_help_panel": panel, **more}
    return field(default=default, metadata={"make": typer.Option, "name": name, "settings": settings})


def rare(default: Any, metavar: str | None, help: str, panel: str | None = None, **more: Any) -> Any:
    """As `option`, one that few need: `--help` leaves it out where there is `--help-all`."""
    return option(default, metavar, help, panel, hidden=True, **more)


def argument(default: Any, metavar: str, help: str) -> Any:
    """A field of a command's dataclass that is an argument."""
    settings = {"metavar": metavar, "help": help, "show_default": False}
    return field(default=default, metadata={"make": typer.Argument, "name": None, "settings": settings})


def flags(command: Callable[[Any], None]) -> Callable[..., None]:
    """Makes a command of a function of one dataclass: each field is an option, or an argument, in the panels' order."""
    (parameter,) = inspect.signature(command).parameters.values()
    options = parameter.annotation
    hints = get_type_hints(options, include_extras=True)

    def called(**values: Any) -> None:
        command(options(**values))

    def annotation(each: Any) -> Any:
        hint = hints[each.name]
        if not each.metadata:
            return hint
        name = each.metadata["name"]
        if name is None and hint is bool:  # else there were a --no- for it
            name = f"--{each.name.replace('_', '-')}"
        return Annotated[hint, each.metadata["make"](*([name] if name else []), **each.metadata["settings"])]

    def panel(annotated: Any) -> int:
        title = None if annotated is typer.Context else annotated.__metadata__[0].rich_help_panel
        return _PANELS.index(title) if title in _PANELS else -1

    parameters = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=annotation(each),
        )
        for each in fields(options)
    ]
    ordered = sorted(parameters, key=lambda each: panel(each.annotation))
    called.__signature__ = inspect.Signature(ordered)  # type: ignore[attr-defined]
    called.__name__, called.__doc__ = command.__name__, command.__doc__
    return called


def _offline(offline: bool) -> bool:
    if offline:
        go_offline()
    return offline


def _encoding(context: typer.Context, encoding: str | None) -> str | None:
    if encoding is not None:
        from medjudge.tables.spreadsheets import known_encoding, named_encoding

        before = named_encoding.set(known_encoding(encoding))
        context.call_on_close(lambda: named_encoding.reset(before))  # `medjudge run` has several commands
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
        set_quiet(True)
    return quiet


# What is judged, and where it lies.
BENCHMARK = "'sample', LLMEval-Med's dataset.json, or questions: .jsonl, .json, .csv, .xlsx."
Benchmark = Annotated[str, typer.Option(metavar="FILE", help=BENCHMARK)]
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
        help="Encoding of tables (.csv, .tsv) that are not UTF-8, such as gb18030, cp1252 or utf-16.",
        callback=_encoding,
    ),
]
RunFolder = Annotated[
    Path, typer.Argument(metavar="RUN", help="Run folder with questions and answers.", show_default=False)
]
RunFolders = Annotated[list[Path], typer.Argument(metavar="RUN", help="Run folders.", show_default=False)]
Out = Annotated[Path, typer.Option(metavar="FOLDER", help="Folder to write.", show_default=False)]
Models = Annotated[
    Optional[str], typer.Option(metavar="NAMES", help="Models to compare: a,b,c. Default: all of the run.")
]
Seed = Annotated[
    int, typer.Option(metavar="N", min=0, hidden=True, help="Random seed; the same seed gives the same result.")
]


# Who judges.
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


# The screen, and the network.
def _switch(name: str, help: str, panel: str, callback: Callable[..., bool], hidden: bool = False) -> Any:
    return typer.Option(name, help=help, rich_help_panel=panel, callback=callback, is_eager=True, hidden=hidden)


Offline = Annotated[bool, _switch("--offline", "Fail instead of using the network.", MACHINE, _offline)]
Quiet = Annotated[bool, _switch("--quiet", "Print only results, warnings and errors.", OUTPUT, _quiet, hidden=True)]
HelpAll = Annotated[bool, _switch("--help-all", "Show every option and exit.", OUTPUT, _help_all)]
AsJson = Annotated[
    bool,
    typer.Option("--json", help="Print one JSON object to stdout, everything else to stderr.", rich_help_panel=OUTPUT),
]

Thinking = Literal["on", "off", "default"]
Language = Literal["en", "zh"]
PageLanguage = Annotated[Language, typer.Option("--lang", metavar="en|zh", help="Language of the report.")]


def names_in(listed: str | None) -> tuple[str, ...]:
    """The names in `a,b,c`."""
    return tuple(name.strip() for name in (listed or "").split(",") if name.strip())
