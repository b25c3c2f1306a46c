"""Killed at random moments and started again, a station ends with the same files (more: eval/robustness/kills.py)."""

import json
import zlib
from pathlib import Path

import pytest
from chat_server import Act, completion

from eval.robustness.kills import STATIONS, Station, kill_until_it_ends, with_models
from medjudge.store import Run

KILLS = 5
AT_ONCE = 4


def verdict(body: dict) -> Act:
    """A score that the prompt decides."""
    score = 1 + zlib.crc32(body["messages"][1]["content"].encode()) % 5
    text = json.dumps({"rationale": "It holds what the reference holds.", "score": score})
    return completion(text, prompt_tokens=900, completion_tokens=40)._replace(wait=0.005)


@pytest.mark.slow
@pytest.mark.parametrize("name", [*STATIONS, "answer", "judge"])
def test_killed_a_station_ends_as_one_that_was_not(
    name: str, start: Path, tiny_lm: Path, tiny_similarity: Path, tmp_path: Path
) -> None:
    station = {**STATIONS, **with_models(tiny_lm)}[name]
    if name == "judge":
        words = (str(tiny_similarity) if word == "similarity" else word for word in station.command)
        station = station._replace(command=tuple(words))
    assert kill_until_it_ends(station, start, tmp_path, KILLS, seed=17) >= 1


@pytest.mark.slow
def test_killed_an_api_judge_loses_nothing_and_sends_again_only_what_was_in_flight(
    start: Path, tmp_path: Path, chat_server
) -> None:
    server = chat_server(verdict)
    command = ("eval", "--judge", "openai:gpt", "--base-url", server.url, "--limit", "8", "--run", "new")

    def scores(place: Path) -> object:
        assert not list(place.rglob("*.part"))
        return sorted((*judgment.key, judgment.score) for judgment in Run(place / "new").judgments("gpt"))

    station = Station((*command, "--concurrency", str(AT_ONCE)), scores)
    ended = kill_until_it_ends(station, start, tmp_path, KILLS, seed=17)
    assert len(server.asked) <= (ended + 1) * 40 + AT_ONCE * KILLS
