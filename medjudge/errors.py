"""The errors whose messages are written for users, and what of a message may reach a terminal."""

import logging
import re
import sys

LOG = logging.getLogger("medjudge")
"""Messages for users go here as well; a run folder that is written keeps it in its log."""
LOG.setLevel(logging.INFO)

_LONGEST_LINE, _MOST_LINES = 2000, 1000
# Control characters but tab and line feed, marks that change the direction of text, line separators, surrogates.
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


class InputError(Exception):
    """The input or the options are wrong.

    The message is one line: what is wrong, where (file, row, field), and how to fix it; if a table has several
    problems, one line for each follows. The command line prints it and exits with 2.
    """


class UnfinishedError(Exception):
    """The work stopped early, and everything done so far is kept.

    The message is one line: why, and how to continue. The command line prints it and exits with 1.
    """


def printable(text: str) -> str:
    """A text as a terminal may show it: characters that control it or reorder a line become `\\u001b` and so on.

    In a JSON text this changes how a string is written, and not its value.
    """
    return _UNSAFE.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def on_terminal(message: str) -> str:
    """A message as it is printed: printable, and cut where a value from a file makes it longer than anybody reads."""
    lines = message.split("\n")
    shown = [line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}..." for line in lines[:_MOST_LINES]]
    if len(lines) > _MOST_LINES:
        shown.append(f"... and {len(lines) - _MOST_LINES} more lines")
    return printable("\n".join(shown))


def notify(message: str, shown: bool = True) -> None:
    """Prints to stderr what a user must know while the work goes on; names and texts of files cannot do harm.

    Args:
        shown: False for what goes into the log only.
    """
    text = on_terminal(message)
    if shown:
        print(text, file=sys.stderr)
    LOG.info(text)


class NetworkRefusedError(InputError, OSError):
    """Something wanted the network, and `--offline` forbids it.

    An OSError as well, so that a library which can do without the network goes on without it.
    """
