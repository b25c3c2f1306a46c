"""The stages of the built-in judge's training: a base without experts' scores, and readers of the folds that see them."""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch
from built_in_lessons import Material

from medjudge.judge.reader import READER_FILE, Reader
from medjudge.train.reader import Lesson, Schedule, train_reader

BASE = Schedule(steps=700, rate=1e-3)
BASE_SHARES = {"claims": 0.45, "graded": 0.25, "matching": 0.12, "disturbed": 0.18}
SCORED = Schedule(steps=220, rate=5e-4)
SCORED_SHARES = {"scored": 0.5, "healthver": 0.2, "claims": 0.08, "graded": 0.08, "disturbed": 0.14}


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
        reader.forget_levels()  # graded answers teach another scale than the experts'
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


def base(work: Path, material: Material, name: str = "base", without: str | None = None) -> Reader:
    """The base: no expert's score, no HealthVer."""
    shares = {source: share for source, share in BASE_SHARES.items() if source != without}
    lessons = {source: material.lessons(source) for source in shares}
    return trained(work / "readers" / name, material.words, lessons, shares, BASE, 0)


def fold_reader(work: Path, material: Material, fold: int, seed: int, start: str = "base") -> Reader:
    """A reader that saw the experts' scores and the claims of the other folds."""
    lessons = {source: material.lessons(source, without_fold=fold) for source in SCORED_SHARES}
    name = f"{start}-fold-{fold}-seed-{seed}"
    return trained(
        work / "readers" / name, material.words, lessons, SCORED_SHARES, SCORED, seed, work / "readers" / start
    )
