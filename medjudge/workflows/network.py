"""The address of a server of pages: this machine only, or an address of a network, with TLS."""

import errno
import logging
import os
import socket
import ssl
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import psutil

from medjudge.errors import InputError, notify
from medjudge.offline import is_loopback

if TYPE_CHECKING:
    import uvicorn
    from fastapi import FastAPI

LOOPBACK_HOST = "127.0.0.1"
MOST_CONNECTIONS = 400
"""Connections at a time; a request on a further one is answered with 503."""
_LONGEST_HEADER = 16 << 10
_EVERYWHERE = ("0.0.0.0", "::")
_UNENCRYPTED = """\
WARNING: no TLS. {content} cross the network unencrypted:
WARNING: whoever can read its traffic can read them{harm}.
WARNING: Give --certificate and --key, or put a reverse proxy with TLS before it and give --public-url https://..."""


class Network(NamedTuple):
    """The address of the pages.

    Attributes:
        host: An address or name of this machine; 0.0.0.0 for all of its addresses.
        port: 0 for a free one.
        certificate: The certificate chain (PEM), for TLS.
        key: Its private key (PEM), unless the certificate's file holds it.
        public_url: The address of a reverse proxy before the server, as browsers type it.
        or_free: Whether a free port will do where this one cannot be had.
    """

    host: str = LOOPBACK_HOST
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    public_url: str | None = None
    or_free: bool = False

    @property
    def for_this_machine(self) -> bool:
        """True if nobody else can reach the pages."""
        return is_loopback(self.host) and self.public_url is None

    @property
    def encrypted(self) -> bool:
        """True if what crosses the network is encrypted."""
        return self.certificate is not None or (self.public_url or "").startswith("https:") or self.for_this_machine

    def warn_unencrypted(self, content: str, harm: str = "") -> None:
        """Warns on stderr where what the pages show crosses a network unencrypted.

        Args:
            content: What crosses it.
            harm: What whoever reads the traffic can do beside reading; starts with a comma.
        """
        if not self.encrypted:
            notify(_UNENCRYPTED.format(content=content, harm=harm))


class Listener(NamedTuple):
    """An open socket: browsers can connect to it before `serve` answers them.

    Attributes:
        public_url: The address of a reverse proxy, without a path; empty where there is none.
        address: The address of the pages, without a slash at its end.
        host_names: The names and addresses by which browsers may call the server.
    """

    network: Network
    socket: socket.socket
    public_url: str
    address: str
    host_names: frozenset[str]


@dataclass(frozen=True)
class Pages:
    """The pages of an app, listening; `serve` answers."""

    listener: Listener
    _app: "FastAPI"

    def serve(self) -> None:
        """Serves the pages until Ctrl-C; requests that take longer than two seconds from then on are cut short."""
        server = self.server()
        # A request that the end cuts short is no error of the app's.
        logging.getLogger("uvicorn.error").addFilter(lambda _: not server.should_exit)
        with suppress(KeyboardInterrupt):
            server.run(sockets=[self.listener.socket])  # not raised where our shell ignores Ctrl-C

    def server(self) -> "uvicorn.Server":
        """The server, with limits that keep it from running out of files or memory."""
        import uvicorn

        config = uvicorn.Config(
            self._app,
            http="h11",
            ws="none",
            log_level="warning",
            access_log=False,  # it would contain the tokens of links
            server_header=False,
            limit_concurrency=MOST_CONNECTIONS,
            h11_max_incomplete_event_size=_LONGEST_HEADER,
            timeout_graceful_shutdown=2,
            ssl_certfile=self.listener.network.certificate,
            ssl_keyfile=self.listener.network.key,
        )
        return uvicorn.Server(config)


def listen(network: Network) -> Listener:
    """Opens the socket of a server.

    Raises:
        InputError: The address cannot be used, or the certificate cannot be read.
    """
    _check_certificate(network)
    public_url = _checked_public_url(network.public_url)
    opened = _listening(network)
    scheme, port = "https" if network.certificate else "http", opened.getsockname()[1]
    host = _own_addresses()[0] if network.host in _EVERYWHERE else network.host
    address = public_url or f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}"
    return Listener(network, opened, public_url, address, _host_names(network, public_url))


def require_web_server(command: str, extra: str) -> None:
    """Raises InputError, with the extra that is missing, where FastAPI or uvicorn is not installed."""
    if any(find_spec(name) is None for name in ("fastapi", "uvicorn")):
        raise InputError(f"{command} needs FastAPI and uvicorn; pip install 'medjudge[{extra}]'")


def _check_certificate(network: Network) -> None:
    if network.certificate is None:
        if network.key is not None:
            raise InputError("--key: belongs to --certificate FILE")
        return
    for option, file in (("--certificate", network.certificate), ("--key", network.key)):
        if file is not None and not file.is_file():
            raise InputError(f"{option} {file}: no such file")
    try:
        # Without a password: a server that starts by itself has nobody to ask.
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(network.certificate, network.key, password=lambda: "")
    except (OSError, ValueError) as error:
        reason = " ".join(str(error).split())[:120]
        raise InputError(
            f"--certificate {network.certificate}: not a certificate with its key ({reason}); both are PEM files, and "
            "the key has no password"
        ) from None


def _checked_public_url(url: str | None) -> str:
    if url is None:
        return ""
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.path not in ("", "/") or parts.query:
        raise InputError(f"--public-url {url}: an address without a path is expected, such as https://scores.example")
    return f"{parts.scheme}://{parts.netloc}"


def _listening(network: Network) -> socket.socket:
    family = socket.AF_INET6 if ":" in network.host else socket.AF_INET
    try:
        return socket.create_server((network.host, network.port), family=family)
    except OSError as error:
        if error.errno not in (errno.EADDRINUSE, errno.EACCES):
            raise InputError(
                f"--host {network.host}: no address of this machine; take one of {', '.join(_own_addresses())}, or "
                "0.0.0.0 for all"
            ) from None
        if network.or_free:
            return socket.create_server((network.host, 0), family=family)
        reason = os.strerror(error.errno).lower()
        raise InputError(f"--port {network.port}: {reason}; 0 uses a free one") from None


def _own_addresses() -> list[str]:
    """The addresses at which other machines may reach this one; IPv4 comes first."""
    found = [
        (address.family != socket.AF_INET, address.address.partition("%")[0])
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
        if address.family in (socket.AF_INET, socket.AF_INET6)
    ]
    own = [address for _, address in sorted(found) if not is_loopback(address) and not address.startswith("fe80:")]
    return list(dict.fromkeys(own)) or [LOOPBACK_HOST]


def _host_names(network: Network, public_url: str) -> frozenset[str]:
    """The names and addresses by which browsers may call the server."""
    from medjudge.annotate.access import LOOPBACK  # needs FastAPI, an extra

    names = set(LOOPBACK) | {network.host.lower()}
    if network.host in _EVERYWHERE:
        names |= {*_own_addresses(), socket.gethostname().lower(), socket.getfqdn().lower()}
    if public_url:
        names.add(urlsplit(public_url).hostname or "")
    return frozenset(names - set(_EVERYWHERE))
