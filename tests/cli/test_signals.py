"""The end that a scheduler asks for is not lost, wherever the process is when the signal comes."""

import asyncio
import os
import signal
import socket

import pytest

from medjudge.cli.main import _end, _TerminatedError


def test_a_signal_while_asyncio_writes_to_a_server_ends_the_process() -> None:
    class Signalled(socket.socket):
        """A socket in whose `send` the signal comes."""

        def send(self, *_: object) -> int:
            os.kill(os.getpid(), signal.SIGTERM)
            return 0

    async def ask() -> None:
        here, there = socket.socketpair()
        with there:
            here.setblocking(False)
            _, writer = await asyncio.open_connection(sock=Signalled(fileno=here.detach()))
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await asyncio.sleep(0)

    before = signal.signal(signal.SIGTERM, _end)
    try:
        with pytest.raises(_TerminatedError):
            asyncio.run(ask())
    finally:
        signal.signal(signal.SIGTERM, before)
