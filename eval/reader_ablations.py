"""What the parts of the built-in judge bring: each is left out in turn.

    python eval/reader_ablations.py DATA WORK

WORK is the folder of `eval/built_in.py`, after it has run; a finished training is not repeated. Two folds of the
experts' questions and one seed. The readers of frozen states learn anew, `SCHEDULE` long, from the sources of the first
stage but one; other variants leave something out of the level head alone, where there are points. LLMEval-2's answers,
on which nothing was trained, are measured without keys, facts and alarms. The weights of the point reader's verdicts
have seen LiveQA's levels; the readers of frozen states have not. The result is `eval/results/reader-ablations.json`.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from built_in_data import folds, read_sets
from built_in_table import FOLDS
from reader_examples import VERDICTS, Example, level_of
from reader_features import Readers, Seen, features_of, read, taken
from reader_heads import AUXILIARY, head_of, levels_by
from reader_judge import write_evidence
from reader_lessons import Material
from reader_measures import auc_interval, interval, llmeval2_lines
from reader_states import encoder
from reader_tables import by_reader, measured_of
from reader_training import BASE_SHARES, balanced, trained
from scipy.special import expit
from scipy.stats import spearmanr
from study import record

from medjudge.judge.alarms import QUIET
from medjudge.judge.comparison import NUMBERS
from medjudge.judge.folder import load_judge
from medjudge.judge.open import built_in_folder
from medjudge.judge.reader import OF_POINTS, Reader
from medjudge.judge.reader_judge import ReaderJudge
from medjudge.scale import USABLE_FROM
from medjudge.train.reader import Lesson, Schedule

SCHEDULE = Schedule(steps=200, rate=1e-3)
SHIPPED = "shipped"
MEASURED_FOLDS = (0, 1)
LLMEVAL2_ANSWERS = 440
_THINNED = 4
"""The level heads are fitted to one in this many of the answers that no expert scored."""
_ALL_POINTS = tuple(range(NUMBERS, NUMBERS + OF_POINTS))
_IMPRESSION = NUMBERS + OF_POINTS


class Learnt(NamedTuple):
    """What the readers of a variant learn from."""

    without: str | None = None
    languages: tuple[str, ...] = ("en", "zh")


TRAINED = {
    "all sources": Learnt(),
    "without claims": Learnt("claims"),
    "without matching": Learnt("matching"),
    "without Chinese": Learnt(languages=("en",)),
}
WEIGHED = {
    "head without points": _ALL_POINTS,
    "head without the reader's impression": (_IMPRESSION,),
}


def main(data: Path, work: Path) -> None:
    """Trains, measures and writes the table."""
    material = Material(work)
    write_llmeval2(data, material)
    judge = load_judge(built_in_folder(), "built-in", torch.device("cpu"))
    assert isinstance(judge, ReaderJudge)
    shipped = Readers(judge.reader, judge.points)
    everything = seen_by(shipped, material, SHIPPED)
    table = {"as shipped": measured(everything, material)}
    for name, unused in WEIGHED.items():
        table[name] = {row: own for row, own in measured(everything, material, unused).items() if "mediqa" not in row}
    frozen = Readers(judge.reader)
    name = "verdicts of the reader of frozen states"
    table[name] = measured(seen_by(frozen, material, "frozen"), material) | on_claims(frozen, material)
    for name, learnt in TRAINED.items():
        readers = Readers(trained_on(learnt, name, material))
        kept = name.replace(" ", "-")
        table[f"learned anew: {name}"] = measured(seen_by(readers, material, kept), material) | on_claims(
            readers, material
        )
    record("reader-ablations", {"command": "python eval/reader_ablations.py DATA WORK", "table": table})


def write_llmeval2(data: Path, material: Material) -> None:
    """Brings LLMEval-2's answers into WORK, where they are not there yet."""
    if (material.work / "evidence-llmeval-2.pickle").exists():
        return
    examples = [
        Example(
            line.question.prompt,
            line.question.reference or "",
            "",
            line.answer.text,
            "zh",
            tuple(line.probabilities),
            None,
            line.question.id,
            "llmeval-2",
        )
        for line in llmeval2_lines(data, LLMEVAL2_ANSWERS, seed=0)
    ]
    write_evidence(material.work, "llmeval-2", examples, material.store("llmeval-2"), encoder())


def trained_on(learnt: Learnt, name: str, material: Material) -> Reader:
    """A reader of frozen states that learned from some of the sources."""
    shares = {source: share for source, share in BASE_SHARES.items() if source != learnt.without}
    total = sum(shares.values())
    lessons = {source: lessons_of(material, source, learnt.languages) for source in shares}
    folder = material.work / "readers" / f"ablation-{name.replace(' ', '-')}"
    shares = {source: share / total for source, share in shares.items()}
    return trained(folder, material.words, lessons, shares, SCHEDULE, 0)


def lessons_of(material: Material, source: str, languages: Sequence[str]) -> list[Lesson]:
    """The lessons of a source in some languages, claims as many of each verdict."""
    pairs = [pair for pair in material.examples(source) if pair[0].language in languages]
    if source == "claims":
        pairs = [pairs[at] for at in balanced([example for example, _ in pairs])]
    return [material.lesson(source, *pair) for pair in pairs]


def seen_by(readers: Readers, material: Material, name: str) -> dict[str, Seen]:
    """What readers see of every source that a level head is fitted to or measured on; alarms and opinions as shipped.

    Args:
        name: Of the files that keep it.
    """
    seen = {}
    for source in ("scored", "scored-alone", *AUXILIARY, "llmeval-2"):
        seen[source] = _seen(readers, material, source, name)
    return seen


def _seen(readers: Readers, material: Material, source: str, name: str) -> Seen:
    of, alone = source.removesuffix("-alone"), source.endswith("-alone")
    examples, readings = taken(material, of, references=not alone)
    rows = np.arange(0, len(examples), _THINNED if source in AUXILIARY else 1)
    if source == "llmeval-2":
        alarms = np.full(len(examples), QUIET)
        silent = np.full((len(examples), 1), np.nan)
        known = Seen(
            examples,
            np.zeros((len(examples), 0)),
            alarms,
            silent,
            np.zeros(len(examples), bool),
            np.zeros(len(examples)),
        )
    else:
        known = features_of(readers, material, of, references=not alone).chosen(rows)
        if name == SHIPPED:
            return known
    kept = material.work / f"ablation-{name}-{source}.npy"
    if not kept.exists():
        np.save(kept, read(readers, [readings[row] for row in rows]))
    return known._replace(features=np.load(kept))


def measured(seen: dict[str, Seen], material: Material, ablated: Sequence[int] = ()) -> dict[str, Any]:
    """Agreement with experts on the measured folds, each by a head without it, and on LLMEval-2 by the first head."""
    examples = seen["scored"].examples
    of_group = folds(read_sets(material.work).scored, FOLDS, seed=0)
    fold = np.array([of_group[each.group] for each in examples])
    heads = {number: head_of(seen, fold != number, ablated) for number in MEASURED_FOLDS}
    table: dict[str, Any] = {}
    for row, name, source, second in (
        ("mediqa", "scored-alone", "mediqa", True),
        ("mediqa without second opinion", "scored-alone", "mediqa", False),
        ("liveqa with references", "scored", "liveqa", True),
    ):
        counted = measured_of(examples, material, source)
        parts = [(seen[name].chosen(counted & (fold == number)), heads[number]) for number in MEASURED_FOLDS]
        cumulative = np.concatenate([levels_by(head, part, second) for part, head in parts])
        table[row] = agreement([example for part, _ in parts for example in part.examples], cumulative)
    others = seen["llmeval-2"]
    chance = levels_by(heads[MEASURED_FOLDS[0]], others)[:, USABLE_FROM - 2]
    full = np.array([level_of(example) >= USABLE_FROM for example in others.examples])
    groups = [example.group for example in others.examples]
    return table | {"llmeval-2, auc of full marks": auc_interval(chance, full, groups)}


def agreement(examples: Sequence[Example], cumulative: np.ndarray) -> dict[str, Any]:
    """Agreement on usable, and Spearman of the expected levels, with intervals over questions."""
    level, groups = np.array([level_of(each) for each in examples]), [each.group for each in examples]
    called, expected = cumulative[:, USABLE_FROM - 2] >= 0, expit(cumulative).sum(axis=1)
    return {
        "answers": len(level),
        "usable_agreement": interval(groups, lambda at: ((level >= USABLE_FROM) == called)[at].mean()),
        "spearman": interval(groups, lambda at: spearmanr(expected[at], level[at])[0]),
    }


def on_claims(readers: Readers, material: Material) -> dict[str, Any]:
    """The held-out claims: the area under the curve of supported against the rest, in both languages."""
    table = {}
    for language in ("en", "zh"):
        pairs = [pair for pair in material.examples("claims-held") if pair[0].language == language]
        readings = [material.lesson("claims-held", *pair).reading for pair in pairs]
        met = by_reader(readers.whole, readings, lambda own: own[0])
        supported = np.array([example.verdict == VERDICTS["Supports"] for example, _ in pairs])
        table[f"held-out claims, {language}"] = auc_interval(met, supported, [example.group for example, _ in pairs])
    return table


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python eval/reader_ablations.py DATA WORK")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
