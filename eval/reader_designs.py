"""Compares designs for verdicts on points, trained on the same examples: what each reaches, and what it costs.

    python eval/reader_designs.py WORK

WORK is the folder of `eval/built_in.py`, after it has encoded the contrasts. All designs see the same `EXAMPLES`
contrasts once, and are measured on contrasts by authors whose texts nothing learned from:

- a cross-encoder: an adapter on all layers, which read a point and the whole answer as one text;
- the upper layers: each text is read once by the lower half, an adapter on the upper half reads a point with the
  answer's nearest tokens;
- frozen states: each text is read once by the published encoder, a small transformer reads both texts' states;
- the untrained nearness.

WORK keeps what each design says; the table is `eval/results/reader-designs.json`.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from reader_examples import Example
from reader_lessons import Material
from reader_measures import auc_interval, interval
from reader_points import RANK, trainable
from reader_tables import mean_nearness
from sklearn.metrics import f1_score
from study import record
from torch import nn
from torch.nn import functional

from medjudge.files import write_whole
from medjudge.judge.reader import VERDICTS, Reader, collate
from medjudge.models.hardware import fast_autocast
from medjudge.models.loading import load_encoder, load_tokenizer
from medjudge.models.multilingual_e5 import MULTILINGUAL_E5
from medjudge.train.reader import Lesson, Schedule, train_point_reader, train_reader

EXAMPLES, MEASURED = 6400, 2000
_STEP = 64
_RATE = 5e-4
_LONGEST = 256
"""Tokens that the cross-encoder reads; few of these pairs have more."""


class Judged(NamedTuple):
    """The probabilities of met, open and contradicted, (n, 3), and what they cost."""

    chances: np.ndarray
    cost: dict[str, float]


class CrossEncoder(nn.Module):
    """The encoder with an adapter on every layer; the mean of the last states gives a verdict."""

    def __init__(self) -> None:
        super().__init__()
        config = LoraConfig(
            r=RANK,
            lora_alpha=2 * RANK,
            target_modules=r".*encoder\.layer\..*(query|key|value|dense)",
            task_type="FEATURE_EXTRACTION",
        )
        self.tokenizer = load_tokenizer(MULTILINGUAL_E5)
        self.body = get_peft_model(load_encoder(MULTILINGUAL_E5), config)
        self.verdict = nn.Linear(self.body.config.hidden_size, len(VERDICTS))
        self.tokens = 0

    def forward(self, examples: Sequence[Example]) -> torch.Tensor:
        """The logits of met, open and contradicted, (n, 3)."""
        batch = self.tokenizer(
            [each.reference for each in examples],
            [each.answer for each in examples],
            truncation="only_second",
            max_length=_LONGEST,
            padding=True,
            return_tensors="pt",
        )
        self.tokens += int(batch["attention_mask"].sum())
        mask = batch["attention_mask"][..., None]
        states = self.body(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
        logits: torch.Tensor = self.verdict((states * mask).sum(dim=1) / mask.sum(dim=1))
        return logits


def main(work: Path) -> None:
    """Trains and measures each design and writes the table."""
    material = Material(work)
    train = Random("designs").sample(material.examples("contrasts"), EXAMPLES)
    held = Random("designs held").sample(material.examples("contrasts-held"), MEASURED)
    lessons, unseen = (
        [material.lesson(source, *pair) for pair in pairs]
        for source, pairs in (("contrasts", train), ("contrasts-held", held))
    )
    examples = [example for example, _ in held]
    designs: dict[str, Callable[[], Judged]] = {
        "cross-encoder": lambda: by_cross_encoder([example for example, _ in train], examples),
        "upper layers": lambda: by_upper_layers(lessons, unseen),
        "frozen states": lambda: by_frozen_states(material, lessons, unseen),
    }
    table: dict[str, Any] = {}
    for name, judge in designs.items():
        judged = once(work / "designs" / f"{name.replace(' ', '-')}.json", judge)
        table[name] = measured(judged.chances, examples) | judged.cost
        print(name, table[name], file=sys.stderr, flush=True)
    near = mean_nearness([lesson.reading for lesson in unseen])
    table["untrained nearness"] = measured(near[:, None], examples)
    sizes = {"trained on": EXAMPLES, "measured on": MEASURED}
    record("reader-designs", {"command": "python eval/reader_designs.py WORK", **sizes, "table": table})


def once(kept: Path, judge: Callable[[], Judged]) -> Judged:
    """What a design says, from its file if there is one."""
    if not kept.exists():
        torch.manual_seed(0)
        judged = judge()
        kept.parent.mkdir(exist_ok=True)
        write_whole(kept, json.dumps({"chances": judged.chances.round(5).tolist(), "cost": judged.cost}))
    read = json.loads(kept.read_text(encoding="utf-8"))
    return Judged(np.array(read["chances"]), read["cost"])


def measured(rows: np.ndarray, examples: Sequence[Example]) -> dict[str, Any]:
    """How well the first column tells what is met, and, where there are three, the last one what is contradicted."""
    truth, groups = np.array([each.verdict for each in examples]), [each.group for each in examples]
    table: dict[str, Any] = {"auc of met": auc_interval(rows[:, 0], truth == 0, groups)}
    if rows.shape[1] == len(VERDICTS):
        said = rows.argmax(axis=1)
        table["auc of contradicted"] = auc_interval(rows[:, 2], truth == 2, groups)
        table["macro_f1"] = interval(groups, lambda at: f1_score(truth[at], said[at], average="macro"))
    return table


def by_cross_encoder(train: Sequence[Example], held: Sequence[Example]) -> Judged:
    """The verdicts of an encoder that reads both texts as one."""
    model = CrossEncoder()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=_RATE, weight_decay=0.01)
    steps = len(train) // _STEP
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps, pct_start=0.1)
    began = time.monotonic()
    for step in range(steps):
        some = train[step * _STEP : (step + 1) * _STEP]
        with fast_autocast(torch.device("cpu")):
            logits = model(some)
        loss = functional.cross_entropy(logits.float(), torch.tensor([each.verdict for each in some]))
        optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()
        rates.step()
    trained, model.tokens = time.monotonic() - began, 0
    began = time.monotonic()
    with torch.inference_mode(), fast_autocast(torch.device("cpu")):
        rows = torch.cat([model(part).float() for part in _parts(held)])
    cost = {"tokens per verdict": model.tokens / len(held)}
    return Judged(torch.softmax(rows, dim=1).numpy(), _cost(trained, time.monotonic() - began, len(held)) | cost)


def by_upper_layers(train: Sequence[Lesson], held: Sequence[Lesson]) -> Judged:
    """The same by the encoder's upper half over cached states; encoding a text once is not counted."""
    own = trainable()
    schedule = Schedule(steps=len(train) // _STEP, rate=_RATE, pieces=_STEP)
    began = time.monotonic()
    list(train_point_reader(own.reader, {"all": train}, {"all": 1.0}, schedule, 0))
    trained, began = time.monotonic() - began, time.monotonic()
    with torch.inference_mode(), fast_autocast(torch.device("cpu")):
        rows = [_first(own.reader.read(batch), batch.owner) for batch in _batches(held)]
    return Judged(_chances(rows), _cost(trained, time.monotonic() - began, len(held)))


def by_frozen_states(material: Material, train: Sequence[Lesson], held: Sequence[Lesson]) -> Judged:
    """The same by a small transformer over the published encoder's states."""
    reader = Reader(material.words)
    schedule = Schedule(steps=len(train) // _STEP, rate=2 * _RATE, pieces=_STEP)
    began = time.monotonic()
    list(train_reader(reader, {"all": train}, {"all": 1.0}, schedule, 0))
    trained, began = time.monotonic() - began, time.monotonic()
    with torch.inference_mode(), fast_autocast(torch.device("cpu")):
        rows = [_first(reader(batch).verdicts, batch.owner) for batch in _batches(held)]
    return Judged(_chances(rows), _cost(trained, time.monotonic() - began, len(held)))


def _cost(training: float, judging: float, count: int) -> dict[str, float]:
    return {"seconds of training": round(training, 1), "milliseconds per verdict": round(1000 * judging / count, 2)}


def _parts(examples: Sequence[Example]) -> Iterator[Sequence[Example]]:
    for start in range(0, len(examples), _STEP):
        yield examples[start : start + _STEP]


def _batches(lessons: Sequence[Lesson]) -> Iterator[Any]:
    for start in range(0, len(lessons), _STEP):
        yield collate([lesson.reading for lesson in lessons[start : start + _STEP]])


def _first(logits: torch.Tensor, owner: torch.Tensor) -> torch.Tensor:
    """Those of the first piece of each answer."""
    return logits[np.unique(owner.numpy(), return_index=True)[1]]


def _chances(rows: Sequence[torch.Tensor]) -> np.ndarray:
    chances: np.ndarray = torch.softmax(torch.cat(list(rows)).float(), dim=1).numpy()
    return chances


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python eval/reader_designs.py WORK")
    main(Path(sys.argv[1]))
