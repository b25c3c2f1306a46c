"""Who may use the scoring page: whoever has its link, from this machine, and from no page of another origin."""

import re
import secrets
from hashlib import sha256

from fastapi import Request
from fastapi.responses import Response

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
"""What every response carries."""


def refusal(request: Request, token: str) -> Response | None:
    """Answers a request that must not reach the page; None for one that may.

    A request needs a loopback host name and the token: once in the link, then in a cookie. A form must come from the
    page itself.
    """
    host = request.headers.get("host", "")
    if not re.fullmatch(r"(127\.0\.0\.1|localhost)(:\d+)?", host):  # a name that points here (DNS rebinding)
        return message_page("This page is served to this machine only.", 403)
    cookie = f"medjudge-{sha256(token.encode()).hexdigest()[:8]}"  # one per server: cookies ignore the port
    link_token = request.query_params.get("token") if request.url.path == "/" else None
    if link_token is not None and request.method == "GET" and _equal(link_token, token):
        # A page that continues by itself, not a redirect: a browser that came from another site would not send a
        # SameSite=Strict cookie with the redirected request.
        response = message_page("Opening the answers.", 200, go_on=True)
        response.set_cookie(cookie, token, httponly=True, samesite="strict")
        return response
    if link_token is not None or not _equal(request.cookies.get(cookie, ""), token):
        return message_page("Open the link that `medjudge annotate serve` printed: it carries the token.", 403)
    if request.method not in ("GET", "HEAD"):
        # Under no-referrer a form sends `Origin: null`; Sec-Fetch-Site then says where it comes from.
        origin, site = request.headers.get("origin"), request.headers.get("sec-fetch-site")
        if origin != f"http://{host}" and not (origin in (None, "null") and site == "same-origin"):
            return message_page("Scores are accepted from this page only.", 403)
    return None


def _equal(candidate: str, token: str) -> bool:
    return secrets.compare_digest(candidate.encode(), token.encode())
