"""Keeps this process off the network: what `--offline` promises.

Libraries are told by their environment variables. An audit hook of Python refuses every socket beyond loopback, whoever
opens it. Sockets that a library opens outside Python, such as those of Rust or C++ code, are not seen by the hook.
"""

import os
import sys
import threading
from functools import cache
from ipaddress import ip_address
from traceback import walk_stack
from typing import Any

from medjudge.errors import NetworkRefusedError

_ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "HF_HUB_DISABLE_XET": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
}
"""Read when the libraries are imported."""
_WITH_ADDRESS = ("socket.connect", "socket.sendto", "socket.sendmsg")
_WITH_NAME = ("socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.getnameinfo")

_refusing = False


def go_offline() -> None:
    """Refuses the network from here on; must run before libraries that use it are imported."""
    global _refusing
    os.environ.update(_ENVIRONMENT)
    _refusing = True
    _hook()


@cache
def _hook() -> None:
    sys.addaudithook(_refuse)  # a hook can never be removed


def is_offline() -> bool:
    """True if this process refuses the network."""
    return _refusing


def is_loopback(host: str | bytes | None) -> bool:
    """True if a name or address is this machine's loopback; None and the empty name are."""
    name = os.fsdecode(host) if host else "localhost"
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ip_address(name.partition("%")[0])
    except ValueError:
        return False  # a name that would have to be looked up
    inner = getattr(address, "ipv4_mapped", None)  # ::ffff:127.0.0.1
    return (inner or address).is_loopback


def _refuse(event: str, arguments: tuple[Any, ...]) -> None:
    """The audit hook, which Python calls before it does what the event names."""
    if not _refusing or not event.startswith("socket."):
        return
    if event in _WITH_ADDRESS:
        address = arguments[1]
    elif event in _WITH_NAME:
        # getnameinfo passes an address, the others a name and perhaps a port.
        address = arguments[0] if isinstance(arguments[0], tuple) else arguments
    else:
        return
    # None: a datagram over a connection that was allowed. A text or bytes: a socket in the file system.
    if not isinstance(address, tuple) or is_loopback(address[0]):
        return
    parts = [part for part in address[:2] if part not in (None, 0, "")]
    where = ":".join(os.fsdecode(part) if isinstance(part, bytes) else str(part) for part in parts)
    raise NetworkRefusedError(
        f"--offline: {' > '.join(_callers())} wanted {where}, and nothing was sent; bring what it needs to this "
        "machine, or omit --offline"
    )


def _callers() -> list[str]:
    """The packages on the stack from medjudge's inwards, without Python's own library."""
    names: list[str] = []
    for frame, _ in walk_stack(sys._getframe(1)):
        name = str(frame.f_globals.get("__name__", "?")).partition(".")[0]
        if frame.f_globals is not globals() and name not in (*names, *sys.stdlib_module_names):
            names.append(name)
            if name == "medjudge":
                break
    # A helper thread may have nothing but Python's own code on its stack.
    return names[::-1] or [f"thread {threading.current_thread().name}"]
