"""Killed at any moment and started again: nothing is missing, nothing is made twice, the scores are the same."""

import json
import random
import shutil
import time
import zlib
from pathlib import Path

import pytest
from chat_server import Act, completion

from eval.robustness.kills import killed

KILLS = 12


def _lines(file: Path) -> list[bytes]:
    """The whole lines that a file holds."""
    return file.read_bytes().split(b"\n")[:-1] if file.exists() else []


def _verdict(body: dict) -> Act:
    score = 1 + zlib.crc32(body["messages"][1]["content"].encode()) % 5
    text = json.dumps({"rationale": "It holds what the reference holds. " * 4, "score": score})
    return completion(text, prompt_tokens=900, completion_tokens=40)._replace(wait=0.005)


def _known(line: bytes) -> dict[str, object]:
    """A record but for what other rows of a batch round in the last digit."""
    return {name: value for name, value in json.loads(line).items() if name not in ("expected", "probabilities")}


def _size(file: Path) -> int:
    return file.stat().st_size if file.exists() else 0


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["answer", "judge", "API judge"])
def test_killed_at_random_moments_a_run_ends_as_one_that_was_not(
    stage: str, tiny_lm: Path, tiny_similarity: Path, tmp_path: Path, chat_server
) -> None:
    chance = random.Random(stage)
    server = chat_server(_verdict)
    judge = ["eval", "--judge", str(tiny_similarity), "--limit", "8", "--offline"]
    if stage == "answer":
        with_model = ["--model", str(tiny_lm), "--samples", "9", "--max-new-tokens", "6"]
        command, last, grows = ["answer", "--limit", "8", *with_model], [*judge, *with_model], "answers.jsonl"
    elif stage == "judge":
        command, last, grows = judge, judge, "judgments/similarity.jsonl"
    else:
        judge = ["eval", "--judge", "openai:gpt", "--base-url", server.url, "--concurrency", "4", "--limit", "8"]
        command, last, grows = judge, judge, "judgments/gpt.jsonl"

    def ended(place: Path) -> tuple[list[bytes], bytes]:
        assert not killed(place, last, None, None)
        folder = place / "runs" / "sample"
        return _lines(folder / grows), (folder / "scores.json").read_bytes()

    calm = tmp_path / "calm"
    calm.mkdir()
    start = time.monotonic()
    lines, scores = ended(calm)
    took = time.monotonic() - start
    wanted = sorted((_known(line) for line in lines), key=json.dumps)
    whole = sum(map(len, lines)) + len(lines)
    # Below the size of the manifest, the kill would come before the first line.
    manifest = _size(calm / "runs" / "sample" / "run.json") + 200
    first = "questions.jsonl" if stage == "answer" else "answers.jsonl"  # is written whole before any line
    kills = within = places = 0
    while kills < KILLS:
        place, before, unfinished = tmp_path / str(places), list[bytes](), True
        places += 1
        run = place / "runs" / "sample"
        run.mkdir(parents=True)
        if places > 1:  # what is longer and comes first would hide the lines
            for name in ("questions.jsonl", "answers.jsonl")[: 1 if stage == "answer" else 2]:
                shutil.copy(calm / "runs" / "sample" / name, run)
        while unfinished and kills < KILLS:
            kind = chance.choice(["a line", "a line", "a line", "another file", "any time"])
            floor = max(_size(run / grows), manifest)
            in_a_line = floor + chance.randint(1, whole // 20)
            if not (run / first).exists():
                in_a_line = chance.randint(8, 2 * _size(calm / "runs" / "sample" / first))
            most = {"a line": in_a_line, "another file": chance.randint(8, 4000)}.get(kind)
            unfinished = killed(place, command, most, took * chance.uniform(0.05, 0.7) if kind == "any time" else None)
            lines = _lines(run / grows)
            assert lines[: len(before)] == before  # what was written stays as it is
            within += unfinished and 0 < len(lines) < len(wanted)
            kills += unfinished
            before = lines
        lines, scores_now = ended(place)
        assert lines[: len(before)] == before
        assert sorted((_known(line) for line in lines), key=json.dumps) == wanted
        assert scores_now == scores
    assert within >= KILLS // 3
    # Only requests in flight at a kill are sent again.
    assert len(server.asked) <= (places + 1) * len(wanted) + 4 * kills
