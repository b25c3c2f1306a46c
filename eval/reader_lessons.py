"""Examples with their states and evidence: what the reader is trained on and measured with."""

import pickle
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import torch
from reader_examples import Example
from reader_states import StateStore

from medjudge.judge.comparison import Reading
from medjudge.judge.evidence import KINDS, Evidence, Part, evidence_of, nearness
from medjudge.judge.points import Span, checklist_points, reference_points
from medjudge.models.loading import load_encoder
from medjudge.models.packaged import MULTILINGUAL_E5
from medjudge.train.reader import Lesson

FOLDS = 5
MET_FROM = {"en": 0.90, "zh": 0.94}
"""The nearness that fewer than 2 % of the points reach in answers about another condition, and 10 % in related ones."""
OPEN_BELOW = {"en": 0.86, "zh": 0.90}
"""The nearness below which a related answer's point is taken for open: about three in four of them."""


def evidence_for(example: Example, store: StateStore) -> list[Evidence]:
    """The evidence for every point of an example."""
    answer = store[example.answer]
    found: list[Evidence] = []
    for kind, (text, points) in enumerate(zip(example.texts[:3], _spans(example), strict=True)):
        if text:
            found += evidence_of(Part(kind, store[text], points), answer)
    return found


def _spans(example: Example) -> tuple[list[Span], list[Span], list[Span]]:
    if example.label is None:
        points = [Span(0, len(example.reference))]
    else:
        points = reference_points(example.reference, example.language) if example.reference else []
    return [Span(0, len(example.prompt))], points, checklist_points(example.checklist) if example.checklist else []


def lesson_of(example: Example, evidence: Sequence[Evidence], store: StateStore) -> Lesson:
    """An example as the reader reads it."""
    question, reference, checklist = (store[text] if text else None for text in example.texts[:3])
    reading = Reading((question, reference, checklist), store[example.answer], evidence)
    verdicts = [verdict_on(example, piece) for piece in evidence]
    return Lesson(reading, example.label, verdicts, example.weight, example.alarm)


def verdict_on(example: Example, piece: Evidence) -> int | None:
    """What is known of a point: 0 met, 1 open, 2 contradicted; None where nothing is.

    Of two texts that answer one question independently nobody knows which points they share. A point to which nearly
    no answer about another condition comes so near is taken for met, and one of these answers meets none.
    """
    if KINDS[piece.kind] == "question" or example.verdict is not None:
        return None if KINDS[piece.kind] == "question" else example.verdict
    near = nearness(piece)
    if example.source == "parallel-good":
        return 0 if near >= MET_FROM[example.language] else None
    if example.source == "parallel-elsewhere" or (
        example.source == "parallel-related" and near < OPEN_BELOW[example.language]
    ):
        return 1
    return None


class Material:
    """All examples of the folder WORK by source, with their states.

    Args:
        work: Holds `evidence-SOURCE.pickle` of each source, and the stores of states.
    """

    def __init__(self, work: Path) -> None:
        self.work = work
        self.stores = {name: StateStore(work / name) for name in ("states", "states-claims")}
        self._read: dict[str, list[tuple[Example, list[Evidence]]]] = {}

    @cached_property
    def words(self) -> torch.Tensor:
        """The encoder's word embeddings, in half precision."""
        return load_encoder(MULTILINGUAL_E5).get_input_embeddings().weight.detach().half()

    def store(self, source: str) -> StateStore:
        return self.stores["states-claims" if source.startswith("claims") else "states"]

    def examples(self, source: str) -> list[tuple[Example, list[Evidence]]]:
        if source not in self._read:
            with (self.work / f"evidence-{source}.pickle").open("rb") as file:
                self._read[source] = [(Example(*fields), evidence) for fields, evidence in pickle.load(file)]
        return self._read[source]

    def lessons(self, source: str) -> list[Lesson]:
        """The lessons of a source."""
        return [self.lesson(source, example, evidence) for example, evidence in self.examples(source)]

    def lesson(self, source: str, example: Example, evidence: Sequence[Evidence]) -> Lesson:
        """One example of a source as a lesson."""
        return lesson_of(example, evidence, self.store(source))
