"""Compares designs for verdicts on points, trained on the same examples: what each reaches, and what it costs.

    python eval/reader_designs.py WORK

WORK is the folder of `eval/built_in.py`, after it has encoded the contrasts. All designs start from the published
encoder, see the same `EXAMPLES` contrasts once, each a point beside a single passage, and are measured on contrasts by
authors that they did not learn from:

- a cross-encoder: an adapter on all layers, which read a point and the whole answer as one text;
- the upper layers (PreTTR; MacAvaney et al., 2020): the lower half reads each text once, an adapter on the upper half
  reads a point with the answer's nearest tokens;
- frozen states: the published encoder reads each text once, a small transformer reads the states of both;
- the untrained nearness.

Each learns with the optimizer and rates that suit it: the cross-encoder's were not searched for. The cost is
milliseconds of processor time per verdict. That of the upper layers and of frozen states leaves out the encoding of
each text and the choice of its nearest tokens, which are done once, whatever the number of points. WORK keeps what each
design predicts: delete WORK/designs after a change. The table is `eval/results/reader-designs.json`.
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
from peft import LoraConfig, PeftModel, get_peft_model
from reader_adapters import encoder_to_train, round_frozen
from reader_examples import Example
from reader_lessons import Material
from reader_measures import auc_interval, interval, mean_nearness
from reader_points import RANK, trainable
from reader_words import is_in_company
from sklearn.metrics import f1_score
from study import record
from torch import nn
from torch.nn import functional
from transformers import BatchEncoding

from medjudge.files import write_whole
from medjudge.judge.evidence import Evidence
from medjudge.judge.reader import VERDICTS, Reader, ReaderBatch, collate
from medjudge.judge.sure_verdicts import CONTRADICTED, MET
from medjudge.models.hardware import fast_autocast
from medjudge.models.loading import load_tokenizer
from medjudge.models.packaged import MULTILINGUAL_E5
from medjudge.train.reader import Lesson, Schedule, train_point_reader, train_reader

EXAMPLES, MEASURED, _TIMED = 6400, 1500, 320
_STEP = 64
_READ_TOGETHER = 16
"""Pairs of similar length that the cross-encoder reads at once in training."""
_RATE = 5e-4
_LONGEST = 256
"""Tokens that the cross-encoder reads; few of these pairs have more."""
_SMOOTHING = 0.05
"""Of the labels, as in the training of the other designs."""


class Design(NamedTuple):
    """A model that can learn from the training examples.

    Attributes:
        learn: Trains it.
        judge: Gives the probabilities of met, open and contradicted of the first so many measured examples, (n, 3).
    """

    learn: Callable[[], None]
    judge: Callable[[int], np.ndarray]


class CrossEncoder(nn.Module):
    """The encoder with an adapter on every layer; the mean of the last states gives a verdict."""

    def __init__(self) -> None:
        super().__init__()
        config = LoraConfig(
            r=RANK,
            lora_alpha=2 * RANK,
            lora_dropout=0.0,
            target_modules=r".*encoder\.layer\..*(query|key|value|dense)",
            task_type="FEATURE_EXTRACTION",
        )
        self.tokenizer = load_tokenizer(MULTILINGUAL_E5)
        body = get_peft_model(encoder_to_train(), config)
        assert isinstance(body, PeftModel)
        for module in body.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
        round_frozen(body)
        self.body = body
        self.verdict = nn.Linear(body.config.hidden_size, len(VERDICTS))

    def encode(self, examples: Sequence[Example]) -> BatchEncoding:
        """The tokens of each point and its answer, padded, (n, longest)."""
        points, answers = [each.reference for each in examples], [each.answer for each in examples]
        return self.tokenizer(
            points, answers, truncation="only_second", max_length=_LONGEST, padding=True, return_tensors="pt"
        )

    def forward(self, batch: BatchEncoding) -> torch.Tensor:
        """The logits of met, open and contradicted, (n, 3)."""
        mask = batch["attention_mask"][..., None]
        states = self.body(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).last_hidden_state
        logits: torch.Tensor = self.verdict((states.float() * mask).sum(dim=1) / mask.sum(dim=1))
        return logits


def main(work: Path) -> None:
    """Trains and measures each design and writes the table."""
    material = Material(work)
    train = Random("designs").sample(alone(material, "contrasts"), EXAMPLES)
    held = Random("designs held").sample(alone(material, "contrasts-held"), MEASURED)
    lessons, unseen = (
        [material.lesson(source, *pair) for pair in pairs]
        for source, pairs in (("contrasts", train), ("contrasts-held", held))
    )
    examples = [example for example, _ in held]
    designs: dict[str, Callable[[], Design]] = {
        "cross-encoder": lambda: cross_encoder([example for example, _ in train], examples),
        "upper layers": lambda: upper_layers(lessons, unseen),
        "frozen states": lambda: frozen_states(material, lessons, unseen),
    }
    table: dict[str, Any] = {}
    for name, design in designs.items():
        rows = predicted(work / "designs" / f"{name.replace(' ', '-')}.json", design)
        table[name] = measured(rows, examples) | {"milliseconds per verdict": cost(design())}
        print(name, table[name], file=sys.stderr, flush=True)
    near = mean_nearness([lesson.reading for lesson in unseen])
    table["untrained nearness"] = measured(near[:, None], examples)
    sizes = {"trained on": EXAMPLES, "measured on": MEASURED}
    record("reader-designs", {"command": "python eval/reader_designs.py WORK", **sizes, "table": table})


def alone(material: Material, source: str) -> list[tuple[Example, list[Evidence]]]:
    """The points of a source that stand beside a single passage."""
    pairs = material.examples(source)
    company = is_in_company([example for example, _ in pairs])
    return [pair for pair, beside_others in zip(pairs, company, strict=True) if not beside_others]


def predicted(kept: Path, design: Callable[[], Design]) -> np.ndarray:
    """What a design predicts after training, (`MEASURED`, 3), from its file if there is one."""
    if not kept.exists():
        torch.manual_seed(0)
        trained = design()
        trained.learn()
        kept.parent.mkdir(exist_ok=True)
        write_whole(kept, json.dumps({"probabilities": trained.judge(MEASURED).round(5).tolist()}))
    return np.array(json.loads(kept.read_text(encoding="utf-8"))["probabilities"])


def cost(design: Design) -> float:
    """Milliseconds of processor time per verdict; training does not change them."""
    design.judge(_STEP)
    began = time.process_time()
    design.judge(_TIMED)
    return round(1000 * (time.process_time() - began) / _TIMED, 2)


def measured(rows: np.ndarray, examples: Sequence[Example]) -> dict[str, Any]:
    """How well the first column tells what is met, and, where there are three, the last one what is contradicted."""
    truth, groups = np.array([each.verdict for each in examples]), [each.group for each in examples]
    table: dict[str, Any] = {"auc of met": auc_interval(rows[:, MET], truth == MET, groups)}
    if rows.shape[1] == len(VERDICTS):
        predicted = rows.argmax(axis=1)
        table["auc of contradicted"] = auc_interval(rows[:, CONTRADICTED], truth == CONTRADICTED, groups)
        table["macro_f1"] = interval(groups, lambda at: f1_score(truth[at], predicted[at], average="macro"))
    return table


def cross_encoder(train: Sequence[Example], held: Sequence[Example]) -> Design:
    """An encoder that reads both texts as one."""
    model = CrossEncoder()

    def judge(count: int) -> np.ndarray:
        order = np.argsort([_length(each) for each in held[:count]])
        rows = [model(model.encode(part)) for part in _parts([held[at] for at in order], _STEP)]
        return _probabilities(rows)[np.argsort(order)]

    return Design(lambda: _learn(model, train), _for_reading(judge))


def _learn(model: CrossEncoder, train: Sequence[Example]) -> None:
    """Trains a cross-encoder in place, one pass over the examples."""
    learnt = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(learnt, lr=_RATE, weight_decay=0.01)
    steps = len(train) // _STEP
    rates = torch.optim.lr_scheduler.OneCycleLR(optimizer, _RATE, total_steps=steps, pct_start=0.1)
    for number, some in enumerate(_parts(train[: steps * _STEP], _STEP), 1):
        optimizer.zero_grad()
        total = 0.0
        for part in _parts(sorted(some, key=_length), _READ_TOGETHER):
            with fast_autocast(torch.device("cpu")):
                logits = model(model.encode(part))
            wanted = torch.tensor([each.verdict for each in part])
            loss = functional.cross_entropy(logits.float(), wanted, label_smoothing=_SMOOTHING, reduction="sum") / _STEP
            loss.backward()  # type: ignore[no-untyped-call]
            total += loss.item()
        torch.nn.utils.clip_grad_norm_(learnt, 1.0)
        optimizer.step()
        rates.step()
        if number % 20 == 0:
            print(f"cross-encoder: step {number} of {steps}, loss {total:.3f}", file=sys.stderr, flush=True)


def upper_layers(train: Sequence[Lesson], held: Sequence[Lesson]) -> Design:
    """The encoder's upper half over cached states."""
    reader = trainable().reader
    schedule = Schedule(steps=len(train) // _STEP, rate=_RATE, pieces=_STEP)

    def judge(count: int) -> np.ndarray:
        return _probabilities([first_pieces(reader.read(batch), batch.owner) for batch in _batches(held[:count])])

    def learn() -> None:
        for _ in train_point_reader(reader, {"all": train}, {"all": 1.0}, schedule, 0):
            pass

    return Design(learn, _for_reading(judge))


def frozen_states(material: Material, train: Sequence[Lesson], held: Sequence[Lesson]) -> Design:
    """A small transformer over the published encoder's states."""
    reader = Reader(material.words)
    schedule = Schedule(steps=len(train) // _STEP, rate=2 * _RATE, pieces=_STEP)

    def judge(count: int) -> np.ndarray:
        return _probabilities([first_pieces(reader(batch).verdicts, batch.owner) for batch in _batches(held[:count])])

    def learn() -> None:
        for _ in train_reader(reader, {"all": train}, {"all": 1.0}, schedule, 0):
            pass

    return Design(learn, _for_reading(judge))


def _for_reading(judge: Callable[[int], np.ndarray]) -> Callable[[int], np.ndarray]:
    """The same without gradients, in the precision that the judge reads with."""

    def read(count: int) -> np.ndarray:
        with torch.inference_mode(), fast_autocast(torch.device("cpu")):
            return judge(count)

    return read


def _length(example: Example) -> int:
    return len(example.reference) + len(example.answer)


def _parts(examples: Sequence[Example], size: int) -> Iterator[Sequence[Example]]:
    for start in range(0, len(examples), size):
        yield examples[start : start + size]


def _batches(lessons: Sequence[Lesson]) -> Iterator[ReaderBatch]:
    for start in range(0, len(lessons), _STEP):
        yield collate([lesson.reading for lesson in lessons[start : start + _STEP]])


def first_pieces(logits: torch.Tensor, owner: torch.Tensor) -> torch.Tensor:
    """Those of the first piece of each answer, (pieces, 3) -> (answers, 3)."""
    return logits[np.unique(owner.numpy(), return_index=True)[1]]


def _probabilities(rows: Sequence[torch.Tensor]) -> np.ndarray:
    probabilities: np.ndarray = torch.softmax(torch.cat(list(rows)).float(), dim=1).numpy()
    return probabilities


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("usage: python eval/reader_designs.py WORK")
    main(Path(sys.argv[1]))
