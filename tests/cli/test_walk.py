"""How far an answer goes from `medjudge eval` to its judgment."""

import sys

import pytest
from calls import worked
from chat_server import completion

from medjudge.records import Judgment

MOST_STEPS = 12


@pytest.mark.slow
@pytest.mark.parametrize("judge", ["similarity", "built-in", "openai:m"])
def test_the_walk_from_the_command_to_a_judgment_is_short(medjudge, chat_server, monkeypatch, judge) -> None:
    """In the chain of calls that makes a judgment, a function calls one of another module at most 12 times.

    That is how often a reader who follows an answer has to open another file.
    """
    walks: list[list[str]] = []
    made = Judgment.__init__

    def recorded(self: Judgment, **fields: object) -> None:
        frame, modules = sys._getframe(1), []
        while frame is not None:
            name = frame.f_globals.get("__name__", "")
            if name.startswith("medjudge.") and modules[-1:] != [name]:
                modules.append(name)
            frame = frame.f_back
        walks.append(modules[::-1])
        made(self, **fields)

    monkeypatch.setattr(Judgment, "__init__", recorded)
    server = chat_server(lambda body: completion('{"rationale": "r", "score": 4}'))
    at = ("--base-url", server.url) if judge.startswith("openai:") else ()
    worked(medjudge("eval", "--judge", judge, "--limit", "1", *at, OPENAI_API_KEY="of no value"))
    (walk,) = {tuple(walk[walk.index("medjudge.cli.evaluate") :]) for walk in walks if "medjudge.cli.evaluate" in walk}
    assert "medjudge.workflows.judge" in walk
    assert len(walk) <= MOST_STEPS, walk
