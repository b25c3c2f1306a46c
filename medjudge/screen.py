"""What is shown of work that goes on: progress bars, notes on what is being done, and how much of both."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Any

from medjudge.errors import notify

if TYPE_CHECKING:
    from tqdm import tqdm

    ProgressBar = tqdm[Any]
else:
    ProgressBar = Any  # tqdm takes time to load, and help needs none


class Detail(Enum):
    """How much is shown: QUIET only results, warnings and errors; VERBOSE also figures about the machine."""

    QUIET = "quiet"
    NORMAL = "normal"
    VERBOSE = "verbose"


_shown = Detail.NORMAL


def show(detail: Detail) -> None:
    """Sets how much is shown from here on."""
    global _shown
    _shown = detail


def is_quiet() -> bool:
    """Whether only results, warnings and errors are shown."""
    return _shown is Detail.QUIET


def on_a_terminal() -> bool:
    """Whether messages go to a person who waits at a terminal."""
    return sys.stderr.isatty()


def say(message: str) -> None:
    """Prints to stderr what is being done and with what, unless quiet; always into the log."""
    notify(message, not is_quiet())


def say_on_terminal(message: str) -> None:
    """As `say`, but only for a person who waits at a terminal."""
    notify(message, not is_quiet() and on_a_terminal())


def say_in_detail(message: str) -> None:
    """As `say`, but only where details were asked for."""
    notify(message, _shown is Detail.VERBOSE)


def progress_bar(total: int, what: str, unit: str, shown: bool = True) -> ProgressBar:
    """A progress bar on a terminal; elsewhere, and where quiet, one that shows nothing.

    Args:
        total: How many units there are to do.
        what: Stands before the bar.
        shown: False hides it here as well.
    """
    from tqdm import tqdm

    hidden = None if shown and not is_quiet() else True  # None: shown on a terminal
    return tqdm(total=total, desc=what, unit=unit, disable=hidden, dynamic_ncols=True)


@contextmanager
def stop_explained(what_is_kept: Callable[[], str]) -> Iterator[None]:
    """Says what is kept where Ctrl-C or a signal ends the work.

    Args:
        what_is_kept: Makes the line, when the work ends.
    """
    try:
        yield
    except Exception:
        raise
    except BaseException:
        notify(f"\n{what_is_kept()}")
        raise
