"""Keeps a server of pages from being taken by one client: limits on connections, and on the time for a request."""

import asyncio
import errno
import logging
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from ipaddress import ip_address, ip_network
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

REQUEST_SECONDS = 20.0
"""The longest time for a request, from its first byte or the start of the connection to its last byte."""
STALLED_SECONDS = 60.0
"""Seconds for which a client may take nothing of a response."""
MOST_OF_AN_ADDRESS = 100
"""Connections of one address at a time; a reverse proxy is one address."""
_MOST = 400
_MOST_CLOSING = 32
_SAME_SECONDS = 60.0
_NONE_LEFT = (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM)


class _Connection(socket.socket):
    """An accepted connection, which the door counts until it is closed."""

    door: "Door"
    peer: tuple[Any, ...]
    origin: str
    told_to_close = False

    def close(self) -> None:
        self.door.left(self)
        super().close()


class Door(socket.socket):
    """A listening socket that keeps the number of connections bounded: the oldest without a request makes room."""

    def __init__(self, listening: socket.socket) -> None:
        super().__init__(fileno=listening.detach())
        self.protocols: dict[tuple[Any, ...], GuardedProtocol] = {}
        self._open: dict[tuple[Any, ...], _Connection] = {}
        self._closing = 0
        self._most = min(_MOST, _most_files() // 2)

    def accept(self) -> tuple[socket.socket, Any]:
        """Accepts a connection for the event loop, which takes BlockingIOError as "none for now"."""
        if self._closing >= _MOST_CLOSING:
            raise BlockingIOError  # the loop first closes those that were told to
        try:
            accepted, peer = super().accept()
        except OSError as error:
            if error.errno not in _NONE_LEFT:
                raise
            if not self._make_room(list(self._open.values())):
                time.sleep(0.05)  # else the loop would spin until a request ends
            raise BlockingIOError from None
        connection = _Connection(fileno=accepted.detach())
        connection.door, connection.peer, connection.origin = self, peer, _origin(peer[0])
        same = [other for other in self._open.values() if other.origin == connection.origin]
        crowd = same if len(same) >= MOST_OF_AN_ADDRESS else list(self._open.values())
        self._open[peer] = connection
        if (len(same) >= MOST_OF_AN_ADDRESS or len(crowd) >= self._most) and not self._make_room(crowd):
            connection.close()
            raise BlockingIOError
        return connection, peer

    def left(self, connection: _Connection) -> None:
        """Stops counting a connection."""
        if self._open.pop(connection.peer, None) is not None:
            self._closing -= connection.told_to_close

    def _make_room(self, crowd: list[_Connection]) -> bool:
        """Ends the oldest connection that no request is under way on; returns whether there is one."""
        for connection in crowd:
            protocol = self.protocols.get(connection.peer)
            if not connection.told_to_close and (protocol is None or not protocol.is_answering):
                connection.told_to_close = True
                self._closing += 1
                with suppress(OSError):
                    connection.shutdown(socket.SHUT_RDWR)
                return True
        return False


class GuardedProtocol(H11Protocol):
    """HTTP with an end to waiting: uvicorn itself waits for ever for the rest of a request."""

    def __init__(self, *arguments: Any, door: Door, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._door = door
        self._deadline: asyncio.TimerHandle | None = None
        self._stalled: asyncio.TimerHandle | None = None

    @property
    def is_answering(self) -> bool:
        """True if a request was read whose response is not complete."""
        return (
            self.cycle is not None and not self.cycle.response_complete and self.conn.their_state is not h11.SEND_BODY
        )

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._peer = transport.get_extra_info("peername")
        self._door.protocols[self._peer] = self
        self._deadline = self.loop.call_later(REQUEST_SECONDS, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        self._door.protocols.pop(self._peer, None)
        self._end(self._deadline)
        self._end(self._stalled)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._deadline is None:
            self._deadline = self.loop.call_later(REQUEST_SECONDS, self.transport.abort)
        super().data_received(data)
        if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
            self._end(self._deadline)
            self._deadline = None

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._end(self._stalled)

    @staticmethod
    def _end(timer: asyncio.TimerHandle | None) -> None:
        if timer is not None:
            timer.cancel()


@contextmanager
def repetitions_dropped(*names: str) -> Iterator[None]:
    """Lets loggers write a message, with its traceback, once a minute: a fault that strangers cause fills no disk."""
    last: dict[object, float] = {}

    def is_new(record: logging.LogRecord) -> bool:
        first_line = str(record.msg).partition("\n")[0][:80]
        kind = (record.name, first_line, record.exc_info[0] if record.exc_info else None)
        if time.monotonic() - last.get(kind, float("-inf")) < _SAME_SECONDS:
            return False
        last[kind] = time.monotonic()
        return True

    loggers = [logging.getLogger(name) for name in names]
    for logger in loggers:
        logger.addFilter(is_new)
    try:
        yield
    finally:
        for logger in loggers:
            logger.removeFilter(is_new)


def _origin(address: str) -> str:
    """The unit that counts as one address: that of IPv4, and of IPv6 the network of 64 bits that one subscriber has."""
    ip = ip_address(address.partition("%")[0])
    if ip.version == 4:
        return str(ip)
    return str(ip.ipv4_mapped or ip_network((ip, 64), strict=False))


def _most_files() -> int:
    """The number of files that this process may have open."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return 2 * _MOST
    soft = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 2 * _MOST if soft < 0 else soft
