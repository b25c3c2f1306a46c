"""Commands that are killed at random moments: they lose nothing and end as if they had not been.

    python eval/robustness/kills.py WORK [KILLS]

WORK is an empty folder; KILLS is 200 unless given, shared by six stations: answer, judge, import, distill, validate and
report. Each is killed at a random time or at a random byte of a file and started again until it ends; then its files
are compared with those of a run that was not killed. The counts go to eval/results/robustness.json. The exit status is
1 if an outcome differs. Every start is a fork of one process that has imported all and computed nothing: a start costs
no imports.
"""

import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import sys
import time
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

from eval.lib.study import REPOSITORY, record_entry
from eval.lib.tiny_models import build_tiny_lm
from medjudge.benchmark.sample import sample_folder
from medjudge.records import Judgment
from medjudge.store import Run, write_records

sys.path.append(str(REPOSITORY / "tests"))
from forms import fill_in  # type: ignore[import-not-found]

FORKS = multiprocessing.get_context("forkserver")
FORKS.set_forkserver_preload(
    [
        "medjudge.answer.transformers_engine",
        "medjudge.cli.main",
        "medjudge.cli.output",
        "medjudge.judge.similarity",
        "medjudge.workflows.annotate",
        "medjudge.workflows.batch_jobs",
        "medjudge.workflows.distill",
        "medjudge.workflows.evaluate",
        "medjudge.workflows.validate",
        "matplotlib.backends.backend_agg",
        "openai.resources.chat.completions",
        "openpyxl",
        "transformers.models.bert.modeling_bert",
        "transformers.models.qwen3.modeling_qwen3",
    ]
)
KILLED = (-signal.SIGKILL, -signal.SIGXFSZ)
RATER, LEVEL = "dr-a", 4


class Station(NamedTuple):
    """A command that writes files, and what of its files must be the same whether it was killed or not."""

    command: tuple[str, ...]
    outcome: Callable[[Path], object]


def _command(folder: Path, arguments: Sequence[str], most_bytes: int | None, output: Connection) -> None:
    # As in a terminal: whoever is started in the background ignores Ctrl-C, and so do its children.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.chdir(folder)
    os.dup2(output.fileno(), 1)
    os.dup2(output.fileno(), 2)
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
    transformers_engine.fast_dtype = lambda _: torch.float32  # type: ignore[attr-defined,assignment]
    torch.set_num_threads(1)
    main()


def run_command(
    folder: Path,
    arguments: Sequence[str],
    most_bytes: int | None = None,
    seconds: float | None = None,
    meanwhile: Callable[[Any], None] = lambda process: None,
) -> tuple[int, str]:
    """Runs a command of medjudge in a folder.

    Args:
        most_bytes: It is killed at the first write beyond this byte of a file; None for no such kill.
        seconds: It is killed after so many; None to wait for its end.
        meanwhile: Called with the process once it was started.

    Returns:
        The exit status, negative for a signal, and what it printed.
    """
    printed, output = FORKS.Pipe(duplex=False)
    process = FORKS.Process(target=_command, args=(folder, arguments, most_bytes, output))
    process.start()
    output.close()
    meanwhile(process)
    process.join(seconds)
    if process.is_alive():
        os.kill(process.pid or 0, signal.SIGKILL)
    process.join()
    text = os.read(printed.fileno(), 65_536).decode()
    printed.close()
    return process.exitcode or 0, text


def killed(folder: Path, arguments: Sequence[str], most_bytes: int | None, seconds: float | None) -> bool:
    """As `run_command`, for a command that may only end by a kill, or with 0 or 1.

    Returns:
        Whether it was killed before its end.

    Raises:
        AssertionError: It ended by itself, and with another status.
    """
    status, text = run_command(folder, arguments, most_bytes, seconds)
    assert status in (0, 1, *KILLED), text
    return status in KILLED


def kill_until_it_ends(station: Station, start: Path, work: Path, kills: int, seed: int) -> int:
    """Kills a station's command at random until it was killed so often; it always ends with the calm run's outcome.

    Args:
        start: The folder that the command starts from; it is copied.
        work: Where the copies go.

    Returns:
        How many commands ended, each after its share of the kills.

    Raises:
        AssertionError: An outcome differs, or a command failed.
    """
    chance = random.Random(seed)
    calm = work / "calm"
    shutil.copytree(start, calm)
    began = time.monotonic()
    assert not killed(calm, station.command, None, None)
    took = time.monotonic() - began
    expected = station.outcome(calm)
    largest = max(file.stat().st_size for file in calm.rglob("*") if file.is_file())
    survived = ended = 0
    while survived < kills:
        place = work / str(ended)
        shutil.copytree(start, place)
        for attempt in range(kills - survived + 1):
            by_byte = chance.random() < 0.5
            # A file that grows past the same byte each time would never be written: the limit grows, too.
            most = chance.randint(8, max(16, largest * (attempt + 1) // 8)) if by_byte else None
            last = survived >= kills
            if not killed(place, station.command, None if last else most, None if last else chance.uniform(0, took)):
                break
            survived += 1
            if _finished(station, place, expected):  # killed after its last write; `distill` writes no set again
                break
        if not _finished(station, place, expected):
            assert not killed(place, station.command, None, None)
        assert station.outcome(place) == expected, (station.command, place)
        ended += 1
        shutil.rmtree(place)
    return ended


def _finished(station: Station, place: Path, expected: object) -> bool:
    try:
        return station.outcome(place) == expected
    except (AssertionError, ValueError):  # a temporary file, or half a line
        return False


def start_folder(folder: Path) -> Path:
    """A run with answers, scores, judgments of two judges and a form that a physician filled in."""
    run = Run(folder / "run")
    shutil.copytree(sample_folder(), run.path)
    for name, contrary in (("exact", False), ("contrary", True)):
        judgments = [
            Judgment(
                question_id=score.question_id,
                model=score.model,
                sample=score.sample,
                judge=name,
                score=6 - score.level if contrary else score.level,
            )
            for score in run.physician_scores()
        ]
        write_records(run.judgments_file(name), judgments)
    assert not killed(folder, ("annotate", "export", "run", "--rater", RATER, "--each", "40"), None, None)
    (form,) = run.path.glob("annotation/**/*.xlsx")
    fill_in(Path(shutil.copy(form, folder / "filled.xlsx")), run.path, lambda *_: LEVEL)
    return folder


def _records(file: Path) -> list[str]:
    """The records of a file in an order of their own, but for what other rows of a batch round in the last digit."""
    records = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    known = [{name: record[name] for name in record if name not in ("expected", "probabilities")} for record in records]
    return sorted(json.dumps(record, sort_keys=True) for record in known)


def _of_run(*patterns: str) -> Callable[[Path], object]:
    def outcome(folder: Path) -> object:
        assert not list(folder.rglob("*.part")), "a temporary file was left behind"
        return [_records(file) for pattern in patterns for file in sorted(folder.glob(pattern))]

    return outcome


def _whole_files(*patterns: str) -> Callable[[Path], object]:
    return lambda folder: [(file.name, file.read_bytes()) for each in patterns for file in sorted(folder.glob(each))]


STATIONS: dict[str, Station] = {
    "import": Station(("annotate", "import", "run", "filled.xlsx"), _of_run("run/physician_scores.jsonl")),
    "distill": Station(("distill", "run", "--out", "set"), _whole_files("set/*")),
    "validate": Station(
        ("validate", "run", "--judge", "contrary", "--resamples", "200"), _whole_files("run/agreement/contrary.json")
    ),
    "report": Station(("report", "run", "--judge", "contrary"), _whole_files("run/scores.json", "run/report.html")),
}
"""The stations that need no model; see `with_models` for the others."""


def with_models(model: Path) -> dict[str, Station]:
    """The stations that load a model.

    Args:
        model: A chat model that answers.
    """
    answering = ("--model", str(model), "--samples", "3", "--max-new-tokens", "6", "--device", "cpu", "--limit", "6")
    return {
        "answer": Station(("answer", *answering, "--run", "new"), _of_run("new/answers.jsonl")),
        "judge": Station(
            ("eval", "--judge", "similarity", "--run", "new", "--limit", "12", "--device", "cpu"),
            _of_run("new/judgments/similarity.jsonl"),
        ),
    }


SEED = 17


def main(work: Path, kills: int) -> None:
    """Kills every station and records the counts."""
    start = start_folder(work / "start")
    stations = {**with_models(build_tiny_lm(work / "tiny-lm")), **STATIONS}
    share = -(-kills // len(stations))
    counts: dict[str, dict[str, object]] = {}
    differing = False
    for number, (name, station) in enumerate(stations.items()):
        began = time.monotonic()
        try:
            ended = kill_until_it_ends(station, start, work / name, share, SEED + number)
        except AssertionError as problem:
            counts[name] = {"problem": str(problem)[:500]}
            differing = True
        else:
            counts[name] = {"kills": share, "runs": ended, "runs_that_differ": 0}
        counts[name]["seconds"] = round(time.monotonic() - began, 1)
        print(name, counts[name], file=sys.stderr, flush=True)
    result = {"command": f"python eval/robustness/kills.py WORK {kills}", "seed": SEED, "stations": counts}
    record_entry("robustness", "kills", result)
    sys.exit(differing)


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit("usage: python eval/robustness/kills.py WORK [KILLS]")
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) == 3 else 200)
