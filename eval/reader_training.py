"""The two stages of the reader's training."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from reader_lessons import Material

from medjudge.judge.reader import READER_FILE, Reader
from medjudge.train.reader import Lesson, Schedule, train_reader

BASE = Schedule(steps=700, rate=1e-3)
BASE_SHARES = {"claims": 0.45, "graded": 0.25, "matching": 0.12, "disturbed": 0.18}
SETTLED = Schedule(steps=280, rate=7e-4)
SETTLED_SHARES = {"claims": 0.25, "healthver": 0.25, "disturbed": 0.25, "graded": 0.15, "matching": 0.10}


def trained(
    folder: Path,
    words: torch.Tensor,
    lessons: Mapping[str, Sequence[Lesson]],
    shares: Mapping[str, float],
    schedule: Schedule,
    seed: int,
    start: Path | None = None,
) -> Reader:
    """Trains a reader into a folder; one that is there already is only read.

    Args:
        folder: Gets reader.safetensors and training.json.
        start: The folder of the reader to start from; a new one if omitted.
    """
    if (folder / READER_FILE).exists():
        return Reader.load(folder, words)
    torch.manual_seed(seed)
    reader = Reader(words) if start is None else Reader.load(start, words)
    if start is not None:
        reader.forget_levels()
    losses, began = [], time.monotonic()
    for step, loss in enumerate(train_reader(reader, lessons, shares, schedule, seed), 1):
        losses.append(round(loss, 4))
        if step % 20 == 0:
            mean = sum(losses[-20:]) / 20
            seconds = time.monotonic() - began
            print(
                f"{folder.name}: step {step} of {schedule.steps}, loss {mean:.3f}, {seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    folder.mkdir(parents=True, exist_ok=True)
    record = {"schedule": schedule._asdict(), "shares": dict(shares), "seed": seed, "losses": losses}
    (folder / "training.json").write_text(json.dumps({**record, "seconds": round(time.monotonic() - began)}))
    reader.save(folder)
    return reader


def base(work: Path, material: Material) -> Reader:
    """The first stage: matching, claims made by rule, graded and disturbed answers."""
    lessons = {source: material.lessons(source) for source in BASE_SHARES}
    return trained(work / "readers" / "base", material.words, lessons, BASE_SHARES, BASE, 0)


def settled(work: Path, material: Material) -> Reader:
    """The second stage: HealthVer's claims too, and the way from what was read to a level anew."""
    lessons = {source: material.lessons(source) for source in SETTLED_SHARES}
    start, out = (work / "readers" / name for name in ("base", "settled"))
    return trained(out, material.words, lessons, SETTLED_SHARES, SETTLED, 0, start)
