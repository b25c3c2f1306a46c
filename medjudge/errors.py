"""The errors whose messages are written for users."""


class InputError(Exception):
    """The input or the options are wrong.

    The message is one line: what is wrong, where (file, row, field), and how to fix it; if a table has several
    problems, one line for each follows. The command line prints it and exits with 2.
    """


class UnfinishedError(Exception):
    """The work stopped early, and everything done so far is kept.

    The message is one line: why, and how to continue. The command line prints it and exits with 1.
    """


class NetworkRefusedError(InputError, OSError):
    """Something wanted the network, and `--offline` forbids it.

    An OSError as well, so that a library which can do without the network goes on without it.
    """
