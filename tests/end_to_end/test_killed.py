"""Killed at any moment and started again: nothing is missing, nothing is made twice, the scores are the same."""

import json
import multiprocessing
import os
import random
import resource
import signal
import sys
from collections.abc import Sequence
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

KILLS = 22
FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "medjudge.answer.transformers_engine",
        "medjudge.cli.deferral",
        "medjudge.cli.evaluate",
        "medjudge.cli.pipeline",
        "medjudge.judge.similarity",
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
    sys.argv = ["medjudge", *arguments]
    import torch

    from medjudge.answer import transformers_engine
    from medjudge.cli.main import main

    # In bfloat16 a batch's other rows round a token's chances, and what a kill left to do makes other batches.
    transformers_engine.fast_dtype = lambda _: torch.float32
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


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["answer", "judge"])
def test_killed_at_random_moments_a_run_ends_as_one_that_was_not(stage: str, tiny_lm: Path, tmp_path: Path) -> None:
    chance = random.Random(stage)
    judge = ["eval", "--judge", "similarity", "--limit", "40", "--offline"]
    if stage == "answer":
        command = ["answer", "--model", str(tiny_lm), "--limit", "40", "--samples", "3", "--max-new-tokens", "6"]
        grows, last = "answers.jsonl", [*judge, "--model", str(tiny_lm), "--samples", "3", "--max-new-tokens", "6"]
    else:
        command = last = judge
        grows = "judgments/similarity.jsonl"
    for name in ("calm", "killed"):
        (tmp_path / name).mkdir()
    assert not _killed(tmp_path / "calm", command, None, None)
    calm, run = (tmp_path / name / "runs" / "sample" for name in ("calm", "killed"))
    whole = (calm / grows).stat().st_size

    kills, growing, before = 0, 0, []
    while kills < KILLS:
        there = (run / grows).stat().st_size if (run / grows).exists() else 0
        kind = chance.choice(["inside a line", "inside a line", "inside another file", "any time"])
        # Below the manifest's size the kill would come before the first line.
        floor = max(there, (run / "run.json").stat().st_size + 200 if (run / "run.json").exists() else 0)
        most = {"inside a line": floor + chance.randint(1, whole // 25), "inside another file": chance.randint(8, 4000)}
        seconds = chance.uniform(0.05, 1.5) if kind == "any time" else None
        kills += _killed(tmp_path / "killed", command, most.get(kind), seconds)
        lines = _lines(run / grows)
        assert lines[: len(before)] == before  # what was written stays as it is
        growing += len(lines) > len(before)
        before = lines
    assert growing >= 5
    for place in ("killed", "calm"):
        assert not _killed(tmp_path / place, last, None, None)
    lines = _lines(run / grows)
    assert lines[: len(before)] == before
    assert len({tuple(json.loads(line)[key] for key in ("question_id", "model", "sample")) for line in lines}) == len(
        lines
    )
    assert sorted(lines) == sorted(_lines(calm / grows))
    assert (run / "scores.json").read_bytes() == (calm / "scores.json").read_bytes()
