"""Connections that ask for nothing, half a request, or too much: the pages stay reachable, and stderr stays short."""

import json
import logging
import resource
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from scoring_run import build_run, planned

from medjudge.workflows import connections
from medjudge.workflows.connections import MOST_OF_AN_ADDRESS, Door, repetitions_dropped

STARTS = (b"", b"GET / HTTP/1.1\r\nHo", b"POST /answer/1 HTTP/1.1\r\nContent-Length: 9\r\n\r\n1")
REQUEST_SECONDS = 3.0
FILES = 300
"""How many files each server may have open, sockets included."""


class Served(NamedTuple):
    """A server in a process of its own."""

    process: subprocess.Popen[str]
    address: tuple[str, int]
    link: str
    stderr: Path

    def connect(self) -> socket.socket:
        return socket.create_connection(self.address, timeout=30)

    def page(self) -> str:
        """What a browser sees that opens the link now."""
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        page: str = opener.open(self.link, timeout=30).read().decode()
        return page


@pytest.fixture(scope="module", params=["scoring pages", "run pages"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One of the two kinds of servers, with a short time for a request and few files."""
    folder = tmp_path_factory.mktemp("served")
    run = build_run(folder / "runs" / "run")
    planned(run)
    scoring = ["annotate", "serve", str(run.path), "--rater", "dr-a", "--no-open", "--json"]
    command = scoring if request.param == "scoring pages" else ["serve", str(run.path.parent), "--port", "0", "--json"]
    program = (
        "import resource, sys, medjudge.workflows.connections as connections\n"
        f"resource.setrlimit(resource.RLIMIT_NOFILE, ({FILES}, {FILES}))\n"
        f"connections.REQUEST_SECONDS = {REQUEST_SECONDS}\n"
        f"sys.argv = ['medjudge', *{command}]\n"
        "from medjudge.cli.main import main\nmain()"
    )
    stderr = folder / "stderr"
    with (
        stderr.open("w") as errors,
        subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=errors, text=True) as process,
    ):
        assert process.stdout is not None
        printed = ""
        while not printed.endswith("\n}\n"):
            line = process.stdout.readline()
            assert line, stderr.read_text()
            printed += line
        told = json.loads(printed)
        link = told.get("link") or told["address"] + "/"
        parts = urlsplit(link)
        yield Served(process, (str(parts.hostname), int(parts.port or 0)), link, stderr)
        process.kill()


def closed_within(connection: socket.socket, seconds: float) -> bool:
    connection.settimeout(seconds)
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_a_thousand_half_open_connections_do_not_stop_the_pages(server: Served) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip(f"this machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    waiting = []
    try:
        for number in range(1100):
            waiting.append(server.connect())
            waiting[-1].send(STARTS[number % len(STARTS)])
            if number % 100 == 99:
                server.page()
        assert "<html" in server.page()
    finally:
        for connection in waiting:
            connection.close()
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert "<html" in server.page()
    assert server.process.poll() is None
    assert "Traceback" not in server.stderr.read_text()
    assert server.stderr.stat().st_size < 2000


@pytest.mark.parametrize(
    "start",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\nhalf",
    ],
    ids=["nothing", "half a header", "half a form"],
)
def test_a_request_that_does_not_end_is_cut_off(server: Served, start: bytes) -> None:
    with server.connect() as connection:
        connection.send(start)
        for _ in range(3):  # a byte now and then does not prolong it
            time.sleep(0.1)
            connection.send(b"x" if start else b"")
        connection.settimeout(20)
        received = b""
        try:
            while more := connection.recv(1000):
                received += more
        except ConnectionResetError:
            pass
    assert b" 200 " not in received
    assert "<html" in server.page()


def test_a_second_request_that_does_not_end_is_cut_off(server: Served) -> None:
    host = f"{server.address[0]}:{server.address[1]}"
    with server.connect() as connection:
        connection.send(f"GET /none HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 ")
        time.sleep(0.2)
        connection.send(b"GET / HTTP/1.1\r\n")
        connection.settimeout(20)
        while connection.recv(10_000):
            pass


def test_the_oldest_connection_without_a_request_makes_room() -> None:
    """The socket itself counts: a TLS connection without a handshake never reaches the protocol."""
    answering = SimpleNamespace(is_answering=True)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        door = Door(listening)
        accepted, peers = [], []
        for number in range(MOST_OF_AN_ADDRESS + 5):
            peers.append(socket.create_connection(door.getsockname()[:2]))
            accepted.append(door.accept()[0])
            if number == 0:
                door.protocols[peers[0].getsockname()] = answering  # type: ignore[assignment]
        assert not closed_within(peers[0], 0.05)  # a request is under way on it
        assert [closed_within(peer, 10) for peer in peers[1:6]] == [True] * 5
        assert not closed_within(peers[6], 0.05)
        for each in accepted:
            each.close()
        fresh = socket.create_connection(door.getsockname()[:2])
        accepted = [door.accept()[0]]
        assert not closed_within(fresh, 0.05)
        for open_socket in [*accepted, *peers, fresh, door]:
            open_socket.close()


def test_where_every_connection_answers_a_new_one_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "MOST_OF_AN_ADDRESS", 1)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        door = Door(listening)
        first = socket.create_connection(door.getsockname()[:2])
        accepted, peer = door.accept()
        door.protocols[peer] = SimpleNamespace(is_answering=True)  # type: ignore[assignment]
        second = socket.create_connection(door.getsockname()[:2])
        with pytest.raises(BlockingIOError):
            door.accept()
        assert closed_within(second, 10)
        assert not closed_within(first, 0.05)
        for open_socket in (accepted, first, second, door):
            open_socket.close()


def test_a_repeated_fault_is_written_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("asyncio")
    with repetitions_dropped("asyncio"):
        for number in range(1000):
            logger.error("socket.accept() out of system resource\nsocket: %s", number)
            try:
                raise OSError(24, "Too many open files")
            except OSError:
                logger.exception("Exception in ASGI application\n")
        logger.error("another fault")
    assert len(caplog.records) == 3
    logger.error("another fault")
    assert len(caplog.records) == 4
