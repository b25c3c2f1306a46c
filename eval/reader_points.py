"""The stages of the point reader's training: claims made by rule and points of answers; then HealthVer's claims, and
points in other words, too; then contrasts."""

import shutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from reader_adapters import encoder_to_train, round_frozen
from reader_examples import fold_of
from reader_lessons import FOLDS, Material
from reader_training import balanced
from reader_words import authors_of
from safetensors.torch import load_file
from torch import nn

from medjudge.judge.adapter import load_adapter
from medjudge.judge.point_reader import POINTS_FILE, LowRank, PointReader
from medjudge.models.loading import load_encoder
from medjudge.models.packaged import MULTILINGUAL_E5
from medjudge.train.lora import write_base_name
from medjudge.train.reader import Lesson, Schedule, train_point_reader

RANK = 64
_TARGETS = r".*encoder\.layer\.(6|7|8|9|10|11)\..*(query|key|value|dense)"
"""The linear layers above the first of `LAYERS`."""
FIRST = Schedule(steps=2500, rate=5e-4, pieces=64)
FIRST_SHARES = {"claims": 0.75, "graded": 0.12, "parallel": 0.13}
SECOND = Schedule(steps=260, rate=4e-4, pieces=64)
SECOND_SHARES = {"claims": 0.26, "healthver": 0.40, "words": 0.20, "graded": 0.07, "parallel": 0.07}
THIRD = Schedule(steps=1300, rate=4e-4, pieces=64)
THIRD_SHARES = {"contrasts": 0.52, "claims": 0.26, "healthver": 0.05, "words": 0.05, "graded": 0.06, "parallel": 0.06}


class Trainable(NamedTuple):
    """An encoder with an adapter, and the reader of points over its upper layers."""

    body: PeftModel
    reader: PointReader

    def save(self, folder: Path) -> None:
        """Writes the adapter to go on from, and `points.safetensors`."""
        scratch = folder.with_suffix(".part")
        shutil.rmtree(scratch, ignore_errors=True)
        self.body.save_pretrained(str(scratch))
        write_base_name(scratch, MULTILINGUAL_E5)
        self.reader.save(scratch, changes_of(self.reader))
        scratch.rename(folder)


def changes_of(reader: PointReader) -> dict[str, LowRank]:
    """What the adapters of a reader's layers add to them."""
    return {
        name: LowRank(layer.lora_A["default"].weight, layer.lora_B["default"].weight * layer.scaling["default"])
        for name, layer in reader.layers.named_modules()
        if isinstance(layer, LoraLayer)
    }


def trainable(start: Path | None = None) -> Trainable:
    """A point reader with the adapter and head of a folder, or with new ones."""
    encoder = encoder_to_train()
    if start is None:
        config = LoraConfig(r=RANK, lora_alpha=2 * RANK, target_modules=_TARGETS, task_type="FEATURE_EXTRACTION")
        body = get_peft_model(encoder, config)
    else:
        body = load_adapter(encoder, start, trainable=True)
    assert isinstance(body, PeftModel)
    reader = PointReader(body, body.config.hidden_size)
    if start is not None:
        saved = load_file(start / POINTS_FILE)
        reader.load_state_dict(
            {name: saved[name].float() for name in reader.state_dict() if name in saved}, strict=False
        )
    for module in body.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0  # a quarter of a step's time, and few examples are seen twice
    round_frozen(body)
    return Trainable(body, reader)


def first_stage(work: Path, material: Material) -> Path:
    """The folder of the reader that has not learned from HealthVer and points in other words yet."""
    lessons = {source: lessons_of(material, source) for source in FIRST_SHARES}
    return trained(work / "readers" / "points-first", lessons, FIRST_SHARES, FIRST)


def second_stage(work: Path, material: Material, without_fold: int | None = None) -> Path:
    """The folder of the reader that has not learned from contrasts yet.

    Args:
        without_fold: The fold of HealthVer's claims, and the author of points in other words, that are left out; none
            if omitted.
    """
    start = first_stage(work, material)
    lessons = {source: lessons_of(material, source, without_fold) for source in SECOND_SHARES}
    ending = "" if without_fold is None else f"-{without_fold}"
    return trained(work / "readers" / f"points-second{ending}", lessons, SECOND_SHARES, SECOND, start)


def finished(work: Path, material: Material) -> Path:
    """The folder of the finished reader."""
    folder = work / "readers" / "points"
    if folder.exists():
        return folder
    start = second_stage(work, material)
    lessons = {source: lessons_of(material, source) for source in THIRD_SHARES}
    return trained(folder, lessons, THIRD_SHARES, THIRD, start)


def trained(
    folder: Path,
    lessons: Mapping[str, Sequence[Lesson]],
    shares: Mapping[str, float],
    schedule: Schedule,
    start: Path | None = None,
) -> Path:
    """Trains a point reader into a folder; one that is there already is kept."""
    if folder.exists():
        return folder
    torch.manual_seed(0)
    own = trainable(start)
    began, losses = time.monotonic(), []
    for step, loss in enumerate(train_point_reader(own.reader, lessons, shares, schedule, 0), 1):
        losses.append(round(loss, 4))
        if step % 20 == 0:
            mean, seconds = sum(losses[-20:]) / 20, time.monotonic() - began
            print(
                f"{folder.name}: step {step} of {schedule.steps}, loss {mean:.3f}, {seconds:.0f} s",
                file=sys.stderr,
                flush=True,
            )
    own.save(folder)
    return folder


def lessons_of(material: Material, source: str, without_fold: int | None = None) -> list[Lesson]:
    """The examples of a source of whose points something is known, with these points alone."""
    pairs = material.examples(source)
    if source == "claims":
        pairs = [pairs[at] for at in balanced([example for example, _ in pairs])]
    if source == "healthver" and without_fold is not None:
        fold = fold_of([example for example, _ in pairs], FOLDS, 0)
        pairs = [pair for pair in pairs if fold[pair[0].group] != without_fold]
    if source == "words" and without_fold is not None:
        author = authors_of([example for example, _ in pairs])
        pairs = [pair for pair, own in zip(pairs, author, strict=True) if own != without_fold]
    lessons = [_known(material.lesson(source, *pair)) for pair in pairs]
    return [lesson for lesson in lessons if lesson.verdicts]


def _known(lesson: Lesson) -> Lesson:
    """A lesson of those points of which the verdict is known."""
    known = [at for at, verdict in enumerate(lesson.verdicts) if verdict is not None]
    reading = lesson.reading._replace(evidence=[lesson.reading.evidence[at] for at in known])
    return Lesson(reading, None, [lesson.verdicts[at] for at in known])


def load(folder: Path) -> PointReader:
    """The reader of a folder, its adapter merged."""
    body = load_encoder(MULTILINGUAL_E5)
    return PointReader.load(folder, body, body.config.hidden_size)
