"""Serves the pages of a folder of runs: read only, nothing outside the folder, and nothing that its files do not hold.

An address names a run, and never a path: a name is looked up among the folders that are there.
"""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from functools import lru_cache, partial
from pathlib import Path
from threading import Lock, Thread
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.responses import HTMLResponse, Response

from medjudge.annotate.access import HEADERS, names_host
from medjudge.errors import InputError
from medjudge.report.page import report_page
from medjudge.report.run_list import list_run, open_run, reason_of, run_folders, state_of
from medjudge.report.words import Words, code, environment, inline
from medjudge.store import Run

_HEADERS = {**HEADERS, "Content-Security-Policy": "frame-ancestors 'none'"}
"""Headers of every response. Each page holds the rest of its policy, with the hashes of its own style and script."""
_SCRIPTS = ("elements.js", "tables.js", "pictures.js", "theme.js", "site.js")
_RUNS_KEPT, _REPORTS_KEPT = 10_000, 8


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


class _Site:
    """Answers to requests."""

    def __init__(self, folder: Path, language: str) -> None:
        self._folder = folder
        self._words = Words(language)
        self._drawing = Lock()  # matplotlib draws one figure at a time
        # Each is made from files in one state; another state makes it anew.
        self._listed = lru_cache(_RUNS_KEPT)(lambda path, state: list_run(path))
        self._report = lru_cache(_REPORTS_KEPT)(lambda path, state: report_page([open_run(path)], language).encode())

    def runs(self) -> Response:
        """The index, the newest run first."""
        listed = {name: self._listed(path, state_of(path)) for name, path in run_folders(self._folder).items()}
        readable = [run for run in listed.values() if not isinstance(run, str)]
        return self._page(
            "runs.html",
            here="runs",
            title=self._words("Runs"),
            address=lambda name: f"/run/{quote(name, safe='')}",
            runs=sorted(readable, key=lambda run: (run["date"], run["name"]), reverse=True),
            unreadable={name: reason for name, reason in listed.items() if isinstance(reason, str)},
            writing={name for name in listed if Run(self._folder / name).is_being_written},
            named=3,  # models of a row; more are counted
        )

    def run(self, name: str) -> Response:
        """The report of a run, as `medjudge report` writes it."""
        path = run_folders(self._folder).get(name)
        if path is None:
            return self.not_found()
        with self._drawing:
            return HTMLResponse(self._report(path, state_of(path)))

    def not_found(self, *_: Any) -> Response:
        words = self._words
        return self._message(404, words("Not found"), words("There is no such run or page here."))

    def refused(self) -> Response:
        words, command = self._words, code("medjudge serve")
        line = words("These pages are served at the address that {command} printed.", command=command)
        return self._message(403, words("Refused"), line)

    def unreadable(self, _: Request, error: Exception) -> Response:
        words = self._words
        reason = words("Cannot be read: {reason}", reason=reason_of(error, self._folder))
        return self._message(422, words("Cannot be shown"), reason)

    def _message(self, status: int, title: str, line: str) -> Response:
        return self._page("message.html", status, here="", title=title, line=line)

    def _page(self, template: str, status: int = 200, **values: Any) -> Response:
        page = environment(self._words.language).get_template(template)
        frame = {"folder": self._folder.resolve().name, "texts": self._words.texts}
        frame |= {"style": inline("page.css"), "script": inline(*_SCRIPTS)}
        return HTMLResponse(page.render(**frame, **values), status)
