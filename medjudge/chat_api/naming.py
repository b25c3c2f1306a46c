"""How a model of a server, and the server itself, are named."""

import os
from urllib.parse import urlsplit

from medjudge.errors import InputError

_PREFIX = "openai:"
_OPENAI = "https://api.openai.com/v1"
_LOOPBACK = ("127.0.0.1", "::1", "0.0.0.0")
_PORTS = {"http": 80, "https": 443}


def server_model(name: str, option: str) -> str | None:
    """The model that `openai:MODEL` names; None where `name` is something else.

    Args:
        option: The option that the name was given to, such as `--judge`.

    Raises:
        InputError: Nothing stands behind `openai:`.
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
