"""Access to the pages: for whoever has a rater's link, at the server's address, from its own pages."""

import re
import secrets
from collections.abc import Container, Mapping
from hashlib import sha256
from typing import NamedTuple

from fastapi import HTTPException, Request
from fastapi.responses import RedirectResponse, Response

from medjudge.annotate.rendering import message_page

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
"""The headers of every response."""

LANGUAGE_COOKIE = "medjudge-language"
LOOPBACK = frozenset({"127.0.0.1", "localhost"})
LARGEST_FORM = 1 << 20
"""Bytes of a posted form."""


class Access(NamedTuple):
    """The links of a server and the addresses at which it may be reached.

    Attributes:
        raters: The rater whom each token belongs to.
        hosts: Host names and addresses of the server, without a port.
        encrypted: Whether the server itself speaks TLS.
        public_url: The address of a reverse proxy before it; empty where there is none.
    """

    raters: Mapping[str, str]
    hosts: frozenset[str] = LOOPBACK
    encrypted: bool = False
    public_url: str = ""

    @property
    def cookie(self) -> str:
        """The cookie's name, one per server: cookies ignore the port. A browser belongs to one rater at a time."""
        return f"medjudge-{sha256(' '.join(sorted(self.raters)).encode()).hexdigest()[:8]}"

    @property
    def secure(self) -> bool:
        """True where browsers reach the pages by TLS only."""
        return self.encrypted or self.public_url.startswith("https:")

    def rater_of(self, token: str) -> str | None:
        """The rater whom a token belongs to; every token is compared in full, whichever is right."""
        right = [
            rater for known, rater in self.raters.items() if secrets.compare_digest(token.encode(), known.encode())
        ]
        return right[0] if right else None


def wanted_languages(request: Request) -> list[str]:
    """The languages that a rater chose, or that the browser asks for; the best first."""
    chosen = request.cookies.get(LANGUAGE_COOKIE, "")
    asked = [part.partition(";")[0].strip() for part in request.headers.get("accept-language", "").split(",")]
    return [chosen, *(code.partition("-")[0].lower() for code in asked)]


def switch_language(language: str, item: str = "") -> Response:
    """Shows the pages of this browser in another language from here on; without an item, the end page."""
    if not re.fullmatch(r"[A-Za-z0-9-]{1,35}", language):  # a cookie holds no other letters
        raise HTTPException(404)
    response = RedirectResponse(f"/answer/{item}" if item else "/", 303)
    response.set_cookie(LANGUAGE_COOKIE, language, httponly=True, samesite="strict", max_age=365 * 86400)
    return response


def names_host(header: str, hosts: Container[str]) -> bool:
    """True if a Host header names one of some hosts, with or without a port."""
    match = re.fullmatch(r"(\[[0-9a-fA-F:.]+\]|[^:\[\]]+)(:\d+)?", header)
    return match is not None and match[1].lower().strip("[]") in hosts


def refusal(request: Request, access: Access) -> Response | None:
    """Answers a request that must not reach the pages; None for one that may, whose rater is `request.state.rater`.

    A request needs a host name of the server and a rater's token: once in the link, then in a cookie. A form must come
    from the page itself.
    """
    host = request.headers.get("host", "")
    if not names_host(host, access.hosts):  # or somebody pointed another name at this server (DNS rebinding)
        return message_page("wrong_address", 403)
    if request.url.path.startswith("/static/"):
        return None  # the style of the messages too; they are files of the package
    link_token = request.query_params.get("token") if request.url.path == "/" else None
    if link_token is not None and request.method == "GET" and access.rater_of(link_token):
        # A page that continues by itself, not a redirect: a browser that came from another site would not send a
        # SameSite=Strict cookie with the redirected request.
        response = message_page("opening", 200)
        response.set_cookie(access.cookie, link_token, httponly=True, samesite="strict", secure=access.secure)
        return response
    rater = access.rater_of(request.cookies.get(access.cookie, ""))
    if link_token is not None or rater is None:
        return message_page("no_link", 403)
    if request.method not in ("GET", "HEAD"):
        # Under no-referrer a form sends `Origin: null`; Sec-Fetch-Site then says where it comes from.
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        own = f"{'https' if access.encrypted else 'http'}://{host}"
        if origin not in (own, access.public_url or own) and not (origin in (None, "null") and site == "same-origin"):
            return message_page("other_page", 403)
        length = request.headers.get("content-length", "")
        if not length.isdecimal() or int(length) > LARGEST_FORM:
            return message_page("too_large", 413)
    request.state.rater = rater
    return None
