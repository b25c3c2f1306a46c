"""The log of a run folder: what was printed while the folder was written, with the time, and how the work ended."""

import logging
import os
import sys
import time
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path

from medjudge.errors import LOG, InputError, UnfinishedError
from medjudge.files import appending

LOG_FILE = "log.txt"


class _File(logging.Handler):
    """Appends each message to a file. A log that cannot be written stops no work."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(message)s"))
        self.path = path

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError), appending(self.path) as file:
            file.write(self.format(record).strip().encode("utf-8", "backslashreplace") + b"\n")


@contextmanager
def logging_to(folder: Path) -> Iterator[None]:
    """Keeps what is printed in the log of a folder.

    Inside another folder's `logging_to` it does nothing: one command writes one log.
    """
    if any(isinstance(handler, _File) for handler in LOG.handlers):
        yield
        return
    log, start = _File(folder / LOG_FILE), time.monotonic()
    LOG.addHandler(log)
    command = " ".join(sys.argv[1:2])  # its options may hold a password; run.json keeps the settings
    LOG.info(f"--- medjudge {version('medjudge')} {command} (pid {os.getpid()})")
    try:
        yield
    except (InputError, UnfinishedError) as error:
        LOG.info(f"stopped: {error}")
        raise
    except Exception:
        LOG.info(f"failed:\n{traceback.format_exc()}")
        raise
    except BaseException as error:
        LOG.info(f"stopped: {type(error).__name__.strip('_')}")
        raise
    else:
        LOG.info(f"done in {time.monotonic() - start:.1f} s")
    finally:
        LOG.removeHandler(log)
