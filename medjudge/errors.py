"""The errors that a user is meant to read."""


class InputError(Exception):
    """The input or the options are wrong.

    The message is one line: what is wrong, where (file, row, field), and how to fix it; where a table has several
    problems, a line for each follows. The command line prints it and exits with 2.
    """


class UnfinishedError(Exception):
    """The work stopped before its end, and everything done so far is kept.

    The message is one line: why, and how to go on. The command line prints it and exits with 1.
    """
