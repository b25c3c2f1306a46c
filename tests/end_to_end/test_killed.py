"""Killed at any moment and started again: nothing is missing, nothing is made twice, the scores are the same."""

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import time
import zlib
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest
from chat_server import Act, completion

KILLS = 20
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "medjudge.answer.transformers_engine",
        "medjudge.workflows.defer",
        "medjudge.cli.evaluate",
        "medjudge.workflows.judge",
        "medjudge.judge.similarity",
        "openai.resources.chat.completions",
        "transformers.models.bert.modeling_bert",
        "transformers.models.qwen3.modeling_qwen3",
    ]
)
"""Forks every start from one process that has imported all and computed nothing: a start costs no imports."""


def _command(folder: Path, arguments: Sequence[str], most_bytes: int | None, said: Connection) -> None:
    os.chdir(folder)
    os.dup2(said.fileno(), 1)
    os.dup2(said.fileno(), 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", buffering=1), os.fdopen(2, "w", buffering=1)
    if most_bytes is not None:
        # The kernel writes up to this byte of a file, and kills at the next.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (most_bytes, most_bytes))
    os.environ["OPENAI_API_KEY"] = "of no value"
    sys.argv = ["medjudge", *arguments]
    import torch

    from medjudge.answer import transformers_engine
    from medjudge.cli.main import main

    # In bfloat16 a batch's other rows round a token's chances, and what a kill left to do makes other batches.
    transformers_engine.fast_dtype = lambda _: torch.float32
    torch.set_num_threads(1)
    main()


def _killed(folder: Path, arguments: Sequence[str], most_bytes: int | None, seconds: float | None) -> bool:
    """Runs the command; whether it was killed, at a byte or after some seconds, before its end."""
    heard, said = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_command, args=(folder, arguments, most_bytes, said))
    process.start()
    said.close()
    process.join(seconds)
    if process.is_alive():
        os.kill(process.pid, signal.SIGKILL)
    process.join()
    told = os.read(heard.fileno(), 65_536).decode()
    heard.close()
    assert process.exitcode in (0, -signal.SIGKILL, -signal.SIGXFSZ), told
    return process.exitcode != 0


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
    stage: str, tiny_lm: Path, tmp_path: Path, chat_server
) -> None:
    chance = random.Random(stage)
    server = chat_server(_verdict)
    judge = ["eval", "--judge", "similarity", "--limit", "8", "--offline"]
    if stage == "answer":
        with_model = ["--model", str(tiny_lm), "--samples", "9", "--max-new-tokens", "6"]
        command, last, grows = ["answer", "--limit", "8", *with_model], [*judge, *with_model], "answers.jsonl"
    elif stage == "judge":
        command, last, grows = judge, judge, "judgments/similarity.jsonl"
    else:
        judge = ["eval", "--judge", "openai:gpt", "--base-url", server.url, "--concurrency", "4", "--limit", "8"]
        command, last, grows = judge, judge, "judgments/gpt.jsonl"

    def ended(place: Path) -> tuple[list[bytes], bytes]:
        assert not _killed(place, last, None, None)
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
            unfinished = _killed(place, command, most, took * chance.uniform(0.05, 0.7) if kind == "any time" else None)
            lines = _lines(run / grows)
            assert lines[: len(before)] == before  # what was written stays as it is
            within += unfinished and 0 < len(lines) < len(wanted)
            kills += unfinished
            before = lines
        lines, found = ended(place)
        assert lines[: len(before)] == before
        assert sorted((_known(line) for line in lines), key=json.dumps) == wanted
        assert found == scores
    assert within >= KILLS // 3
    # Only requests in flight at a kill are sent again.
    assert len(server.asked) <= (places + 1) * len(wanted) + 4 * kills
