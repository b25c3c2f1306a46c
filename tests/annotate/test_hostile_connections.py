"""Connections that ask for nothing, half a request, or too much: the pages stay reachable, and stderr stays short."""

import json
import logging
import resource
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

import pytest
from scoring_run import build_run, planned

from medjudge.workflows.connections import repetitions_dropped

STARTS = (b"", b"GET / HTTP/1.1\r\nHo", b"POST /answer/1 HTTP/1.1\r\nContent-Length: 9\r\n\r\n1")
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


@pytest.fixture(params=["scoring pages", "run pages"])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Callable[..., Served]]:
    """Starts one of the two kinds of servers; a test may set constants of the connections."""
    run = build_run(tmp_path / "runs" / "run")
    planned(run)
    scoring = ["annotate", "serve", str(run.path), "--rater", "dr-a", "--no-open", "--json"]
    command = scoring if request.param == "scoring pages" else ["serve", str(run.path.parent), "--port", "0", "--json"]
    started: list[subprocess.Popen[str]] = []

    def start(**constants: float) -> Served:
        program = (
            "import sys, medjudge.workflows.connections as connections\n"
            f"vars(connections).update({constants})\n"
            f"sys.argv = ['medjudge', *{command}]\n"
            "from medjudge.cli.main import main\nmain()"
        )
        stderr = tmp_path / "stderr"
        process = subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=stderr.open("w"),
            text=True,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES)),
        )
        started.append(process)
        assert process.stdout is not None
        printed = ""
        while not printed.endswith("\n}\n"):
            line = process.stdout.readline()
            assert line, stderr.read_text()
            printed += line
        told = json.loads(printed)
        link = told.get("link") or told["address"] + "/"
        parts = urlsplit(link)
        return Served(process, (str(parts.hostname), int(parts.port or 0)), link, stderr)

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def closed_within(connection: socket.socket, seconds: float) -> bool:
    connection.settimeout(seconds)
    try:
        return connection.recv(1000) == b""
    except ConnectionResetError:
        return True
    except TimeoutError:
        return False


def test_a_thousand_half_open_connections_do_not_stop_the_pages(served: Callable[..., Served]) -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2000:
        pytest.skip(f"this machine allows {hard} open files")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2000), hard))
    server = served()
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
def test_a_request_that_does_not_end_is_cut_off(served: Callable[..., Served], start: bytes) -> None:
    server = served(REQUEST_SECONDS=1.0)
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


def test_a_second_request_that_does_not_end_is_cut_off(served: Callable[..., Served]) -> None:
    server = served(REQUEST_SECONDS=1.0)
    host = f"{server.address[0]}:{server.address[1]}"
    with server.connect() as connection:
        connection.send(f"GET /none HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
        assert connection.recv(100).startswith(b"HTTP/1.1 ")
        time.sleep(0.2)
        connection.send(b"GET / HTTP/1.1\r\n")
        connection.settimeout(20)
        while connection.recv(10_000):
            pass


def test_an_address_has_a_limited_number_of_connections(served: Callable[..., Served]) -> None:
    server = served(MOST_OF_AN_ADDRESS=5)
    waiting = [server.connect() for _ in range(8)]
    assert [closed_within(connection, 10) for connection in waiting[:3]] == [True] * 3  # the oldest make room
    assert not any(closed_within(connection, 0.1) for connection in waiting[3:])
    assert "<html" in server.page()
    for connection in waiting:
        connection.close()


def test_without_a_handshake_tls_connections_are_limited_as_well(tmp_path: Path) -> None:
    from medjudge.workflows.connections import MOST_OF_AN_ADDRESS, Door

    with socket.create_server(("127.0.0.1", 0)) as listening:
        door = Door(listening)
        accepted = []
        peers = []
        for _ in range(MOST_OF_AN_ADDRESS + 5):
            peers.append(socket.create_connection(door.getsockname()[:2]))
            accepted.append(door.accept()[0])
        assert [closed_within(peer, 10) for peer in peers[:5]] == [True] * 5
        assert not closed_within(peers[5], 0.05)
        for each in [*accepted, *peers, door]:
            each.close()


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
