"""Names of a server and its models, HTTP clients that limit what comes in, and texts without the API key.

A server, or a proxy in front of it, may repeat the request in its reply. What a reply says ends up in judgments and
messages, so the key is replaced in each text that is taken from one.
"""

import os
import re
from typing import Any
from urllib.parse import urlsplit

import openai

from medjudge.errors import InputError

MOST_BYTES = 8_000_000
"""The most bytes of a reply to one chat, uncompressed: over 100 times the longest answer of present models."""
MOST_BATCH_BYTES = 200_000_000
"""The most bytes of a file of batch requests (OpenAI's API reference, files), and of one of results."""
HIDDEN = "[API key]"
_SHORTEST_KEY = 8
_PREFIX = "openai:"
_OPENAI = "https://api.openai.com/v1"
_LOOPBACK = ("127.0.0.1", "::1", "0.0.0.0")
_PORTS = {"http": 80, "https": 443}


class UnreadReplyError(openai.OpenAIError):
    """A reply exceeds the limit; reading stopped there."""


class AsyncReader(openai.DefaultAsyncHttpxClient):
    """The asynchronous client. It follows no redirect, as the key belongs to the address that the user gave."""

    async def send(self, request: Any, **options: Any) -> Any:
        """Send a request and read the whole reply.

        Raises:
            UnreadReplyError: The reply has more than `MOST_BYTES`.
        """
        response = await super().send(request, **options | _UNREAD)
        data = bytearray()
        try:
            async for block in response.aiter_bytes(1 << 16):
                _add(data, block, MOST_BYTES)
        finally:
            await response.aclose()
        return _whole(response, bytes(data))


class Reader(openai.DefaultHttpxClient):
    """The client of batch jobs, whose results come in one file."""

    def send(self, request: Any, **options: Any) -> Any:
        """As `AsyncReader.send`, up to `MOST_BATCH_BYTES`."""
        response = super().send(request, **options | _UNREAD)
        data = bytearray()
        try:
            for block in response.iter_bytes(1 << 16):
                _add(data, block, MOST_BATCH_BYTES)
        finally:
            response.close()
        return _whole(response, bytes(data))


_UNREAD = {"stream": True, "follow_redirects": False}


def _add(data: bytearray, block: bytes, limit: int) -> None:
    data += block
    if len(data) > limit:
        raise UnreadReplyError(f"the server's reply exceeds {limit // 1_000_000} MB")


def _whole(response: Any, data: bytes) -> Any:
    described = ("content-encoding", "content-length", "transfer-encoding")  # of the bytes as they were sent
    headers = [(name, value) for name, value in response.headers.multi_items() if name not in described]
    return type(response)(response.status_code, headers=headers, content=data, request=response.request)


def without_key(text: str) -> str:
    """A text without the API key, also where its characters are escaped for a URL or for JSON.

    Placeholders such as "none" or "not needed" are words of texts, and no secrets.
    """
    key = os.environ.get("OPENAI_API_KEY", "")
    word = len(key) < 2 * _SHORTEST_KEY and key.replace(" ", "").isalpha()
    if len(key) < _SHORTEST_KEY or word:
        return text
    return re.sub("".join(map(_forms, key)), HIDDEN, text)


def _forms(character: str) -> str:
    """A pattern of a character as it is, and of its escapes. JSON within JSON has more than one backslash."""
    backslashes = r"\\{0,4}" if character in '/"\\' else ""
    encoded = "".join(f"%{byte:02x}" for byte in character.encode())
    return rf"(?:{backslashes}{re.escape(character)}|(?i:{encoded}|\\{{1,4}}u{ord(character):04x}))"


def server_model(name: str, option: str) -> str | None:
    """The model that `openai:MODEL` names; None where `name` is something else.

    Args:
        option: The option that the name was given to, such as `--judge`.

    Raises:
        InputError: `openai:` names no model.
    """
    if not name.startswith(_PREFIX):
        return None
    if name == _PREFIX:
        raise InputError(f"{option} openai: no model is named; write, for example, {option} openai:gpt-4o")
    return name.removeprefix(_PREFIX)


def server_address(base_url: str | None) -> str | None:
    """One spelling of a server's address, for records and comparisons; None for OpenAI's.

    A trailing slash, capitals, the usual port, a user's name and a query make no other server, and `localhost` is the
    same machine by any of its names.

    Args:
        base_url: What `--base-url` gave; None for the server that OPENAI_BASE_URL names, or OpenAI's.
    """
    url = (base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI).strip()
    try:
        parts = urlsplit(url)
        host, port = (parts.hostname or "").rstrip("."), parts.port
    except ValueError:
        return url
    if host in _LOOPBACK:
        host = "localhost"
    place = f"[{host}]" if ":" in host else host
    if port is not None and port != _PORTS.get(parts.scheme):
        place += f":{port}"
    address = f"{parts.scheme}://{place}{parts.path.rstrip('/')}"
    return None if address == _OPENAI else address
