"""The stages of the reader's training."""

import json
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import torch
from reader_examples import Example
from reader_lessons import Material

from medjudge.judge.reader import READER_FILE, Reader
from medjudge.train.reader import Lesson, Schedule, train_alarm, train_reader

BASE = Schedule(steps=900, rate=1e-3)
BASE_SHARES = {"claims": 0.42, "graded": 0.22, "matching": 0.12, "disturbed": 0.24}
SETTLED = Schedule(steps=400, rate=5e-4)
SETTLED_SHARES = {"claims": 0.25, "healthver": 0.27, "disturbed": 0.24, "graded": 0.14, "matching": 0.10}

SHARPENED = Schedule(steps=500, rate=8e-4)
SHARPENED_SHARES = {"claims": 0.55, "healthver": 0.15, "disturbed": 0.15, "graded": 0.10, "matching": 0.05}

PARAPHRASED = Schedule(steps=300, rate=5e-4)
PARAPHRASED_SHARES = {
    "claims": 0.32,
    "parallel": 0.28,
    "healthver": 0.15,
    "graded": 0.10,
    "disturbed": 0.10,
    "matching": 0.05,
}

ALARMED = Schedule(steps=1200, rate=1e-3)
ALARMED_ANSWERS = {"alarms": 32, "disturbed": 16, "parallel": 6, "matching": 8, "graded": 6, "scored": 6}


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
    return _kept(folder, reader, train_reader(reader, lessons, shares, schedule, seed), schedule, shares, seed)


def _kept(
    folder: Path, reader: Reader, training: Iterator[float], schedule: Schedule, shares: Mapping[str, float], seed: int
) -> Reader:
    """Carries out a stage, prints how far it is, and writes the reader and what was done."""
    losses, began = [], time.monotonic()
    for step, loss in enumerate(training, 1):
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
    lessons = {source: _lessons(material, source) for source in BASE_SHARES}
    return trained(work / "readers" / "base", material.words, lessons, BASE_SHARES, BASE, 0)


def settled(work: Path, material: Material) -> Reader:
    """The second stage: HealthVer's claims too."""
    base(work, material)
    return _next(work, material, "settled", "base", SETTLED_SHARES, SETTLED)


def sharpened(work: Path, material: Material) -> Reader:
    """The third stage: mostly claims again, which take longest to learn."""
    settled(work, material)
    return _next(work, material, "sharpened", "settled", SHARPENED_SHARES, SHARPENED)


def paraphrased(work: Path, material: Material) -> Reader:
    """The stage after `sharpened`: answers in their own words too, which the claims made by rule are not."""
    sharpened(work, material)
    return _next(work, material, "paraphrased", "sharpened", PARAPHRASED_SHARES, PARAPHRASED)


def _next(
    work: Path, material: Material, name: str, start: str, shares: Mapping[str, float], schedule: Schedule
) -> Reader:
    """A stage; the names of its folder and of the one that it starts from."""
    readers = work / "readers"
    lessons = {source: _lessons(material, source) for source in shares}
    return trained(readers / name, material.words, lessons, shares, schedule, 0, readers / start)


def alarmed(work: Path, material: Material) -> Reader:
    """The last stage: the alarm alone, on advice with and without something dangerous."""
    folder = work / "readers" / "alarmed"
    if (folder / READER_FILE).exists():
        return Reader.load(folder, material.words)
    start = paraphrased(work, material)
    lessons = {
        source: [lesson._replace(alarm=bool(lesson.alarm)) for lesson in material.lessons(source)]
        for source in ALARMED_ANSWERS
    }
    training = train_alarm(start, lessons, ALARMED_ANSWERS, ALARMED, 0)
    return _kept(folder, start, training, ALARMED, ALARMED_ANSWERS, 0)


def _lessons(material: Material, source: str) -> list[Lesson]:
    if source != "claims":
        return material.lessons(source)
    pairs = material.examples(source)
    return [material.lesson(source, *pairs[at]) for at in balanced([example for example, _ in pairs])]


def balanced(claims: Sequence[Example]) -> list[int]:
    """Indices of claims, as many of each verdict; within a verdict a kind counts by the root of its number."""
    by_kind: dict[tuple[int | None, str], list[int]] = {}
    for at, claim in enumerate(claims):
        by_kind.setdefault((claim.verdict, claim.source), []).append(at)
    chosen: list[int] = []
    for verdict in sorted({claim.verdict for claim in claims}, key=str):
        kinds = [numbers for (own, _), numbers in sorted(by_kind.items(), key=str) if own == verdict]
        total = sum(len(numbers) ** 0.5 for numbers in kinds)
        for numbers in kinds:
            wanted = round(len(claims) / 3 * len(numbers) ** 0.5 / total)
            chosen += [numbers[at % len(numbers)] for at in range(wanted)]
    return chosen
