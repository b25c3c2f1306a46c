"""The `medjudge` command."""

import errno
import io
import os
import signal
import sys
import warnings
from typing import NoReturn

import typer
from typer.exceptions import TyperException

from medjudge import __version__
from medjudge.cli import (
    annotate,
    answer,
    compare,
    data,
    distill,
    doctor,
    evaluate,
    pack,
    project,
    quickstart,
    refine,
    report,
    serve,
    train,
    validate,
)
from medjudge.cli.help import show_readable_help
from medjudge.errors import InputError, UnfinishedError, notify
from medjudge.screen import set_quiet

app = typer.Typer(
    name="medjudge",
    help="Judge medical answers with a local judge, and know how far to trust it.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
_INTERRUPTED, _TERMINATED = 128 + signal.SIGINT, 128 + signal.SIGTERM
_DISK_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_START, _BENCHMARK, _JUDGES, _PHYSICIANS = "Start here", "Run a benchmark", "Build a judge", "Work with physicians"

app.command("quickstart", rich_help_panel=_START)(quickstart.quickstart)
app.command("init", rich_help_panel=_START)(project.init)
app.command("run", rich_help_panel=_START)(project.run)
app.command("doctor", rich_help_panel=_START)(doctor.doctor)
app.add_typer(data.app, name="data", rich_help_panel=_START)
app.command("eval", rich_help_panel=_BENCHMARK)(evaluate.evaluate)
app.command("answer", rich_help_panel=_BENCHMARK)(answer.answer)
app.command("compare", rich_help_panel=_BENCHMARK)(compare.compare)
app.command("report", rich_help_panel=_BENCHMARK)(report.report)
app.command("serve", rich_help_panel=_BENCHMARK)(serve.serve)
app.command("pack", rich_help_panel=_BENCHMARK)(pack.pack)
app.command("unpack", rich_help_panel=_BENCHMARK)(pack.unpack)
app.command("distill", rich_help_panel=_JUDGES)(distill.distill)
app.command(
    "train",
    rich_help_panel=_JUDGES,
    # The recipe reads what is not declared here, and refuses what it does not know.
    context_settings={
        "allow_extra_args": True,
        "ignore_unknown_options": True,
        "token_normalize_func": lambda name: name.replace("_", "-"),  # as in the YAML: --train_file
    },
)(train.train)
app.command("validate", rich_help_panel=_JUDGES)(validate.validate)
app.command("refine", rich_help_panel=_PHYSICIANS)(refine.refine)
app.add_typer(annotate.app, name="annotate", rich_help_panel=_PHYSICIANS)
show_readable_help(app)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and stop.")) -> None:
    set_quiet(False)  # the command's own --quiet comes after this
    if version:
        print(__version__)
        raise typer.Exit()


def main() -> None:
    """Runs a command; a wrong input ends in one line on stderr and exit status 2."""
    # The libraries' own bars and warnings would bury ours; whoever sets these variables keeps what they set.
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_VERBOSITY", "error")
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "true")  # left unset, tokenizers would warn of subprocesses
    warnings.simplefilter("ignore")
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # where a terminal's encoding lacks a character
    at_term = signal.signal(signal.SIGTERM, _end)
    try:
        status = app(standalone_mode=False)
        if status == _INTERRUPTED:  # typer catches Ctrl-C and returns this
            _stop_here(_INTERRUPTED)
        sys.exit(status)
    except InputError as error:
        _refuse(str(error))
    except UnfinishedError as error:
        notify(f"stopped: {error}")
        sys.exit(1)
    except TyperException as error:
        if not error.format_message():  # a group that was called with nothing has printed its help
            sys.exit(2)
        _refuse(
            f"{error.format_message().rstrip('.')}; `medjudge --help` and `medjudge COMMAND --help` list what there is"
        )
    except OSError as error:
        full = error.errno in _DISK_FULL
        if error.filename is None and not full:
            raise
        fix = "free some space, then run the same command again" if full else "check the path"
        _refuse(f"{error.filename or 'output'}: {(error.strerror or str(error)).lower()}; {fix}")
    except KeyboardInterrupt:
        _stop_here(_INTERRUPTED)
    except _TerminatedError:
        _stop_here(_TERMINATED)
    except (MemoryError, RuntimeError) as error:
        from medjudge.models.hardware import is_out_of_memory  # loads torch, which most such errors come from

        if not is_out_of_memory(error):
            raise
        notify(
            "stopped: out of memory; everything that was written is kept. Free some memory or take a smaller model, "
            "then run the same command again"
        )
        sys.exit(1)
    finally:
        signal.signal(signal.SIGTERM, at_term)


class _TerminatedError(SystemExit):
    """The process was asked to end (SIGTERM), as by a scheduler; like Ctrl-C, no `except Exception` catches it.

    asyncio's transports swallow all that a signal raises while they write but `SystemExit` and `KeyboardInterrupt`.
    """


def _end(*_: object) -> NoReturn:
    raise _TerminatedError


def _stop_here(status: int) -> NoReturn:
    if sys.argv[1:2] != ["train"]:  # training has said whether there is a checkpoint to --resume from
        notify("\nstopped; the same command again goes on from here")
    sys.exit(status)


def _refuse(message: str) -> NoReturn:
    notify(f"error: {message}")
    sys.exit(2)
