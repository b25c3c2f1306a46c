"""Servers and runs for the tests of refine."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import NamedTuple

import pytest
from simulated import judge_by_the_checklist, write_run


class Server(NamedTuple):
    """Where it listens, what it was asked, and the function from a request's body to (status, text)."""

    url: str
    asked: list[dict]
    replies: dict[str, Callable[[dict], tuple[int, str]]]


@contextmanager
def _serving() -> Iterator[Server]:
    """An OpenAI-compatible server that answers by the model's name."""
    asked: list[dict] = []
    replies: dict[str, Callable[[dict], tuple[int, str]]] = {
        "judge": judge_by_the_checklist,
        "lenient": judge_by_the_checklist,
    }
    lock = threading.Lock()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            with lock:
                asked.append(body)
                status, content = replies[body["model"]](body)
            message = {"role": "assistant", "content": content}
            choices = [{"index": 0, "finish_reason": "stop", "message": message}]
            answer: dict = {"id": "x", "object": "chat.completion", "created": 0, "model": "m", "choices": choices}
            data = json.dumps(answer if status == 200 else {"error": {"message": content}}).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "of no value")
        yield Server(f"http://127.0.0.1:{server.server_port}/v1", asked, replies)
    server.shutdown()


@pytest.fixture
def server() -> Iterator[Server]:
    with _serving() as running:
        yield running


@pytest.fixture(scope="module")
def module_server() -> Iterator[Server]:
    with _serving() as running:
        yield running


@pytest.fixture
def lacking_run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")
