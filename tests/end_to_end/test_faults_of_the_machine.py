"""A full disk, a folder that cannot be written, two writers, signals: nothing is lost."""

import asyncio
import json
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from chat_server import Act, completion
from tiny_judges import build_ordinal_judge

from eval.robustness.kills import FORKS, STATIONS, run_command
from medjudge.cli.main import _end, _TerminatedError
from medjudge.errors import InputError, UnfinishedError
from medjudge.judge.open import JudgeOptions, resolve_judge
from medjudge.judge.similarity import SimilarityJudge
from medjudge.store import Run
from medjudge.workflows.judge import judge_answers

ON_CPU = JudgeOptions(device="cpu")
EVAL = ("eval", "--run", "run", "--judge", "similarity", "--limit", 2, "--device", "cpu")
"""Judges ten answers."""


def wait_until(holds: Callable[[], bool]) -> None:
    for _ in range(6000):
        if holds():
            break
        time.sleep(0.01)


@contextmanager
def small_disk(folder: Path, kibibytes: int) -> Iterator[None]:
    """A file system in memory of this size, mounted on the folder."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={kibibytes}k", "tmpfs", folder], check=False, capture_output=True
    )
    if mounted.returncode:
        pytest.skip("this user or kernel may not mount a tmpfs")
    try:
        yield
    finally:
        subprocess.run(["umount", folder], check=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", STATIONS)
def test_a_full_disk_is_one_line_and_the_same_command_ends_the_work(name: str, start: Path, tmp_path: Path) -> None:
    station = STATIONS[name]
    calm = tmp_path / "calm"
    shutil.copytree(start, calm)
    assert run_command(calm, station.command)[0] in (0, 1)
    disk = tmp_path / "disk"
    size = sum(file.stat().st_size + 4096 for file in calm.rglob("*")) // 1024
    with small_disk(disk, 2 * size):
        place = disk / "place"
        shutil.copytree(start, place)
        before = {file: file.read_bytes() for file in place.rglob("*.jsonl")}
        room = shutil.disk_usage(disk).free
        for free in (0, 8192, 65_536):
            filler = disk / "filler"
            filler.write_bytes(bytes(max(0, room - free)))
            status, text = run_command(place, station.command)
            filler.unlink()
            if status in (0, 1):
                break
            assert status == 2, text
            error = [line for line in text.splitlines() if line.startswith("error: ")]
            assert len(error) == 1, text
            assert "no space left on device; free some space, then run the same command again" in error[0]
            assert "Traceback" not in text
            assert not list(place.rglob("*.part"))
            for file, content in before.items():
                assert file.read_bytes() == content, file
        if status == 2:
            assert run_command(place, station.command)[0] in (0, 1)
        assert station.outcome(place) == station.outcome(calm)


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, medjudge: Callable) -> None:
    run = tmp_path / "run"
    with small_disk(run, 4096):
        assert medjudge(*EVAL).returncode in (0, 1)
        before = {file: file.read_bytes() for file in run.rglob("*") if file.is_file()}
        subprocess.run(["mount", "-o", "remount,ro", run], check=True)
        validate = ("validate", run, "--judge", "similarity", "--against", "similarity")
        for command in (EVAL, validate, ("report", run)):
            failed = medjudge(*command)
            assert failed.returncode == 2
            assert failed.stderr.count("error: ") == 1
            assert "Traceback" not in failed.stderr
        assert "read-only file system; check the path" in failed.stderr
        assert {file: file.read_bytes() for file in run.rglob("*") if file.is_file()} == before


@pytest.mark.parametrize(("sent", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_ends_a_run_in_one_line_and_the_same_command_goes_on(
    sent: signal.Signals, status: int, start: Path, tmp_path: Path, chat_server: Callable
) -> None:
    pause = [0.5]  # until the signal is sent: on a busy machine a quick run would end before it

    def slowly(body: dict) -> Act:
        reply = json.dumps({"rationale": "It holds.", "score": 4})
        return completion(reply, prompt_tokens=9, completion_tokens=4)._replace(wait=pause[0])

    server = chat_server(slowly)
    command = ["eval", "--judge", "openai:gpt", "--base-url", server.url, "--limit", "8", "--concurrency", "2"]
    file = tmp_path / "runs" / "sample" / "judgments" / "gpt.jsonl"

    def once_it_judges(process: FORKS.Process) -> None:
        wait_until(lambda: file.exists() and file.read_text().count("\n") >= 3)
        os.kill(process.pid, sent)
        pause[0] = 0.0

    ended, text = run_command(tmp_path, command, meanwhile=once_it_judges)
    assert ended == status, text
    assert "stopped; the same command again goes on from here" in text
    assert "Traceback" not in text
    assert not (file.parents[1] / ".pid").exists()
    kept = file.read_text().splitlines()
    assert len(kept) >= 3
    assert f"{len(kept)} of 40 judgments are kept in runs/sample" in text
    assert run_command(tmp_path, command)[0] in (0, 1)
    lines = file.read_text().splitlines()
    assert lines[: len(kept)] == kept
    assert len(lines) == len({(line["question_id"], line["model"]) for line in map(json.loads, lines)})
    assert len(server.asked) <= len(lines) + 2  # only what was in flight is sent again


@pytest.mark.slow
def test_memory_that_runs_out_keeps_what_was_judged(
    medjudge: Callable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    judge = SimilarityJudge.judge
    with monkeypatch.context() as patch:

        def runs_out(self: SimilarityJudge, work: list) -> Iterator:
            yield from judge(self, work[:3])
            raise MemoryError

        patch.setattr(SimilarityJudge, "judge", runs_out)
        stopped = medjudge(*EVAL)
    assert stopped.returncode == 1
    assert stopped.stderr.splitlines()[-1].startswith("stopped: out of memory; everything that was written is kept.")
    kept = Run(tmp_path / "run").judgments_file("similarity").read_text().splitlines()
    assert len(kept) == 3
    assert medjudge(*EVAL).returncode in (0, 1)
    lines = Run(tmp_path / "run").judgments_file("similarity").read_text().splitlines()
    assert lines[:3] == kept
    assert len(lines) == 10


def test_a_judge_replaced_during_a_run_does_not_take_over_its_judgments(
    sample_run: Path, tiny_encoder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = build_ordinal_judge(tmp_path / "judge", tiny_encoder)
    run, ref = Run(sample_run), resolve_judge(str(folder))
    only = {answer.key for answer in run.answers()[:6]}
    append = Run.append

    def replaced_after_the_third(self: Run, path: Path, line: str) -> None:
        append(self, path, line)
        if path.read_text().count("\n") == 3:
            config = folder / "adapter_config.json"
            config.write_text(json.dumps(json.loads(config.read_text()) | {"lora_alpha": 64}))

    monkeypatch.setattr(Run, "append", replaced_after_the_third)
    with run.lock(), pytest.raises(UnfinishedError, match="judge judge: its files changed while it judged"):
        judge_answers(run, ref, ON_CPU, only)
    assert len(run.judgments("judge")) == 6
    with run.lock(), pytest.raises(InputError, match="holds judgments of another judge named judge"):
        judge_answers(run, resolve_judge(str(folder)), ON_CPU, only)


def test_a_signal_while_asyncio_writes_to_a_server_ends_the_process() -> None:
    class Signalled(socket.socket):
        """A socket in whose `send` the signal comes."""

        def send(self, *_: object) -> int:
            os.kill(os.getpid(), signal.SIGTERM)
            return 0

    async def ask() -> None:
        here, there = socket.socketpair()
        with there:
            here.setblocking(False)
            _, writer = await asyncio.open_connection(sock=Signalled(fileno=here.detach()))
            writer.write(b"GET / HTTP/1.1\r\n\r\n")
            await asyncio.sleep(0)

    before = signal.signal(signal.SIGTERM, _end)
    try:
        with pytest.raises(_TerminatedError):
            asyncio.run(ask())
    finally:
        signal.signal(signal.SIGTERM, before)
