"""Pages in headless Chromium that complain aloud, and apps served on loopback."""

import html
import re
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import uvicorn
from fastapi import FastAPI
from playwright.sync_api import Browser, Page, expect

PATIENCE = 120_000
"""Milliseconds that a busy machine may take for anything."""
expect.set_options(timeout=PATIENCE)


@contextmanager
def watched(browser: Browser, **options: Any) -> Iterator[Page]:
    """A tab; a dialog, an error of a script or a complaint of the page's policy fails the test, as do requests.

    Requests are allowed to files, `data:` addresses and loopback.
    """
    wrong: list[str] = []
    allowed = ("file:", "data:", "blob:", "http://127.0.0.1:")
    context = browser.new_context(**options)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("dialog", lambda dialog: wrong.append(dialog.message))
    page.on("console", lambda line: wrong.append(line.text))
    page.on("request", lambda sent: None if sent.url.startswith(allowed) else wrong.append(sent.url))
    page.route("**/favicon.ico", lambda route: route.fulfill(status=204))
    yield page
    context.close()
    assert wrong == []


@contextmanager
def running(server: uvicorn.Server, *sockets: socket.socket) -> Iterator[None]:
    """Runs a server in a thread, on sockets that listen already or on its own."""
    thread = threading.Thread(target=server.run, kwargs={"sockets": list(sockets) or None})
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address of an app that is served on loopback."""
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="warning"))
    with running(server):
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"


def text_of(page: str) -> str:
    """The text of a page or a piece of it, as one line."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())
