"""Serves the scoring pages: to this machine, or to the physicians of a network."""

import errno
import json
import os
import secrets
import socket
import ssl
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

import psutil

from medjudge.annotate.adjudicate import adjudication_plan
from medjudge.annotate.plan import Plan, plan_file, rater_problem, read_plan
from medjudge.annotate.progress import progress_by_rater
from medjudge.errors import InputError, notify
from medjudge.files import read_json, write_whole
from medjudge.offline import is_loopback
from medjudge.store import Run

if TYPE_CHECKING:
    from fastapi import FastAPI

LOOPBACK_HOST = "127.0.0.1"
_EVERYWHERE = ("0.0.0.0", "::")
_UNENCRYPTED = """\
WARNING: no TLS. Links, answers and scores cross the network unencrypted:
WARNING: whoever can read its traffic can read them, and score in the name of each rater.
WARNING: Give --certificate and --key, or put a reverse proxy with TLS before it and give --public-url https://..."""


class Network(NamedTuple):
    """Where the pages are served.

    Attributes:
        host: An address or name of this machine; 0.0.0.0 for all of its addresses.
        port: 0 for a free one.
        certificate: The certificate chain (PEM), for TLS.
        key: Its private key (PEM), unless the certificate's file holds it.
        public_url: The address of a reverse proxy before the server, as browsers type it.
    """

    host: str = LOOPBACK_HOST
    port: int = 0
    certificate: Path | None = None
    key: Path | None = None
    public_url: str | None = None

    @property
    def for_this_machine(self) -> bool:
        """Whether nobody else can reach the pages."""
        return is_loopback(self.host) and self.public_url is None

    @property
    def encrypted(self) -> bool:
        """Whether what crosses the network is encrypted."""
        return self.certificate is not None or (self.public_url or "").startswith("https:") or self.for_this_machine


class RaterLink(NamedTuple):
    """A rater's own link, which carries the access token, and how many answers the rater has to score."""

    link: str
    answers: int


@dataclass(frozen=True)
class ScoringPages:
    """The scoring pages of some raters, listening; `serve` runs them.

    Attributes:
        links: By rater.
        adjudicates: Whether agreed scores are recorded.
    """

    run: Run
    plan: Plan
    network: Network
    links: dict[str, RaterLink]
    adjudicates: bool
    _socket: socket.socket
    _app: "FastAPI"

    def serve(self) -> None:
        """Serves the pages until Ctrl-C."""
        import uvicorn

        # No access log: it would contain the tokens.
        config = uvicorn.Config(
            self._app,
            log_level="warning",
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=2,
            ssl_certfile=self.network.certificate,
            ssl_keyfile=self.network.key,
        )
        with suppress(KeyboardInterrupt):  # not raised where the shell that started us ignores Ctrl-C
            uvicorn.Server(config).run(sockets=[self._socket])

    def open_answers(self) -> dict[str, int]:
        """How many answers each rater still has to score."""
        if self.adjudicates:
            return {
                rater: link.answers - sum(score.rater == rater for score in self.run.adjudicated())
                for rater, link in self.links.items()
            }
        progress = progress_by_rater(self.run, [self.plan])
        return {rater: progress[rater].open for rater in self.links}


def open_scoring_pages(
    run: Run | Path | str, raters: Sequence[str] = (), *, network: Network = Network(), adjudicate: bool = False
) -> ScoringPages:
    """Opens the pages on which raters score the answers of the run's plan.

    Beyond this machine the links stay the same when the server starts again; they are in `annotation/links.json`.

    Args:
        raters: Raters of the plan; all of them unless given.
        adjudicate: The only rater is a third physician, who records the agreed score where two others differ.

    Raises:
        InputError: A rater has no answers in the plan, FastAPI is not installed, the address cannot be used, or the
            certificate cannot be read.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    if adjudicate and len(raters) != 1:
        raise InputError("--adjudicate: name one --rater, a physician who did not score the disputed answers")
    plan = adjudication_plan(run, raters[0]) if adjudicate else read_plan(run)
    chosen = list(dict.fromkeys(raters)) or [rater for rater, items in plan.by_rater.items() if items]
    for rater in chosen:
        if not plan.by_rater.get(rater):
            raise InputError(
                f"--rater {rater}: no answers in the plan of {run.path}; the raters are {', '.join(plan.by_rater)}"
            )
    try:
        import uvicorn  # noqa: F401

        from medjudge.annotate.access import Access
        from medjudge.annotate.serve import scoring_app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("fastapi", "uvicorn"):
            raise
        raise InputError("annotate serve needs FastAPI and uvicorn; pip install 'medjudge[annotate]'") from None
    _check_certificate(network)
    public_url = _checked_public_url(network.public_url)
    listening = _listening(network)
    port = listening.getsockname()[1]
    tokens = _fresh_tokens(chosen) if network.for_this_machine else _kept_tokens(run, chosen)
    access = Access(
        {token: rater for rater, token in tokens.items()},
        _host_names(network, public_url),
        network.certificate is not None,
        public_url,
        for_others=not network.for_this_machine,
    )
    app = scoring_app(run, plan, access, adjudicate)
    if not network.encrypted:
        notify(_UNENCRYPTED)
    base = public_url or f"{'https' if network.certificate else 'http'}://{_shown_host(network.host)}:{port}"
    links = {
        rater: RaterLink(f"{base}/?token={token}", len(set(plan.by_rater[rater]))) for rater, token in tokens.items()
    }
    return ScoringPages(run, plan, network, links, adjudicate, listening, app)


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
        reason = os.strerror(error.errno).lower()
        raise InputError(f"--port {network.port}: {reason}; omit it to use a free one") from None


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


def _shown_host(host: str) -> str:
    """The host in the links."""
    name = _own_addresses()[0] if host in _EVERYWHERE else host
    return f"[{name}]" if ":" in name else name


def _host_names(network: Network, public_url: str) -> frozenset[str]:
    """The names and addresses by which browsers may call the server."""
    from medjudge.annotate.access import LOOPBACK, host_of

    names = set(LOOPBACK) | {network.host.lower()}
    if network.host in _EVERYWHERE:
        names |= {*_own_addresses(), socket.gethostname().lower(), socket.getfqdn().lower()}
    if public_url:
        names.add(host_of(public_url))
    return frozenset(names - set(_EVERYWHERE))


def _fresh_tokens(raters: Sequence[str]) -> dict[str, str]:
    return {rater: secrets.token_urlsafe(24) for rater in raters}


def _kept_tokens(run: Run, raters: Sequence[str]) -> dict[str, str]:
    """The raters' tokens, which outlive the server: a physician keeps the link."""
    file = plan_file(run).with_name("links.json")
    known = read_json(file, "remove it for new links") if file.exists() else {}
    if not isinstance(known, dict) or not all(
        isinstance(token, str) and len(token) >= 32 and rater_problem(rater) is None for rater, token in known.items()
    ):
        raise InputError(f"{file}: not the links of raters; remove it for new links")
    tokens = {rater: known.get(rater) or secrets.token_urlsafe(24) for rater in raters}
    if tokens.items() - known.items():
        write_whole(file, json.dumps({**known, **tokens}, ensure_ascii=False, indent=2) + "\n")
    return tokens
