"""`--offline`: sockets of Python beyond loopback are refused, and the message names who wanted them."""

import asyncio
import os
import socket
import urllib.request
from pathlib import Path

import pytest
from calls import python, worked
from chat_server import completion

from medjudge import offline
from medjudge.errors import InputError, NetworkRefusedError

ELSEWHERE = "192.0.2.1"  # a documentation address: nothing is sent to it, whether the hook works or not


@pytest.fixture
def without_network(monkeypatch):
    """The hook stays for the life of the process; what it refuses ends with the test."""
    monkeypatch.setattr(offline, "_refusing", False)
    for name in offline._ENVIRONMENT:
        monkeypatch.setenv(name, os.environ.get(name, ""))
    offline.go_offline()


def connect(family: int, kind: int, address: tuple[object, ...]) -> None:
    with socket.socket(family, kind) as connection:
        connection.settimeout(0.05)
        connection.connect(address)


@pytest.mark.usefixtures("without_network")
@pytest.mark.parametrize(
    ("want", "where"),
    [
        (lambda: connect(socket.AF_INET, socket.SOCK_STREAM, (ELSEWHERE, 443)), f"{ELSEWHERE}:443"),
        (lambda: connect(socket.AF_INET, socket.SOCK_DGRAM, (ELSEWHERE, 53)), f"{ELSEWHERE}:53"),
        (lambda: connect(socket.AF_INET6, socket.SOCK_STREAM, ("2001:db8::1", 80)), "2001:db8::1:80"),
        (lambda: connect(socket.AF_INET6, socket.SOCK_STREAM, ("::ffff:192.0.2.1", 80)), "::ffff:192.0.2.1:80"),
        (lambda: socket.socket(type=socket.SOCK_DGRAM).sendto(b"x", (ELSEWHERE, 53)), f"{ELSEWHERE}:53"),
        (lambda: socket.getaddrinfo("hub.invalid", 443), "hub.invalid:443"),
        (lambda: socket.getaddrinfo(b"hub.invalid", None), "hub.invalid"),
        (lambda: socket.gethostbyname("hub.invalid"), "hub.invalid"),
        (lambda: socket.gethostbyaddr(ELSEWHERE), ELSEWHERE),
        (lambda: socket.getnameinfo((ELSEWHERE, 443), 0), f"{ELSEWHERE}:443"),
    ],
)
def test_every_way_out_is_refused_with_the_place_and_who_wanted_it(want, where) -> None:
    with pytest.raises(NetworkRefusedError) as refused:
        want()
    assert isinstance(refused.value, (InputError, OSError))
    message = str(refused.value)
    assert message.startswith("--offline: ")
    assert "test_offline wanted" in message
    assert f" {where}, and nothing was sent" in message
    assert "\n" not in message


@pytest.mark.usefixtures("without_network")
def test_a_package_that_wants_the_network_is_named_or_else_its_thread() -> None:
    httpx = pytest.importorskip("httpx", reason="httpx is not installed; pip install -e '.[dev]'")
    with pytest.raises(Exception, match=r"httpx > httpcore.* wanted hub\.invalid:443") as refused:
        httpx.get("https://hub.invalid", trust_env=False)
    assert "--offline" in str(refused.value)

    async def look_up() -> None:
        await asyncio.get_running_loop().getaddrinfo("hub.invalid", 443)

    with pytest.raises(NetworkRefusedError, match=r"thread asyncio_0 wanted hub\.invalid:443"):
        asyncio.run(look_up())


@pytest.mark.usefixtures("without_network")
def test_loopback_sockets_pairs_and_unix_sockets_work(chat_server, tmp_path: Path) -> None:
    server = chat_server(lambda request: completion("yes"))
    url = server.url.replace("127.0.0.1", "localhost")
    with urllib.request.urlopen(urllib.request.Request(url, data=b"{}"), timeout=5) as reply:
        assert reply.status == 200
    left, right = socket.socketpair()
    left.send(b"x")
    assert right.recv(1) == b"x"
    with socket.socket(socket.AF_UNIX) as listener, socket.socket(socket.AF_UNIX) as client:
        listener.bind(str(tmp_path / "s"))
        listener.listen()
        client.connect(str(tmp_path / "s"))


def test_loopback_is_told_from_everything_else() -> None:
    inside = ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1", "localhost", None, ""]
    outside = ["0.0.0.0", "localhost.example.org", "127.0.0.1.nip.io", "fe80::1%eth0"]
    assert [host for host in [*inside, *outside] if offline.is_loopback(host)] == inside


def test_hub_and_xet_are_switched_off_by_their_own_variables() -> None:
    code = "from medjudge.offline import go_offline; go_offline()\nimport huggingface_hub.constants as c\n"
    code += "assert c.HF_HUB_OFFLINE and c.HF_HUB_DISABLE_XET and c.HF_HUB_DISABLE_TELEMETRY\n"
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    worked(python("-c", code, env=environment))


def test_a_command_that_wants_the_network_exits_with_2_and_one_line(medjudge, monkeypatch) -> None:
    monkeypatch.setattr(
        "medjudge.workflows.evaluate.run_evaluation",
        lambda request: connect(socket.AF_INET, socket.SOCK_STREAM, (ELSEWHERE, 443)),
    )
    done = medjudge("eval", "--judge", "local", "--offline")
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith("error: --offline: medjudge > test_offline wanted 192.0.2.1:443")
