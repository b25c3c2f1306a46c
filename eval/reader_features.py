"""What answers look like to the judge's readers.

Each answer has a second opinion too where it is English: for a scored one, of the ordinal judges that did not train on
its question, one for each seed. WORK keeps what was seen: delete `features-*.npz` there after a new reader, point
reader or sentence reader, and after a change of examples.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from built_in_data import folds, read_sets
from built_in_folds import SEEDS, SHIPPED
from built_in_table import FOLDS, Job
from reader_dangers import load_detector
from reader_examples import Example
from reader_lessons import Material
from reader_measures import mean_nearness

from medjudge.judge.alarms import LANGUAGES, Alarms
from medjudge.judge.comparison import Reading
from medjudge.judge.folder import load_judge
from medjudge.judge.language import language_of
from medjudge.judge.point_reader import PointReader
from medjudge.judge.protocol import Assignment
from medjudge.judge.reader import Reader, collate
from medjudge.judge.reader_judge import second_opinion
from medjudge.judge.sentence_reader import sentences_of
from medjudge.judge.sure_verdicts import CONTRADICTED, sure_verdicts
from medjudge.models.hardware import fast_autocast
from medjudge.models.loading import load_tokenizer
from medjudge.models.packaged import MULTILINGUAL_E5
from medjudge.records import Answer, Question

MOST = {"parallel": 3000, "graded": 1500, "disturbed": 800, "matching": 600, "records": 1000}
"""About how many of these the level head is fitted to at most: its weights need no more."""
_BATCH = 48


class Readers(NamedTuple):
    """The reader, and the point reader; `points` is None where the reader's own verdicts count."""

    whole: Reader
    points: PointReader | None = None


class Seen(NamedTuple):
    """Examples as the reader sees them.

    Attributes:
        examples: Shape (n,).
        features: What the reader says, (n, features).
        alarms: The logits of its alarms, (n,).
        by_seed: Second opinions, (n, `SEEDS`) for scored answers, else (n, 1); not a number where there is none.
        contradicted: Whether a fact is surely stated otherwise, (n,).
        untrained: The mean nearness of points, (n,); without points, the cosine of question and answer.
    """

    examples: list[Example]
    features: np.ndarray
    alarms: np.ndarray
    by_seed: np.ndarray
    contradicted: np.ndarray
    untrained: np.ndarray

    @property
    def opinions(self) -> np.ndarray:
        """The mean second opinions, (n,): the judge that ships is a mean over seeds, too."""
        mean: np.ndarray = self.by_seed.mean(axis=1)
        return mean

    def chosen(self, rows: np.ndarray) -> "Seen":
        """Some of the examples, by a mask or indices."""
        numbers = np.arange(len(self.examples))[rows]
        return Seen([self.examples[at] for at in numbers], *(field[rows] for field in self[1:]))

    def with_seed(self, number: int) -> "Seen":
        """The same with the second opinions of one of `SEEDS` alone."""
        return self._replace(by_seed=self.by_seed[:, [number]])


def features_of(readers: Readers, material: Material, source: str, references: bool = True) -> Seen:
    """The examples of a source, or about `MOST` of them, spread over all; WORK keeps what is seen of them.

    Args:
        references: Whether to keep references and checklists; without them an answer has its question only.
    """
    examples, readings = taken(material, source, references)
    kept = material.work / f"features-{source}{'' if references else '-alone'}.npz"
    if not kept.exists():
        found = [sure_verdicts(example.texts, reading) for example, reading in zip(examples, readings, strict=True)]
        np.savez(
            kept,
            features=read(readers, readings),
            alarms=_alarms(readers.whole, material, examples, readings),
            contradicted=np.array([(each == CONTRADICTED).any() for each in found]),
            by_seed=second_opinions(material, source, examples),
        )
    arrays = np.load(kept)
    if len(arrays["features"]) != len(examples):
        raise ValueError(f"{kept} is of other examples; delete it")
    return Seen(
        examples,
        arrays["features"],
        arrays["alarms"],
        arrays["by_seed"],
        arrays["contradicted"],
        np.array([_untrained(reading) for reading in readings]),
    )


def _untrained(reading: Reading) -> float:
    if any(piece.kind > 0 for piece in reading.evidence):
        return float(mean_nearness([reading])[0])
    return 0.0 if reading.parts[0] is None else float(reading.parts[0].whole @ reading.answer.whole)


def taken(material: Material, source: str, references: bool = True) -> tuple[list[Example], list[Reading]]:
    """The examples of a source that `features_of` takes, and their readings."""
    pairs = material.examples(source)
    if source in MOST:
        pairs = pairs[:: max(1, len(pairs) // MOST[source])]
    readings = [material.lesson(source, example, evidence).reading for example, evidence in pairs]
    if references:
        return [example for example, _ in pairs], readings
    alone = [example._replace(reference="", checklist="") for example, _ in pairs]
    return alone, [_without_points(reading) for reading in readings]


def _without_points(reading: Reading) -> Reading:
    evidence = [piece for piece in reading.evidence if piece.kind == 0]
    return Reading((reading.parts[0], None, None), reading.answer, evidence)


def _alarms(reader: Reader, material: Material, examples: Sequence[Example], readings: Sequence[Reading]) -> np.ndarray:
    """The logits that the judge hears, of the reader's alarm and of dangerous sentences, (n,)."""
    alarms, detector = Alarms(reader), load_detector(material.work / "judges" / "sentences")
    tokenizer = load_tokenizer(MULTILINGUAL_E5)
    found: list[float] = []
    for start in range(0, len(readings), _BATCH):
        some, own = examples[start : start + _BATCH], readings[start : start + _BATCH]
        sentences = [
            sentences_of(example.answer, reading.answer, language_of(example.answer, LANGUAGES))
            for example, reading in zip(some, own, strict=True)
        ]
        logits = detector.read(tokenizer, [each.text for of_answer in sentences for each in of_answer])
        found += [alarm.logit for alarm in alarms.of([each.reference for each in some], own, sentences, logits)]
    return np.array(found)


def read(readers: Readers, readings: Sequence[Reading]) -> np.ndarray:
    """The features of answers, (n, `FEATURES`), in the precision that the judge reads with."""
    features = []
    for start in range(0, len(readings), _BATCH):
        batch = collate(readings[start : start + _BATCH])
        with torch.inference_mode(), fast_autocast(torch.device("cpu")):
            output = readers.whole(batch)
            if readers.points is not None:
                output = output.with_verdicts(readers.points(batch), batch)
        features.append(output.features.float().numpy())
    return np.concatenate(features)


def second_opinions(material: Material, source: str, examples: Sequence[Example]) -> np.ndarray:
    """What the ordinal judge says, (n, 1); of scored answers, those that did not train on their fold, (n, `SEEDS`)."""
    if source == "scored":
        fold_of = folds(read_sets(material.work).scored, FOLDS, seed=0)
        opinions = np.full((len(examples), len(SEEDS)), np.nan)
        for fold in range(FOLDS):
            rows = [at for at, example in enumerate(examples) if fold_of[example.group] == fold]
            for number, seed in enumerate(SEEDS):
                folder = material.work / "folds" / Job(SHIPPED, seed, fold).name / "judge"
                opinions[rows, number] = _opinions(folder, [examples[at] for at in rows])
        return opinions
    opinions = np.full((len(examples), 1), np.nan)
    if source in MOST or source == "validation":
        rows = [at for at, example in enumerate(examples) if example.language == "en"]
        opinions[rows, 0] = _opinions(material.work / "judges" / "second", [examples[at] for at in rows])
    return opinions


def _opinions(folder: Path, examples: Sequence[Example]) -> np.ndarray:
    """The opinions of the judge in a folder, (n,)."""
    judge, work = load_judge(folder, "second", torch.device("cpu")), []
    for number, example in enumerate(examples):
        question = Question(
            id=str(number),
            category="CHQ",
            group=str(number),
            prompt=example.prompt,
            reference=example.reference or None,
            checklist=example.checklist or None,
            language=example.language,
        )
        work.append(Assignment(question, (), Answer(question_id=str(number), model="-", text=example.answer)))
    judged = {judgment.question_id: judgment for judgment in judge.judge(work)}
    return np.array([second_opinion(judged[str(number)].probabilities) for number in range(len(examples))])
