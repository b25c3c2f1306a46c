"""Servers and runs for the tests of refine."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from chat_server import Act, ChatServer, completion
from simulated import judge_by_the_checklist, write_run


class ModelServer(ChatServer):
    """A server that answers by the model's name: `replies` has functions from a request's body to a text or an act."""

    def __init__(self) -> None:
        self.replies: dict[str, Callable[[dict], str | Act]] = {"judge": judge_by_the_checklist}
        super().__init__(self._reply)

    def _reply(self, body: dict) -> Act:
        reply = self.replies[body["model"]](body)
        return completion(reply) if isinstance(reply, str) else reply


def _server() -> Iterator[ModelServer]:
    server = ModelServer()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OPENAI_API_KEY", "of no value")
        yield server
    server.close()


server = pytest.fixture(_server, name="server")
module_server = pytest.fixture(_server, scope="module", name="module_server")


@pytest.fixture
def lacking_run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "run")
