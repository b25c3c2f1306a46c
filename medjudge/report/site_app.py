"""Serves the pages of a folder of runs: read only, nothing outside the folder, and nothing that its files do not hold.

An address names a run, and never a path: a name is looked up among the folders that are there.
"""

import asyncio
from collections.abc import Awaitable, Callable, Hashable
from concurrent.futures import Future
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any, Generic, TypeVar

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from medjudge.annotate.access import HEADERS, names_host
from medjudge.errors import InputError
from medjudge.report.page import report_page
from medjudge.report.run_list import (
    ListedRun,
    UnreadableRun,
    list_run,
    open_run,
    reason_of,
    run_folders,
    state_of,
)
from medjudge.report.site import Pages
from medjudge.report.words import Words, code
from medjudge.store import Run

_HEADERS = {**HEADERS, "Content-Security-Policy": "frame-ancestors 'none'"}
"""Headers of every response. Each page holds the rest of its policy, with the hashes of its own style and script."""
_PAGES_KEPT = 256 << 20
"""Bytes of reports that are kept in memory."""
_RUNS_KEPT = 10_000
Value = TypeVar("Value")


def site_app(folder: Path, hosts: frozenset[str], language: str = "en") -> FastAPI:
    """The pages of the runs in a folder.

    Args:
        hosts: Host names and addresses of the server, without a port; no other name is answered (DNS rebinding).
        language: What the pages are written in: `en` or `zh`.
    """
    site = _Site(folder, language)
    server = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    @server.middleware("http")
    async def guard(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
        known = names_host(request.headers.get("host", ""), hosts)
        response = await call_next(request) if known else site.refused()
        response.headers.update(_HEADERS)
        return response

    server.add_exception_handler(404, site.not_found)
    server.add_exception_handler(InputError, site.unreadable)
    server.add_exception_handler(OSError, site.unreadable)

    @server.get("/")
    async def runs() -> Response:
        return await _in_thread(site.runs)

    @server.get("/run/{name}")
    async def run(name: str) -> Response:
        return await _in_thread(partial(site.run, name))

    return server


async def _in_thread(make: Callable[[], Response]) -> Response:
    """Makes a response in a thread that no end of the server waits for: Ctrl-C must not take as long as a report."""
    done: Future[Response] = Future()
    done.set_running_or_notify_cancel()

    def work() -> None:
        try:
            done.set_result(make())
        except Exception as error:
            done.set_exception(error)

    Thread(target=work, daemon=True).start()
    return await asyncio.wrap_future(done)


class Cache(Generic[Value]):
    """Values made from files, each kept with the state that the files had; one is made at a time.

    Args:
        capacity: How much is kept, by `size`; the least recently used value goes first.
        size: The size of a value.
    """

    def __init__(self, capacity: int, size: Callable[[Value], int] = lambda _: 1) -> None:
        self._capacity = capacity
        self._size = size
        self._entries: dict[Hashable, tuple[Hashable, Value]] = {}
        self._lock = Lock()

    def get(self, key: Hashable, state: Hashable, make: Callable[[], Value]) -> Value:
        """The value of this key, made anew unless it was made from files in this state.

        Args:
            state: Read before; a change that happens meanwhile is then seen by the next call.
        """
        with self._lock:
            entry = self._entries.pop(key, None)
            value = entry[1] if entry is not None and entry[0] == state else make()
            self._entries[key] = (state, value)
            total = sum(self._size(kept) for _, kept in self._entries.values())
            while total > self._capacity and len(self._entries) > 1:
                _, dropped = self._entries.pop(next(iter(self._entries)))
                total -= self._size(dropped)
            return value


class _Site:
    """Answers to requests.

    Args:
        folder: The folder of the runs, as the user named it.
    """

    def __init__(self, folder: Path, language: str) -> None:
        self._folder = folder
        self._language = language
        self._words = Words(language)
        self._pages = Pages(folder.resolve().name, self._words)
        self._listed: Cache[ListedRun | UnreadableRun] = Cache(_RUNS_KEPT)
        self._reports: Cache[bytes] = Cache(_PAGES_KEPT, len)
        self._drawing = Lock()  # matplotlib draws one figure at a time

    def runs(self) -> Response:
        """The index."""
        listed = self._all_runs()
        writing = {run.name for run in listed if Run(self._folder / run.name).is_being_written}
        return HTMLResponse(self._pages.runs(listed, writing))

    def run(self, name: str) -> Response:
        """The report of a run, as `medjudge report` writes it."""
        path = run_folders(self._folder).get(name)
        if path is None:
            return self.not_found()
        return HTMLResponse(self._reports.get(name, state_of(path), partial(self._report, path)))

    def _all_runs(self) -> list[ListedRun | UnreadableRun]:
        return [
            self._listed.get(name, state_of(path), partial(list_run, path))
            for name, path in run_folders(self._folder).items()
        ]

    def _report(self, path: Path) -> bytes:
        run = open_run(path)
        with self._drawing:
            return report_page([run], self._language).encode()

    def not_found(self, *_: Any) -> Response:
        """For an address that leads nowhere."""
        words = self._words
        return HTMLResponse(self._pages.message(words("Not found"), words("There is no such run or page here.")), 404)

    def refused(self) -> Response:
        """For a request by another name than the server's."""
        words = self._words
        line = words("These pages are served at the address that {command} printed.", command=code("medjudge serve"))
        return HTMLResponse(self._pages.message(words("Refused"), line), 403)

    def unreadable(self, _: Request, error: Exception) -> Response:
        """For a run, or a folder, that cannot be read."""
        words = self._words
        reason = words("Cannot be read: {reason}", reason=reason_of(error, self._folder))
        return HTMLResponse(self._pages.message(words("Cannot be shown"), reason), 422)
