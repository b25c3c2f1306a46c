"""Real tiny models, real files: what every test stands on."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

# No test may reach a model hub, whatever the machine could reach.
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRANSFORMERS_VERBOSITY"] = "error"
os.environ["TOKENIZERS_PARALLELISM"] = "false"
if "PYTEST_XDIST_WORKER" in os.environ:
    # Two workers with two threads each would spin for the same two cores. Set before torch is imported.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.pop("OPENAI_API_KEY", None)
os.environ.pop("MEDJUDGE_JUDGE", None)

from chat_server import Act, ChatServer

from medjudge.benchmark.sample import sample_folder
from medjudge.records import Answer, PhysicianScore, Question


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files with slow tests come first: begun last, one of them would keep a single worker busy at the end."""
    slow_files = {item.path for item in items if item.get_closest_marker("slow") is not None}
    items.sort(key=lambda item: item.path not in slow_files)


@pytest.fixture(scope="session")
def tiny_lm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Qwen3 of two layers with random weights."""
    from tiny_models import build_tiny_lm

    return build_tiny_lm(tmp_path_factory.mktemp("models") / "tiny-lm")


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT of two layers with random weights and a window of 128 tokens."""
    from tiny_models import build_tiny_encoder

    return build_tiny_encoder(tmp_path_factory.mktemp("models") / "tiny-encoder")


@pytest.fixture(scope="session")
def tiny_similarity(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A similarity judge on a BERT of two layers, that was fitted on nothing of the sample."""
    from tiny_judges import build_tiny_similarity

    return build_tiny_similarity(tmp_path_factory.mktemp("tiny") / "similarity")


@pytest.fixture
def judge_folder(tmp_path: Path, tiny_similarity: Path) -> Path:
    """A judge folder of a test alone, `judges/mine`: a copy of `tiny_similarity`."""
    folder = tmp_path / "judges" / "mine"
    shutil.copytree(tiny_similarity, folder)
    return folder


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder with the real data sets."""
    folder = os.environ.get("MEDJUDGE_REAL_DATA")
    if not folder:
        pytest.skip("MEDJUDGE_REAL_DATA names no folder with the real data sets")
    return Path(folder)


@pytest.fixture
def sample_run(tmp_path: Path) -> Path:
    """A run folder with the bundled sample: questions, answers and constructed scores."""
    folder = tmp_path / "sample"
    shutil.copytree(sample_folder(), folder)
    return folder


@pytest.fixture
def medjudge(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Runs the command in an empty folder, as a user does, but in this process: torch is loaded only once."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        from medjudge.cli.main import main

        command = ["medjudge", *map(str, arguments)]
        capsys.readouterr()
        with monkeypatch.context() as patch:
            patch.chdir(tmp_path)
            patch.setattr("medjudge.offline._refusing", False)  # what the command sets ends with the command
            patch.setattr(sys, "argv", command)
            for name, value in environment.items():
                patch.setenv(name, value)
            code = 0
            try:
                main()
            except SystemExit as end:
                code = end.code if isinstance(end.code, int) else 0
        output = capsys.readouterr()
        return subprocess.CompletedProcess(command, code, output.out, output.err)

    return run


@pytest.fixture
def chat_server() -> Iterator[Callable[[Callable[[dict], Act]], ChatServer]]:
    """Starts chat servers on loopback, each with what it does to a request."""
    started: list[ChatServer] = []

    def start(act: Callable[[dict], Act]) -> ChatServer:
        started.append(ChatServer(act))
        return started[-1]

    yield start
    for server in started:
        server.close()


@pytest.fixture
def question() -> Callable[..., Question]:
    """Builds a question; every field can be given."""

    def build(**fields: object) -> Question:
        base = {"id": "q1", "category": "MK", "group": fields.get("id", "q1"), "language": "en"}
        return Question.model_validate({**base, "prompt": "How much paracetamol a day?", **fields})

    return build


@pytest.fixture
def answer() -> Callable[..., Answer]:
    """Builds an answer; every field can be given."""

    base = {"question_id": "q1", "model": "m", "text": "At most 4 g."}
    return lambda **fields: Answer.model_validate({**base, **fields})


@pytest.fixture
def physician_score() -> Callable[..., PhysicianScore]:
    """Builds a physician's score; every field can be given."""

    base = {"question_id": "q1", "model": "m", "rater": "dr"}
    return lambda **fields: PhysicianScore.model_validate(
        {**base, **({} if "dimensions" in fields else {"score": 4}), **fields}
    )


@pytest.fixture
def jsonl(tmp_path: Path) -> Callable[..., Path]:
    """Writes a JSON-lines file; a string is written as it is."""

    def write(name: str, *lines: object) -> Path:
        path = tmp_path / name
        text = "".join(
            (line if isinstance(line, str) else json.dumps(line, ensure_ascii=False)) + "\n" for line in lines
        )
        path.write_text(text, encoding="utf-8")
        return path

    return write


@pytest.fixture(scope="module")  # not longer: while it is open, nothing else in this process may start an event loop
def browser() -> Iterator[Any]:
    """Headless Chromium of the system; without one the tests are skipped, but never in CI."""
    from playwright.sync_api import sync_playwright

    browsers = [path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))]
    if not browsers and not os.environ.get("CI"):
        pytest.skip("no Chromium here (Debian: apt-get install chromium)")
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=(browsers or ["chromium"])[0], args=["--no-sandbox"])
        yield chromium
        chromium.close()
