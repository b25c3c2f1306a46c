"""Progress bars and notes on work that goes on, and the choice of how much of both is shown."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

from medjudge.errors import notify

if TYPE_CHECKING:
    from tqdm import tqdm

    ProgressBar = tqdm[Any]
else:
    ProgressBar = Any  # tqdm takes time to load, and help needs none


_quiet = False


def set_quiet(quiet: bool) -> None:
    """Chooses whether only results, warnings and errors are shown from here on."""
    global _quiet
    _quiet = quiet


def is_quiet() -> bool:
    """True if only results, warnings and errors are shown."""
    return _quiet


def on_a_terminal() -> bool:
    """True if messages go to a person who waits at a terminal."""
    return sys.stderr.isatty()


def say(message: str) -> None:
    """Prints to stderr what is being done and with what, unless quiet; always into the log."""
    notify(message, not is_quiet())


def say_on_terminal(message: str) -> None:
    """As `say`, but only for a person who waits at a terminal."""
    notify(message, not is_quiet() and on_a_terminal())


LINE_SECONDS = 30.0
"""Seconds between two lines of progress off a terminal."""


def progress_bar(total: int, what: str, unit: str, shown: bool = True) -> ProgressBar:
    """A progress bar on a terminal, a line every `LINE_SECONDS` elsewhere; where quiet, one that shows nothing.

    Args:
        total: How many units there are to do.
        what: The work, in front of the bar.
        shown: False hides it here as well.
    """
    from tqdm import tqdm

    if on_a_terminal() or is_quiet() or not shown:
        return tqdm(total=total, desc=what, unit=unit, disable=is_quiet() or not shown, dynamic_ncols=True)
    # Not before the first interval is over: short work says nothing.
    return _lines()(
        total=total,
        desc=what,
        mininterval=LINE_SECONDS,
        maxinterval=LINE_SECONDS,
        miniters=_MONITORED,
        delay=LINE_SECONDS,
        bar_format=f"{{desc}}: {{n_fmt}} of {{total_fmt}} {unit}s, {{remaining}} left{{postfix}}",
    )


_MONITORED = 2
"""tqdm's monitor shows bars of more than one unit a line where none was done for `maxinterval` seconds."""


@cache
def _lines() -> "type[ProgressBar]":
    """The class of bars that print lines; one, since each class has a monitor of its own."""
    from tqdm import tqdm

    class Lines(tqdm):  # type: ignore[type-arg]
        def display(self, msg: str | None = None, pos: int | None = None) -> None:
            self.last_print_t, self.last_print_n, self.miniters = time.time(), self.n, _MONITORED
            say(str(self))

        def update(self, n: float | None = 1) -> bool | None:
            if not self.n:  # until then the judge or model was loaded
                self.start_t = self.last_print_t = time.time()
            return super().update(n)

        def close(self) -> None:
            self.disable = True  # a last line would repeat what the command says of its result
            super().close()

    return Lines


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
