"""Level heads: what experts scored, graded, disturbed and matched answers look like to the reader, and the fit to them.

Each answer has a second opinion too where it is English: of the ordinal judge that did not train on its question.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from built_in_data import folds, read_sets
from built_in_folds import SHIPPED
from built_in_table import FOLDS, Job
from reader_dangers import load_detector
from reader_examples import Example, level_of
from reader_lessons import Material
from scipy.optimize import minimize

from medjudge.judge.alarms import Alarms
from medjudge.judge.comparison import NUMBERS, Reading
from medjudge.judge.evidence import nearness
from medjudge.judge.folder import load_judge
from medjudge.judge.level_head import UNUSED, LevelHead, Scored, fit_level_head
from medjudge.judge.protocol import Assignment, Judge
from medjudge.judge.reader import FEATURES, Reader, collate
from medjudge.judge.reader_judge import has_points, level_logits, second_opinion
from medjudge.judge.sure_verdicts import CONTRADICTED, sure_verdicts, with_sure
from medjudge.models.loading import load_tokenizer
from medjudge.models.multilingual_e5 import MULTILINGUAL_E5
from medjudge.records import Answer, Question
from medjudge.scale import USABLE_FROM

AUXILIARY = {"parallel": 1.0, "graded": 0.2, "disturbed": 0.05, "matching": 0.02}
"""The weight in the level head of what no expert scored, against the experts' scores."""
MOST = {"parallel": 3000, "graded": 1500, "disturbed": 2400, "matching": 1200}
"""How many of these the level head is fitted to: there are more than its weights need."""
SHIFT_WEIGHTS = (1.0, 3.0)
"""Of held-out training questions and of the validation file in the shift. The latter has messages as people write them,
and the judges are too strict with those."""
_RIDGE = 0.003
_BATCH = 48
_VERDICTS = NUMBERS
"""Where the verdicts' numbers begin: the highest, lowest and mean of met, open and contradicted."""
RAISE = (4, 5, 6, 8, 9, 10, 20, 21, 23, 24, *(_VERDICTS + at for at in (0, 3, 6, 9, 10)))
"""Nearness to reference and checklist, their words, enough length, points met, the impression, the second opinion."""
LOWER = tuple(_VERDICTS + at for at in (1, 4, 7))
"""Points that are open."""
OF_QUESTION = (0, 1, 2, 3, 12, 13, 14, 15, 16, 17, 18, 19, 22)
"""Nearness to the question, length and form: without weight where there is a reference or a checklist. A head
that weighs them there orders LiveQA's held-out answers less well."""
OF_CONTRADICTED = tuple(_VERDICTS + at for at in (2, 5, 8))
"""Without weight there too: a good answer in its own words comes near to more points, and more of these are taken for
contradicted, than one about something else."""


class Seen(NamedTuple):
    """Examples as the reader sees them.

    Attributes:
        examples: Shape (n,).
        features: What the reader says, (n, features).
        alarms: The logits of its alarms, (n,).
        opinions: Second opinions, (n,); not a number where there is none.
        verdicts: The probabilities of met, open and contradicted of the first point, (n, 3).
        contradicted: Whether a fact is surely stated otherwise, (n,).
        nearness: The untrained baseline: the mean nearness of all points, (n,).
        cosine: The untrained cosine of question and answer, (n,).
    """

    examples: list[Example]
    features: np.ndarray
    alarms: np.ndarray
    opinions: np.ndarray
    verdicts: np.ndarray
    contradicted: np.ndarray
    nearness: np.ndarray
    cosine: np.ndarray

    def chosen(self, rows: np.ndarray) -> "Seen":
        """Some of the examples, by a mask or indices."""
        numbers = np.arange(len(self.examples))[rows]
        return Seen([self.examples[at] for at in numbers], *(field[rows] for field in self[1:]))


def features_of(
    reader: Reader, material: Material, source: str, references: bool = True, name: str | None = None
) -> Seen:
    """The examples of a source, or about `MOST` of them, spread over all.

    Args:
        references: Whether to keep references and checklists; without them an answer has its question only.
        name: Of the file that keeps them; the source's if omitted.
    """
    pairs = material.examples(source)
    if source in MOST:
        pairs = pairs[:: max(1, len(pairs) // MOST[source])]
    readings = [material.lesson(source, example, evidence).reading for example, evidence in pairs]
    if not references:
        readings = [_without_points(reading) for reading in readings]
    examples = [example if references else example._replace(reference="", checklist="") for example, _ in pairs]
    kept = material.work / f"features-{name or source}{'' if references else '-alone'}.npz"
    if not kept.exists():
        features, verdicts = _read(reader, readings)
        found = [sure_verdicts(example.texts, reading) for example, reading in zip(examples, readings, strict=True)]
        # The first piece of an answer with a question is the question, of which nothing is sure.
        np.savez(
            kept,
            features=features,
            alarms=_alarms(reader, material, examples, readings),
            verdicts=with_sure(verdicts, np.array([each[0] for each in found])),
            contradicted=np.array([(each == CONTRADICTED).any() for each in found]),
            opinions=second_opinions(material, source, examples),
        )
    arrays = np.load(kept)
    return Seen(
        examples,
        arrays["features"],
        arrays["alarms"],
        arrays["opinions"],
        arrays["verdicts"],
        arrays["contradicted"],
        np.array([np.mean([nearness(piece) for piece in reading.evidence]) for reading in readings]),
        np.array([0.0 if r.parts[0] is None else float(r.parts[0].whole @ r.answer.whole) for r in readings]),
    )


def _without_points(reading: Reading) -> Reading:
    evidence = [piece for piece in reading.evidence if piece.kind == 0]
    return Reading((reading.parts[0], None, None), reading.answer, evidence)


def _alarms(reader: Reader, material: Material, examples: Sequence[Example], readings: Sequence[Reading]) -> np.ndarray:
    """The logits that the judge hears, of the reader's alarm and of the danger detector, (n,)."""
    alarms = Alarms(reader, load_detector(material.work / "judges" / "dangers"), load_tokenizer(MULTILINGUAL_E5))
    found: list[float] = []
    for start in range(0, len(readings), _BATCH):
        part = slice(start, start + _BATCH)
        references, answers = [each.reference for each in examples[part]], [each.answer for each in examples[part]]
        found += [alarm.logit for alarm in alarms.of(references, answers, readings[part])]
    return np.array(found)


def _read(reader: Reader, readings: Sequence[Reading]) -> tuple[np.ndarray, np.ndarray]:
    """Features and verdicts, as in `Seen`."""
    features, verdicts = [], []
    for start in range(0, len(readings), _BATCH):
        batch = collate(readings[start : start + _BATCH])
        with torch.inference_mode():
            output = reader(batch)
        features.append(output.features.numpy())
        first = np.unique(batch.owner.numpy(), return_index=True)[1]
        verdicts.append(torch.softmax(output.verdicts, dim=1).numpy()[first])
    return np.concatenate(features), np.concatenate(verdicts)


def second_opinions(material: Material, source: str, examples: Sequence[Example]) -> np.ndarray:
    """What the ordinal judge says, (n,): for a scored answer, the one that did not train on its question's fold."""
    opinions = np.full(len(examples), np.nan)
    if source == "scored":
        fold_of = folds(read_sets(material.work).scored, FOLDS, seed=0)
        for fold in range(FOLDS):
            rows = [at for at, example in enumerate(examples) if fold_of[example.group] == fold]
            judge = ordinal_judge(material, fold)
            opinions[rows] = _opinions(judge, [examples[at] for at in rows])
    elif source in MOST or source == "validation":
        rows = [at for at, example in enumerate(examples) if example.language == "en"]
        opinions[rows] = _opinions(ordinal_judge(material), [examples[at] for at in rows])
    return opinions


def ordinal_judge(material: Material, fold: int | None = None) -> Judge:
    """The ordinal judge of a fold, or the one of all folds together."""
    folder = material.work / "judges" / "second"
    if fold is not None:
        folder = material.work / "folds" / Job(SHIPPED, 0, fold).name / "judge"
    return load_judge(folder, "second", torch.device("cpu"))


def _opinions(judge: Judge, examples: Sequence[Example]) -> np.ndarray:
    work = []
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


def head_of(seen: dict[str, Seen], chosen: np.ndarray) -> LevelHead:
    """A level head from some of the scored answers, and all parallel, graded, disturbed and matched ones.

    Answers with points of which no second opinion is heard are Chinese, and nearness between Chinese texts is higher:
    no English answer enters their row, and so no expert's score.

    Args:
        seen: `scored`, with references where there are any, `scored-alone` without, and the sources of `AUXILIARY`.
        chosen: Which of the scored answers, shape (n scored,).
    """
    of_rows: list[list[tuple[Seen, float]]] = [[], [], [], []]
    experts = {name: seen[name].chosen(chosen) for name in ("scored", "scored-alone")}
    total = float(sum(example.weight for example in experts["scored"].examples))
    for name, some in experts.items():
        of_kind = some.chosen(has_points(some.features) == (name == "scored"))
        weight = float(sum(example.weight for example in of_kind.examples))
        for row in (0, 2) if name == "scored-alone" else (3,):
            of_rows[row].append((of_kind, weight))
    for source, share in AUXILIARY.items():
        others = seen[source]
        # An alarm overrules the head, which therefore learns nothing from answers that should raise one.
        others = others.chosen(np.array([not example.alarm for example in others.examples]))
        with_points, english = has_points(others.features), ~np.isnan(others.opinions)
        masks = (~with_points, with_points & ~english, ~with_points & english, with_points & english)
        for row, mask in enumerate(masks):
            of_rows[row].append((others.chosen(mask), share * total))
    signs = np.zeros(FEATURES + 1, int)
    signs[list(RAISE)], signs[list(LOWER)], signs[[*OF_QUESTION, *OF_CONTRADICTED]] = 1, -1, UNUSED
    only_second = np.zeros_like(signs)
    only_second[-2:] = 1
    fitted = [_together(parts, second=row >= 2) for row, parts in enumerate(of_rows)]
    return fit_level_head(fitted, [only_second, signs, only_second, signs], _RIDGE)


def _together(parts: Sequence[tuple[Seen, float]], second: bool) -> Scored:
    """The answers of one row; those of each source weigh together what stands beside it."""
    parts = [(some, weight) for some, weight in parts if some.examples]
    weights = []
    for some, weight in parts:
        own = np.array([example.weight for example in some.examples])
        weights.append(own * weight / own.sum())
    opinions = np.concatenate([np.nan_to_num(some.opinions) if second else 0 * some.cosine for some, _ in parts])
    features = np.concatenate([some.features for some, _ in parts])
    labels = np.array([example.label for some, _ in parts for example in some.examples])
    return Scored(np.column_stack([features, opinions]), labels, np.concatenate(weights))


def levels_by(head: LevelHead, seen: Seen, second: bool = True) -> np.ndarray:
    """Logits of level > 1, ..., > 4, shape (n, 4), with or without the second opinions."""
    opinions = seen.opinions if second else np.full(len(seen.examples), np.nan)
    return level_logits(head, seen.features, opinions, seen.alarms, seen.contradicted)


class Usable(NamedTuple):
    """Answers with the logit of being usable and whether the expert called them so, both of shape (n,)."""

    logit: np.ndarray
    usable: np.ndarray


def usable_of(seen: Seen, cumulative: np.ndarray) -> Usable:
    """The usable labels of some answers, from logits of shape (n, 4)."""
    levels = np.array([level_of(example) for example in seen.examples])
    return Usable(cumulative[:, USABLE_FROM - 2], levels >= USABLE_FROM)


def fitted_shift(sets: Sequence[Usable], weights: Sequence[float] = SHIFT_WEIGHTS, balanced: bool = False) -> float:
    """The shift at which usable answers are most likely called usable (logistic), each set with its weight.

    The training questions and the validation file differ in style and balance, and so will the answers to be judged.

    Args:
        balanced: Whether the usable answers of a set count as much as the others together.
    """
    shares = [
        np.where(each.usable, 0.5 / each.usable.mean(), 0.5 / (1 - each.usable.mean()))
        if balanced
        else np.ones(len(each.usable))
        for each in sets
    ]

    def loss(parameters: np.ndarray) -> float:
        shifted = [(usable.logit + parameters[0]) * np.exp(parameters[1]) for usable in sets]
        losses = [
            (share * np.logaddexp(0, np.where(usable.usable, -logit_, logit_))).mean()
            for usable, logit_, share in zip(sets, shifted, shares, strict=True)
        ]
        return float(np.average(losses, weights=weights))

    return float(minimize(loss, np.zeros(2), method="Nelder-Mead").x[0])


def shifted(head: LevelHead, row: int, shift: float) -> LevelHead:
    """The same head with all logits of a row raised."""
    cuts = head.cuts.copy()
    cuts[row] -= shift
    return LevelHead(head.weights, cuts)


def shifted_without(seen: Seen, cumulative: np.ndarray, held_out: Usable) -> np.ndarray:
    """Logits with a shift that was fitted without the own question's answers, shape (n, 4).

    Args:
        seen: The validation file's answers.
        cumulative: What the judge says of them, (n, 4).
        held_out: What the folds' heads say of the training questions.
    """
    fold_of = np.unique([example.group for example in seen.examples], return_inverse=True)[1] % FOLDS
    usable, result = usable_of(seen, cumulative), cumulative.copy()
    for fold in range(FOLDS):
        others = fold_of != fold
        result[~others] += fitted_shift([held_out, Usable(usable.logit[others], usable.usable[others])])
    return result
