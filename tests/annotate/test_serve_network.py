"""The scoring pages on a network: several raters, personal links, TLS, a reverse proxy."""

import json
import socket
import ssl
import subprocess
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import httpx
import pytest
from browsing import running
from scoring_run import planned
from starlette.testclient import TestClient

from medjudge.annotate.access import Access
from medjudge.annotate.plan import Plan, PlanOptions, read_plan
from medjudge.annotate.serve import annotation_app
from medjudge.annotate.tasks import TASKS
from medjudge.errors import InputError
from medjudge.records import MTGDimensions
from medjudge.store import Run
from medjudge.workflows import network as network_module
from medjudge.workflows.annotate import export_forms
from medjudge.workflows.annotation_pages import AnnotationPages, open_pages
from medjudge.workflows.network import Network

TOKENS = {"a" * 32: "dr-a", "b" * 32: "dr-b"}
WARD = "http://ward.example:8443"


HOSTS = frozenset({"ward.example", "127.0.0.1"})


@pytest.fixture(autouse=True)
def plan(run: Run) -> Plan:
    """For dr-a and dr-b, all fourteen answers."""
    return planned(run)


def client(run: Run, token: str) -> TestClient:
    app = annotation_app(run, read_plan(run), Access(TOKENS, HOSTS))
    browser = TestClient(app, base_url=WARD, follow_redirects=False)
    assert browser.get("/", params={"token": token}).status_code == 200
    browser.headers["origin"] = WARD
    return browser


def test_each_link_scores_for_its_own_rater_and_a_page_that_stayed_open_for_nobody_else(run: Run) -> None:
    first, second = client(run, "a" * 32), client(run, "b" * 32)
    for browser, rater in ((first, "dr-a"), (second, "dr-b")):
        item = browser.get("/").headers["location"]
        assert f'name="rater" value="{rater}"' in browser.get(item).text
        form = {"score": "4", "rater": rater, **dict.fromkeys(MTGDimensions.model_fields, "1")}
        assert browser.post(item, data=form).status_code == 303
    assert first.get("/", params={"token": "b" * 32}).status_code == 200
    reply = first.post(first.get("/").headers["location"], data={"score": "4", "rater": "dr-a"})
    assert reply.status_code == 409
    assert "Open your own link again" in reply.text
    assert "请重新打开您自己的链接" in reply.text
    assert sorted(score.rater for score in run.physician_scores()) == ["dr-a", "dr-b"]


def test_huge_forms_are_refused(run: Run) -> None:
    browser = client(run, "a" * 32)
    item = browser.get("/").headers["location"]
    assert browser.post(item, data={"score": "4", "comment": "x" * 2_000_000}).status_code == 413
    assert browser.post(item, content=iter([b"score=4"])).status_code == 413  # of unknown length
    assert not run.physicians_file.exists()


def test_behind_a_reverse_proxy_forms_come_from_its_address_and_cookies_are_secure(run: Run) -> None:
    public = "https://ward.example"
    app = annotation_app(run, planned(run), Access(TOKENS, HOSTS, public_url=public))
    for host in ("ward.example", "127.0.0.1:8443"):  # a proxy passes the browser's host on, or its own
        browser = TestClient(app, base_url=public, follow_redirects=False, headers={"host": host})
        opened = browser.get("/", params={"token": "a" * 32})
        assert "secure" in opened.headers["set-cookie"].lower()
        item = browser.get("/").headers["location"]
        refused = browser.post(item, data={"score": "9"}, headers={"origin": "http://127.0.0.1:1"})
        assert refused.status_code == 403
        reached = browser.post(item, data={"score": "9"}, headers={"origin": public})
        assert reached.status_code == 400


def serving(pages: AnnotationPages) -> AbstractContextManager[None]:
    """Serves pages in a thread, as their `serve` does in a process."""
    return running(pages.server(), pages.listener.socket)


def test_a_crowd_of_connections_and_a_header_without_end_are_refused(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(network_module, "MOST_CONNECTIONS", 5)
    pages = open_pages(run)
    with serving(pages):
        address = pages.listener.socket.getsockname()
        crowd = [socket.create_connection(address) for _ in range(5)]
        link = pages.links["dr-a"].link
        assert httpx.get(link, timeout=20, trust_env=False).status_code == 503
        for connection in crowd:
            connection.close()
        assert httpx.get(link, timeout=20, trust_env=False).status_code == 200
        with socket.create_connection(address, timeout=20) as connection:
            connection.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: " + b"x" * (1 << 15))
            assert connection.recv(100).startswith(b"HTTP/1.1 400 ")


def test_tls_by_certificate_files(run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    certificate, key = tmp_path / "ward.pem", tmp_path / "ward-key.pem"
    named = ("-subj", "/CN=ward", "-addext", "subjectAltName=IP:127.0.0.1")
    made = ("-newkey", "rsa:2048", "-nodes", "-days", "1", "-out", str(certificate), "-keyout", str(key))
    subprocess.run(["openssl", "req", "-x509", *named, *made], check=True, capture_output=True)
    pages = open_pages(run, network=Network("0.0.0.0", 0, certificate, key))
    assert capsys.readouterr().err == ""
    assert list(pages.links) == ["dr-a", "dr-b"]
    link = pages.links["dr-b"].link
    assert link.startswith("https://")
    trusting = ssl.create_default_context(cafile=certificate)
    address = f"https://127.0.0.1:{pages.listener.socket.getsockname()[1]}/"
    with (
        serving(pages),
        httpx.Client(verify=trusting, trust_env=False, timeout=20, follow_redirects=True) as browser,
    ):
        browser.get(f"{address}?{link.partition('?')[2]}")
        assert 'name="rater" value="dr-b"' in browser.get(address).text
        assert [cookie.secure for cookie in browser.cookies.jar] == [True]


def opened(run: Run, *raters: str, **options: Any) -> AnnotationPages:
    """Opens pages without serving them."""
    pages = open_pages(run, raters, **options)
    pages.listener.socket.close()
    return pages


def test_links_outlive_the_server_and_lack_of_tls_is_warned_of(run: Run, capsys: pytest.CaptureFixture[str]) -> None:
    first = opened(run, network=Network("0.0.0.0"))
    warning = capsys.readouterr().err
    assert warning.count("WARNING: ") == 3
    assert "--certificate and --key" in warning
    second = opened(run, "dr-b", network=Network("0.0.0.0", public_url="https://ward.example/"))
    assert capsys.readouterr().err == ""
    file = run.path / "annotation" / "links.json"
    token = json.loads(file.read_text())["dr-b"]
    assert first.links["dr-b"].link.endswith(f"/?token={token}")
    assert second.links == {"dr-b": (f"https://ward.example/?token={token}", 14)}
    file.write_text('{"dr-b": "short"}')
    with pytest.raises(InputError, match=r"links.json: not the links of raters; remove it"):
        open_pages(run)


def test_a_link_on_this_machine_is_the_same_after_a_restart_if_its_port_is_free(run: Run) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"--port {port}: address already in use; 0 uses a free one"):
            open_pages(run, network=Network(port=port))
        other = opened(run, "dr-a", network=Network(port=port, or_free=True)).links["dr-a"].link
    first, second = (opened(run, "dr-a", network=Network(port=port, or_free=True)).links["dr-a"].link for _ in "12")
    assert first == second
    assert first.startswith(f"http://127.0.0.1:{port}/?token=")
    assert other != first
    assert other.partition("?")[2] == first.partition("?")[2]


def test_links_of_others_and_removed_ones_are_refused(run: Run) -> None:
    file = run.path / "annotation" / "links.json"
    opened(run)
    tokens = json.loads(file.read_text())
    assert all(len(token) >= 32 for token in tokens.values())
    file.chmod(0o644)
    alone = TestClient(opened(run, "dr-b")._app, base_url="http://127.0.0.1")
    assert file.stat().st_mode & 0o777 == 0o600
    assert alone.get("/", params={"token": tokens["dr-b"]}).status_code == 200
    assert alone.get("/", params={"token": tokens["dr-a"]}).status_code == 403
    file.unlink()
    removed = TestClient(opened(run)._app, base_url="http://127.0.0.1")
    assert removed.get("/", params={"token": tokens["dr-a"]}).status_code == 403


@pytest.mark.parametrize("kind", ["pairs", "items"])
def test_pairs_and_items_are_served_with_the_links_of_scoring(kind: str, sample_run: Path) -> None:
    run, task = Run(sample_run), TASKS[kind]
    export_forms(run, PlanOptions(["dr-a", "dr-b"], 1, each=4), task=task)
    pages = opened(run, task=task)
    tokens = json.loads((run.path / "annotation" / "links.json").read_text())
    assert {rater: link.link.partition("token=")[2] for rater, link in pages.links.items()} == tokens
    assert pages.links["dr-b"].answers == 4
    browser = TestClient(pages._app, base_url="http://127.0.0.1")
    browser.get("/", params={"token": tokens["dr-b"]})
    assert 'name="rater" value="dr-b"' in browser.get("/").text
    with pytest.raises(InputError, match=f"--rater dr-c: no (pairs|answers) in the plan of {run.path}"):
        open_pages(run, ["dr-c"], task=task)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Network("192.0.2.9"), "--host 192.0.2.9: no address of this machine; take one of "),
        (Network("no-such-host.invalid"), "--host no-such-host.invalid: no address of this machine"),
        (Network(key=Path("k.pem")), "--key: belongs to --certificate FILE"),
        (Network(certificate=Path("none.pem")), "--certificate none.pem: no such file"),
        (Network(certificate=Path(__file__)), "not a certificate with its key"),
        (Network(public_url="https://ward.example/scores"), "--public-url .*: an address without a path is expected"),
        (Network(public_url="ward.example"), "--public-url ward.example: an address without a path is expected"),
    ],
)
def test_wrong_addresses_and_certificates_are_refused(run: Run, network: Network, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_pages(run, network=network)
