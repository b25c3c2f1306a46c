"""A real chat server on loopback that does what a test tells it to, faults included."""

import json
import socket
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Act(NamedTuple):
    """The reaction of the server to one request: wait, then send the first `cut` bytes (None for all) and hang up."""

    data: bytes
    status: int = 200
    headers: dict[str, str] = {}  # noqa: RUF012
    wait: float = 0.0
    cut: int | None = None


def completion(text: Any, finish_reason: Any = "stop", refusal: str | None = None, **usage: int) -> Act:
    """A chat completion, of a text or what servers send in its place.

    `usage` as `prompt_tokens=…, completion_tokens=…`.
    """
    message = {"role": "assistant", "content": text, "refusal": refusal}
    body: dict[str, Any] = {"id": "x", "object": "chat.completion", "created": 0, "model": "m"}
    body["choices"] = [{"index": 0, "finish_reason": finish_reason, "message": message}]
    if usage:
        body["usage"] = {**usage, "total_tokens": sum(usage.values())}
    return Act(json.dumps(body).encode())


def failure(status: int, message: str, headers: dict[str, str] | None = None, **fields: str) -> Act:
    """An error as OpenAI writes them."""
    return Act(json.dumps({"error": {"message": message, **fields}}).encode(), status, headers or {})


class Handler(BaseHTTPRequestHandler):
    """Keeps connections open and logs nothing."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *_: object) -> None:
        pass


class LoopbackServer(ThreadingHTTPServer):
    """Serves on loopback from the moment it is made."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, handler: type[Handler]) -> None:
        super().__init__(("127.0.0.1", 0), handler)
        threading.Thread(target=self.serve_forever, args=(0.05,), daemon=True).start()
        self.url = f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, *_: object) -> None:
        pass  # connections that the client closed

    def close(self) -> None:
        self.shutdown()
        self.server_close()


class ChatServer(LoopbackServer):
    """Serves `act(request body)`; keeps what was asked, and how many requests were under way at once."""

    def __init__(self, act: Callable[[dict[str, Any]], Act]) -> None:
        self.act = act
        self.asked: list[dict[str, Any]] = []
        self.most_at_once = 0
        self._at_once = 0
        self._lock = threading.Lock()
        chat = self

        class Chat(Handler):
            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                with chat._lock:
                    chat.asked.append(body)
                    chat._at_once += 1
                    chat.most_at_once = max(chat.most_at_once, chat._at_once)
                    act = chat.act(body)
                time.sleep(act.wait)
                with chat._lock:
                    chat._at_once -= 1
                try:
                    self._send(act)
                except OSError:
                    self.close_connection = True  # the client did not wait

            def _send(self, act: Act) -> None:
                headers = {"Content-Type": "application/json", "Content-Length": str(len(act.data))}
                headers |= {"Date": self.date_time_string(), **act.headers}
                self.send_response_only(act.status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(act.data[: act.cut])
                if act.cut is not None:
                    self.wfile.flush()
                    self.close_connection = True
                    self.connection.shutdown(socket.SHUT_RDWR)

        super().__init__(Chat)
