"""A judge served by `transformers serve` and read back through `--judge systemone:URL`."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from chat_server import Act, failure
from tiny_models import build_generative_judge

from medjudge.chat_api.client import Server
from medjudge.judge.decision import write_decision_files
from medjudge.judge.systemone import SystemOneJudge
from medjudge.models.loading import load_tokenizer
from medjudge.records import ErrorKind
from medjudge.store import Run


@pytest.fixture(scope="module")
def judge_folder(tiny_lm: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = build_generative_judge(tmp_path_factory.mktemp("judges") / "mine", tiny_lm)
    write_decision_files(load_tokenizer(str(folder)), 1.0, folder)
    return folder


@pytest.fixture
def served(medjudge, judge_folder: Path, tmp_path: Path) -> Iterator[str]:
    """The address of the real server with the exported judge."""
    done = medjudge("export", "served", "--judge", judge_folder, "--out", "served")
    assert done.returncode == 0, done.stderr
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).parent / "transformers"), "serve", str(tmp_path / "served")]
    options = ["--device", "cpu", "--dtype", "float32", "--host", "127.0.0.1", "--port", str(port)]
    with (tmp_path / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [*command, *options], stdout=log, stderr=log, env={**os.environ, "HF_HUB_OFFLINE": "1"}
        )
    try:
        url = f"http://127.0.0.1:{port}"
        for _ in range(240):
            try:
                urllib.request.urlopen(f"{url}/health", timeout=2).read()
                break
            except OSError:
                assert server.poll() is None, (tmp_path / "server.log").read_text()[-2000:]
                time.sleep(0.5)
        yield url
    finally:
        server.terminate()
        server.wait(30)


@pytest.mark.slow
def test_the_served_judge_gives_the_probabilities_of_the_judge(medjudge, served, judge_folder, tmp_path) -> None:
    command = ("eval", "--limit", 2, "--run", "run", "--offline", "--concurrency", 2)
    there = medjudge(*command, "--judge", f"systemone:{served}")
    assert there.returncode == 0, there.stderr
    here = medjudge(*command, "--judge", judge_folder)
    assert here.returncode == 0, here.stderr
    run = Run(tmp_path / "run")
    name = f"systemone-127.0.0.1-{served.rsplit(':', 1)[1]}"
    ours = {one.answer_key: one for one in run.judgments("mine")}
    assert len(run.judgments(name)) == len(ours) == 10
    for one in run.judgments(name):
        assert one.probabilities == pytest.approx(ours[one.answer_key].probabilities, abs=5e-3)
    assert "served at http://127.0.0.1" in there.stderr


def test_what_a_server_may_reply_instead_is_unscored_with_its_reason(chat_server, assignment) -> None:
    def judged(act: Act):
        server = chat_server(lambda body: act)
        url = server.url.removesuffix("/v1")
        (judgment,) = SystemOneJudge(url, Server(first_wait=0.01, concurrency=1)).judge([assignment()])
        return judgment

    shares = {str(level): share for level, share in enumerate((0.1, 0.1, 0.1, 0.2, 0.5))}
    good = judged(Act(json.dumps({"answers": {"score": {"type": "score", "probabilities": shares}}}).encode()))
    assert good.probabilities == [0.1, 0.1, 0.1, 0.2, 0.5]
    assert good.score == 5
    assert judged(failure(422, "no such question")).error_kind is ErrorKind.REFUSED
    assert judged(failure(503, "busy")).error_kind is ErrorKind.REQUEST_FAILED
    assert judged(Act(b"<html>")).error_kind is ErrorKind.UNREADABLE_REPLY
    high = json.dumps({"answers": {"score": {"probabilities": {**shares, "4": 0.9}}}})
    assert judged(Act(high.encode())).error_kind is ErrorKind.UNREADABLE_REPLY


def test_a_wrong_address_or_judge_is_refused(medjudge, tiny_similarity: Path, tmp_path: Path) -> None:
    no_address = medjudge("eval", "--judge", "systemone:here", "--run", "run")
    assert no_address.returncode == 2
    assert "no address; write, for example" in no_address.stderr
    far = medjudge("eval", "--judge", "systemone:http://example.org", "--run", "run", "--offline")
    assert far.returncode == 2
    assert "needs the network, and --offline forbids it" in far.stderr
    assert not (tmp_path / "run").exists()
    other = medjudge("export", "served", "--judge", tiny_similarity, "--out", "served")
    assert other.returncode == 2
    assert "score-first generative judges" in other.stderr
