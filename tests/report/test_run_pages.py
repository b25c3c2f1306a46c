"""`medjudge serve`: the pages of all runs of a folder, on a server on loopback, and nothing beside them."""

import http.client
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import takewhile
from pathlib import Path

import pytest
from browsing import running, text_of
from calls import refused
from folder_of_runs import add_run, three_months
from starlette.testclient import TestClient

from medjudge.report import site_app as served_by
from medjudge.report.page import report_page
from medjudge.report.run_list import state_of
from medjudge.report.site_app import site_app
from medjudge.store import Run
from medjudge.workflows.network import Network
from medjudge.workflows.serve_site import open_run_pages

HERE = frozenset({"127.0.0.1"})
SECRET = "a secret outside"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    return three_months(tmp_path / "runs")


def browser_of(folder: Path, language: str = "en") -> TestClient:
    return TestClient(site_app(folder, HERE, language), base_url="http://127.0.0.1", follow_redirects=False)


def content_of(page: str) -> str:
    """The text of a page between its navigation and its footer."""
    return text_of(re.search(r"<main.*</main>", page, re.DOTALL)[0])


def rows_of(page: str) -> dict[str, str]:
    """The text of each row of a table, by its heading."""
    rows = re.findall(r'<tr><th scope="row">(.*?)</th>(.*?)</tr>', page, re.DOTALL)
    return {text_of(head): text_of(cells) for head, cells in rows}


def test_the_index_has_a_row_for_each_run_the_newest_first(runs) -> None:
    page = browser_of(runs).get("/")
    assert page.status_code == 200
    rows = rows_of(page.text)
    assert list(rows) == ["september", "august", "july"]
    for part in ("2026-09-01", "09:30", "ward.jsonl", "36 questions", "model-a , model-b", "mine", "never validated"):
        assert part in rows["september"]
    assert re.search(r"75\.0 58\.\d to 86\.\d model-b 100\.0 72 of 72 answers$", rows["september"])
    assert "50.0" in rows["july"]
    assert 'href="/run/september"' in page.text
    assert str(runs) not in page.text


def test_names_are_text_and_a_run_that_cannot_be_read_has_a_row_with_the_reason(runs, tmp_path) -> None:
    with (runs / "july" / "judgments" / "mine.jsonl").open("a") as file:
        file.write("not json\n{}\n")
    (runs / "august" / "answers.jsonl").unlink()
    (runs / "august" / ".pid").write_text(str(os.getpid()))
    (runs / "linked").symlink_to(three_months(tmp_path / "elsewhere") / "july")
    (runs / "notes").mkdir()
    name = "<img src=x onerror=alert(1)> #%?&'\" 二"
    add_run(runs / name, 12, {"model-<b>": 30})
    browser = browser_of(runs)
    index = browser.get("/").text
    assert "<img src=x" not in index
    assert "model-<b>" not in index
    (address,) = re.findall(r'href="(/run/%3C[^"]*)"', index)
    assert browser.get(address).status_code == 200
    rows = rows_of(index)
    assert list(rows)[1:] == ["september", "august being written", "july", "linked"]
    assert "july/judgments/mine.jsonl, line 73: not valid JSON" in rows["july"]
    assert rows["august being written"] == "Cannot be read: august: no answers yet"
    assert rows["linked"].startswith("Cannot be read: linked: is a link")
    for name in ("july", "august", "linked"):
        page = browser.get(f"/run/{name}")
        assert page.status_code == 422
        assert "Cannot be read" in page.text
        assert str(tmp_path) not in page.text


@pytest.mark.parametrize(
    ("file", "content", "row"),
    [
        ("agreement/mine.json", "{", "36 questions .* Cannot be read: july/agreement/mine.json: not valid JSON"),
        ("run.json", "{", "Cannot be read: july/run.json: not valid JSON"),
        ("run.json", '{"updated": "0001-01-01T00:00:00+10:00"}', "36 questions"),
        ("run.json", '{"judges": []}', "Cannot be read"),
    ],
)
def test_a_damaged_file_is_no_error_of_the_server(runs, file, content, row) -> None:
    (runs / "july" / "agreement").mkdir()
    (runs / "july" / file).write_text(content)
    browser = browser_of(runs)
    assert re.search(row, rows_of(browser.get("/").text)["july"])
    assert browser.get("/run/july").status_code in (200, 422)


def test_a_run_is_shown_as_report_writes_it_and_anew_when_its_files_change(runs, monkeypatch) -> None:
    made = []
    monkeypatch.setattr(served_by, "report_page", lambda *given: made.append(given) or report_page(*given))
    browser = browser_of(runs)

    first = browser.get("/run/july").text
    assert first == browser.get("/run/july").text == report_page([Run(runs / "july")])
    assert len(made) == 1
    lines = (runs / "july" / "judgments" / "mine.jsonl").read_text().replace('"score":2', '"score":4')
    (runs / "july" / "judgments" / "mine.jsonl").write_text(lines)
    changed = browser.get("/run/july").text
    assert changed == report_page([Run(runs / "july")]) != first
    assert len(made) == 2
    assert browser.get("/").text.count("100.0") > 1  # the index, too


def test_the_pages_in_chinese(runs) -> None:
    browser = browser_of(runs, "zh")
    for address in ("/", "/run/july", "/nothing"):
        page = browser.get(address).text
        assert '<html lang="zh">' in page
    shown = content_of(browser.get("/").text)
    names = {"UTC", "jsonl", "ward", "llmeval", "med", "mine", "model"}
    words = set(re.findall(r"[A-Za-z]{3,}", shown)) - names
    assert words == {"july", "august", "september"}


@pytest.fixture
def server(runs: Path) -> Iterator[Callable[[str, str], tuple[int, bytes]]]:
    """Asks a server on loopback for a path exactly as it is written."""
    pages = open_run_pages(runs, network=Network())

    def ask(path: str, method: str = "GET") -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", pages.listener.socket.getsockname()[1], timeout=60)
        connection.putrequest(method, path)
        connection.endheaders()
        response = connection.getresponse()
        body = response.read()
        connection.close()
        return response.status, body

    with running(pages.server(), pages.listener.socket):
        yield ask


def test_no_path_outside_the_folder_is_served(runs, tmp_path, server) -> None:
    outside = add_run(tmp_path / "outside", 7, {SECRET: 3})
    (tmp_path / "secret.txt").write_text(SECRET)
    (runs / "july" / "secret.txt").symlink_to(tmp_path / "secret.txt")
    shutil.copytree(runs / "august", runs / "with-a-link")
    (runs / "with-a-link" / "answers.jsonl").unlink()
    (runs / "with-a-link" / "answers.jsonl").symlink_to(outside.answers_file)
    (runs / "linked").symlink_to(outside.path)
    ways = ["..", ".", "%2e%2e", "..%2foutside", "%2e%2e%2foutside", "..%5coutside", "../outside", "linked"]
    ways += ["with-a-link", str(outside.path), str(outside.path).replace("/", "%2f"), "july", "july/secret.txt"]
    ways += ["july%2fsecret.txt", "linked/answers.jsonl", "....//outside", "%252e%252e%252foutside"]
    ways += ["july%2f..%2f..%2foutside"]
    for way in ways:
        for path in (f"/run/{way}", f"/{way}", f"//run/{way}"):
            status, body = server(path)
            assert SECRET.encode() not in body, path
            assert status in (200, 404, 422), path
            assert status != 200 or path in ("/.", "/..") or b"september" in body, path


def test_only_get_is_answered_and_nothing_is_written(runs, server) -> None:
    before = state_of(runs)
    for path in ("/", "/run/july"):
        assert server(path)[0] == 200
        for method in ("POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"):
            assert server(path, method)[0] == 405, (method, path)
    assert state_of(runs) == before


def test_another_host_name_is_refused_and_no_page_can_be_framed_or_kept(runs) -> None:
    browser = browser_of(runs)
    for address in ("/", "/run/july", "/nothing"):
        headers = browser.get(address).headers
        assert headers["content-security-policy"] == "frame-ancestors 'none'"
        assert headers["cache-control"] == "no-store"
        assert headers["x-content-type-options"] == "nosniff"
        other = browser.get(address, headers={"host": "evil.example"})
        assert other.status_code == 403
        assert "july" not in other.text
    for address in ("/", "/nothing"):  # a report has the same policy; its own tests look at that
        assert "default-src 'none'; script-src 'sha256-" in browser.get(address).text


SLOW = """
import sys, time
import medjudge.report.site_app as served
served.report_page = lambda *_: time.sleep(300)
from medjudge.cli.main import main
main()
"""


@pytest.mark.slow
def test_the_command_prints_the_port_serves_and_ends_with_ctrl_c_while_a_report_is_made(runs) -> None:
    command = [sys.executable, "-c", SLOW, "serve", str(runs), "--port", "0", "--json"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = json.loads("".join(takewhile(lambda line: line != "}\n", process.stdout)) + "}")
    assert said["runs"] == 3
    port = int(re.fullmatch(r"http://127\.0\.0\.1:(\d+)", said["address"])[1])
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", "/")
    assert b"september" in connection.getresponse().read()
    connection.request("GET", "/run/july")
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    assert process.wait(120) == 0
    assert process.stderr is not None
    assert process.stderr.read().splitlines() == ["stopped"]


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("none", "no such folder"),
        ("empty", "no run in it"),
        ("runs/july", "is a run itself; name the folder that holds it"),
    ],
)
def test_a_folder_without_runs_is_refused(tmp_path, runs, medjudge, name, problem) -> None:
    (tmp_path / "empty").mkdir()
    refused(medjudge("serve", tmp_path / name, "--port", "0"), name, problem)


def test_whoever_can_read_the_runs_is_named(runs, capsys) -> None:
    behind = open_run_pages(runs, network=Network(public_url="https://reports.example/"))
    behind.listener.socket.close()
    assert capsys.readouterr().err.splitlines() == [
        f"WARNING: no login. Whoever reaches https://reports.example can read every run in {runs}."
    ]
