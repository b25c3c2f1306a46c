"""Trains the reader on frozen states: ordinal levels of answers, verdicts on points, both in one batch."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from random import Random
from typing import Any, NamedTuple

import torch
from torch.nn import functional

from medjudge.judge.comparison import Reading
from medjudge.judge.point_reader import PointReader
from medjudge.judge.reader import AnswerTokens, Reader, ReaderBatch, ReaderOutput, answer_tokens, collate
from medjudge.models.hardware import fast_autocast

_WEIGHT_DECAY = 0.01
_WARM_UP = 0.05
_TOKENS_OF_PIECE = 200


class Lesson(NamedTuple):
    """One answer to learn from.

    Attributes:
        reading: The answer and its evidence, at least one piece.
        label: The probabilities of the five levels; None where only its points are known.
        verdicts: 0 met, 1 open, 2 contradicted, of each piece of the evidence; None where it is unknown, as it is of
            the question. Empty where all are.
        weight: In the loss.
        alarm: Whether the answer denies itself or tells to do something dangerous; None where it is unknown.
    """

    reading: Reading
    label: tuple[float, ...] | None
    verdicts: Sequence[int | None] = ()
    weight: float = 1.0
    alarm: bool | None = None


class Schedule(NamedTuple):
    """How long and how fast to train.

    Attributes:
        steps: Optimizer steps.
        rate: The highest learning rate; a cosine takes it to a tenth after a short warm-up.
        pieces: The pieces of points in a step, about; 200 tokens of an answer count as one more.
    """

    steps: int
    rate: float
    pieces: int = 80


def train_reader(
    reader: Reader,
    lessons: Mapping[str, Sequence[Lesson]],
    shares: Mapping[str, float],
    schedule: Schedule,
    seed: int,
) -> Iterator[float]:
    """Trains a reader in place.

    Args:
        reader: On its device.
        lessons: By source.
        shares: The share of each source in the pieces of a step.
        schedule: Steps, learning rate, and the size of a step.
        seed: The same seed gives the same order of lessons.

    Yields:
        The loss after each step.
    """
    reader.train()
    device = reader.product.device
    optimizer, rates = _optimizer(reader.parameters(), schedule)
    for chosen in _steps(lessons, shares, schedule, seed):
        batch = collate([lesson.reading for lesson in chosen]).to(device)
        with fast_autocast(device):
            output = reader(batch)
        loss = lesson_loss(output, batch, chosen)
        yield _stepped(optimizer, rates, loss, reader.parameters())
    reader.eval()


def train_alarm(
    reader: Reader,
    lessons: Mapping[str, Sequence[Lesson]],
    shares: Mapping[str, int],
    schedule: Schedule,
    seed: int,
) -> Iterator[float]:
    """Trains the alarm of a reader in place, and nothing else of it.

    Args:
        reader: On its device.
        lessons: By source, all with a known alarm.
        shares: How many answers of each source are in a step.
        schedule: Steps and learning rate.
        seed: The same seed gives the same order of lessons.

    Yields:
        The loss after each step.
    """
    reader.train()
    device = reader.product.device
    optimizer, rates = _optimizer([*reader.alarm_look.parameters(), *reader.alarm.parameters()], schedule)
    streams = {name: _shuffled(lessons[name], Random(f"{seed}-{name}")) for name in shares}
    for _ in range(schedule.steps):
        chosen = [next(streams[name]) for name, count in shares.items() for _ in range(count)]
        tokens = answer_tokens([lesson.reading for lesson in chosen])
        logits = reader.alarms(AnswerTokens(*(tensor.to(device) for tensor in tokens)))
        raised = torch.tensor([bool(lesson.alarm) for lesson in chosen], device=device).float()
        loss = functional.binary_cross_entropy_with_logits(logits, raised)
        yield _stepped(optimizer, rates, loss)
    reader.eval()


def train_point_reader(
    reader: PointReader,
    lessons: Mapping[str, Sequence[Lesson]],
    shares: Mapping[str, float],
    schedule: Schedule,
    seed: int,
) -> Iterator[float]:
    """Trains the adapter and the head of a point reader in place, without `weigh`.

    Args:
        reader: On its device, with an adapter that can be trained.
        lessons: By source, each with at least one known verdict.
        shares: The share of each source in the pieces of a step.
        schedule: Steps, learning rate of the adapter (the head's is twice as high), and the size of a step.
        seed: The same seed gives the same order of lessons.

    Yields:
        The loss after each step.
    """
    reader.train()
    device = reader.verdict.weight.device
    reader.weigh.requires_grad_(False)
    learnt = [parameter for parameter in reader.parameters() if parameter.requires_grad]
    adapter = [parameter for name, parameter in reader.layers.named_parameters() if parameter.requires_grad]
    head = [parameter for parameter in learnt if all(parameter is not other for other in adapter)]
    groups = [{"params": adapter, "lr": schedule.rate}, {"params": head, "lr": 2 * schedule.rate}]
    optimizer, rates = _optimizer(groups, schedule)
    for chosen in _steps(lessons, shares, schedule, seed):
        batch = collate([lesson.reading for lesson in chosen]).to(device)
        with fast_autocast(device):
            verdicts = reader.read(batch)
        loss = verdict_loss(verdicts, batch, chosen)
        yield _stepped(optimizer, rates, loss, learnt)
    reader.eval()


def _stepped(
    optimizer: torch.optim.Optimizer,
    rates: torch.optim.lr_scheduler.LambdaLR,
    loss: torch.Tensor,
    clipped: Iterable[torch.nn.Parameter] = (),
) -> float:
    """Takes one step against a loss, with the gradients of some parameters clipped, and returns the loss."""
    optimizer.zero_grad(set_to_none=True)
    loss.backward()  # type: ignore[no-untyped-call]
    torch.nn.utils.clip_grad_norm_(clipped, 1.0)
    optimizer.step()
    rates.step()
    return float(loss.detach())


def _optimizer(
    parameters: Iterable[torch.nn.Parameter] | Iterable[dict[str, Any]], schedule: Schedule
) -> tuple[torch.optim.Optimizer, torch.optim.lr_scheduler.LambdaLR]:
    optimizer = torch.optim.AdamW(parameters, lr=schedule.rate, weight_decay=_WEIGHT_DECAY)
    return optimizer, torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _rate(step / schedule.steps))


def _rate(progress: float) -> float:
    if progress < _WARM_UP:
        return progress / _WARM_UP
    return 0.1 + 0.45 * (1 + float(torch.cos(torch.tensor(torch.pi * (progress - _WARM_UP) / (1 - _WARM_UP)))))


def _steps(
    lessons: Mapping[str, Sequence[Lesson]], shares: Mapping[str, float], schedule: Schedule, seed: int
) -> Iterator[list[Lesson]]:
    """The lessons of each step."""
    streams = {name: _shuffled(lessons[name], Random(f"{seed}-{name}")) for name in shares}
    for _ in range(schedule.steps):
        yield _step(streams, shares, schedule.pieces)


def _shuffled(lessons: Sequence[Lesson], draw: Random) -> Iterator[Lesson]:
    order = list(range(len(lessons)))
    while True:
        draw.shuffle(order)
        for index in order:
            yield lessons[index]


def _step(streams: Mapping[str, Iterator[Lesson]], shares: Mapping[str, float], pieces: int) -> list[Lesson]:
    chosen = []
    for name, share in shares.items():
        taken = 0
        while taken < share * pieces:
            lesson = next(streams[name])
            taken += len(lesson.reading.evidence) + len(lesson.reading.answer.ids) // _TOKENS_OF_PIECE
            chosen.append(lesson)
    return chosen


def lesson_loss(output: ReaderOutput, batch: ReaderBatch, lessons: Sequence[Lesson]) -> torch.Tensor:
    """The mean of the ordinal losses, of the cross entropies of verdicts and of those of alarms, added up.

    The ordinal loss of an answer is the sum of the binary cross entropies of level > 1, ..., > 4. All points of an
    answer count as much as one claim.
    """
    device = output.cumulative.device
    labelled = [index for index, lesson in enumerate(lessons) if lesson.label is not None]
    loss = output.cumulative.new_zeros(())
    if labelled:
        labels = torch.tensor([lessons[index].label for index in labelled], device=device)
        above = labels.flip(1).cumsum(1).flip(1)[:, 1:].clamp(0, 1)
        weights = torch.tensor([lessons[index].weight for index in labelled], device=device)
        each = functional.binary_cross_entropy_with_logits(output.cumulative[labelled], above, reduction="none")
        loss = loss + (each.sum(dim=1) * weights).sum() / weights.sum()
    loss = loss + verdict_loss(output.verdicts, batch, lessons)
    alarms = {index: lesson.alarm for index, lesson in enumerate(lessons) if lesson.alarm is not None}
    if alarms:
        raised = torch.tensor(list(alarms.values()), device=device).float()
        loss = loss + functional.binary_cross_entropy_with_logits(output.alarm[list(alarms)], raised)
    return loss


def verdict_loss(verdicts: torch.Tensor, batch: ReaderBatch, lessons: Sequence[Lesson]) -> torch.Tensor:
    """The mean cross entropy of the known verdicts; 0 where none is known. The points of an answer share one weight.

    Args:
        verdicts: Logits, (S, 3).
        batch: Of the lessons.
        lessons: What is known.
    """
    of_pieces = [verdict for lesson in lessons for verdict in lesson.verdicts or [None] * len(lesson.reading.evidence)]
    known = [row for row, verdict in enumerate(of_pieces) if verdict is not None]
    if not known:
        return verdicts.new_zeros(())
    targets = torch.tensor([of_pieces[row] for row in known], device=verdicts.device)
    counts = torch.bincount(batch.owner[known], minlength=len(lessons))
    weights = 1 / counts[batch.owner[known]].float()
    each = functional.cross_entropy(verdicts[known], targets, reduction="none", label_smoothing=0.05)
    return (each * weights).sum() / weights.sum()
