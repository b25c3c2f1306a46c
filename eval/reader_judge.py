"""Makes a judge of kind `reader` from DATA in WORK/judge/reader, and measures it.

    python eval/reader_judge.py DATA WORK

DATA holds mediqa2019-qa/, liveqa-med/, medquad/, healthver/, toyhom-internal/, huatuo-knowledge/ and, for measuring
only, llmeval-2/ and llmeval-med/. WORK keeps every finished stage: converted records, token states (about 8 GB), the
evidence, the readers. Nothing in it is made twice.

The reader learns from matching, claims made by rule, graded and disturbed answers, then from HealthVer too. Experts'
scores fit only the few weights of its level head; five heads, each without a fifth of MEDIQA's questions, show what
such a judge does on questions that it has not seen. The table is `eval/results/reader-judge.json`.
"""

import json
import pickle
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from reader_claims import claims, split
from reader_examples import (
    Example,
    chinese_pairs,
    distinct_texts,
    disturbed,
    fold_of,
    graded,
    healthver,
    matching,
    measured,
    medquad,
    of_claim,
    scored,
)
from reader_lessons import FOLDS, Material, evidence_for
from reader_measures import auc_interval, interval, llmeval2, llmeval_med
from reader_states import MAX_LENGTH, MOST_WINDOWS, StateStore, encoder
from reader_training import base, settled
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score
from study import REPOSITORY, Study

from medjudge.files import file_sha256
from medjudge.judge.card import write_readme
from medjudge.judge.evidence import nearness
from medjudge.judge.folder import JudgeCard, TrainedOn, load_judge
from medjudge.judge.level_head import LevelHead, fit_level_head
from medjudge.judge.ordinal import probabilities
from medjudge.judge.reader import CHECKLIST_THERE, REFERENCE_THERE, Reader, Reading, collate
from medjudge.judge.states import vocabulary_sha256
from medjudge.models.loading import load_tokenizer
from medjudge.models.multilingual_e5 import MULTILINGUAL_E5
from medjudge.scale import USABLE_FROM, median_level

ENGLISH_CLAIMS, CHINESE_CLAIMS = 16_000, 8_000
AUXILIARY = {"graded": 0.5, "disturbed": 0.4, "matching": 0.2}
"""The weight in the level head of what no expert scored, against the experts' scores."""
_MOST = {"graded": 1000, "disturbed": 1500, "matching": 1000}
"""How many of these the level head is fitted to: there are more than its weights need."""
_RIDGE = 0.003
_LONGEST_ANSWER = 2500
"""In characters, of the pairs that matching and grading take."""
_BATCH = 48
SOURCES = ("mediqa2019-qa", "liveqa-med", "medquad", "healthver", "toyhom-internal", "huatuo-knowledge")
NOTE = (
    "A study of a judge that reads points. It reads question, reference, checklist and answer, in English and "
    "Chinese, and says of each point whether the answer meets it, leaves it open or contradicts it. No scores of "
    "Chinese answers are among what it learned from, and it knows no medicine beyond what stands in the reference. It "
    "agrees less with people than `built-in` does on English questions."
)


def main(data: Path, work: Path) -> None:
    """Runs the stages that are not finished yet, from the data to the judge folder and the table."""
    study = Study(work, DATA=data.resolve(), MEDJUDGE=REPOSITORY)
    convert(study)
    prepare(data, work)
    material = Material(work)
    base(work, material)
    reader = settled(work, material)
    seen = {source: features_of(reader, material, source) for source in ("scored", "validation", *AUXILIARY)}
    out = work / "judge" / "reader"
    write_judge(out, reader, head_of(seen, np.ones(len(seen["scored"].examples), bool)), data, seen["scored"].examples)
    table = {
        "mediqa folds": folds_table(seen),
        "mediqa validation": validation_table(seen),
        "rule claims": claims_table(reader, material),
        **on_other_sets(out, data, work),
    }
    study.write("reader-judge", table)


def convert(study: Study) -> None:
    """Brings the scored sets into the project's records."""
    mediqa, liveqa = "$DATA/mediqa2019-qa", "$DATA/liveqa-med"
    study.run(f"medjudge data convert mediqa2019 {mediqa}/train-alexa.xml {mediqa}/train-liveqamed.xml --out mediqa")
    study.run(f"medjudge data convert mediqa2019 {mediqa}/validation.xml --out mediqa-validation")
    study.run(
        f"medjudge data convert liveqa-med {liveqa}/reference-answers.xml {liveqa}/qrels-nist-692.txt --out liveqa"
    )


def prepare(data: Path, work: Path) -> None:
    """Writes the evidence of every source, where it is not there yet."""
    if (work / "evidence-claims-held.pickle").exists():
        return
    short = [pair for pair in medquad(data) if len(pair.answer) <= _LONGEST_ANSWER]
    chinese = chinese_pairs(data)
    huatuo = [pair for pair in chinese if pair.topic == "huatuo"]
    toyhom = [pair for pair in chinese if pair.topic == "toyhom" and len(pair.answer) > 100]
    sources = {
        "scored": scored(work),
        "validation": measured(work),
        "healthver": healthver(data),
        "matching": matching(short, 2400, 0) + matching(chinese, 3600, 0),
        "graded": graded(short, 1500, 0) + graded(huatuo, 900, 1) + graded(toyhom, 600, 2),
    }
    usable = [each for name in ("graded", "matching") for each in sources[name] if level_of(each) >= USABLE_FROM]
    Random(1).shuffle(usable)
    sources["disturbed"] = disturbed(usable[:900], 0)
    parts = split(claims(data, ENGLISH_CLAIMS, CHINESE_CLAIMS, 0))
    sources |= {"claims": list(map(of_claim, parts.train)), "claims-held": list(map(of_claim, parts.held_out))}
    frozen = encoder()
    for source, examples in sources.items():
        store = StateStore(work / ("states-claims" if source.startswith("claims") else "states"))
        store.add(distinct_texts(examples), frozen)
        pairs = [(tuple(example), evidence_for(example, store)) for example in examples if example.answer]
        with (work / f"evidence-{source}.pickle").open("wb") as file:
            pickle.dump([pair for pair in pairs if pair[1]], file)


def level_of(example: Example) -> int:
    """The likeliest level of an example's label; 0 for a claim."""
    return 0 if example.label is None else int(np.argmax(example.label)) + 1


class Seen(NamedTuple):
    """Examples as the reader sees them.

    Attributes:
        examples: Shape (n,).
        features: What a level head weighs, (n, features).
        verdicts: The probabilities of met, open and contradicted of the first point, (n, 3).
        nearness: The untrained baseline: the mean nearness of all points, (n,).
        cosine: The untrained cosine of question and answer, (n,).
    """

    examples: list[Example]
    features: np.ndarray
    verdicts: np.ndarray
    nearness: np.ndarray
    cosine: np.ndarray


def features_of(reader: Reader, material: Material, source: str) -> Seen:
    """The examples of a source, or about `_MOST` of them, spread over all."""
    pairs = material.examples(source)
    if source in _MOST:
        pairs = pairs[:: max(1, len(pairs) // _MOST[source])]
    readings = [material.lesson(source, example, evidence).reading for example, evidence in pairs]
    kept = material.work / f"features-{source}.npz"
    if not kept.exists():
        features, verdicts = _read(reader, readings)
        np.savez(kept, features=features, verdicts=verdicts)
    arrays = np.load(kept)
    return Seen(
        [example for example, _ in pairs],
        arrays["features"],
        arrays["verdicts"],
        np.array([np.mean([nearness(piece) for piece in reading.evidence]) for reading in readings]),
        np.array([0.0 if r.parts[0] is None else float(r.parts[0].whole @ r.answer.whole) for r in readings]),
    )


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


def head_of(seen: dict[str, Seen], chosen: np.ndarray) -> LevelHead:
    """A level head from some of the scored answers, and all graded and disturbed ones.

    Args:
        chosen: Which of the scored answers, shape (n scored,).
    """
    examples = seen["scored"].examples
    features, weights = [seen["scored"].features[chosen]], [np.array([each.weight for each in examples])[chosen]]
    labels = [np.array([each.label for each in examples])[chosen]]
    for source, share in AUXILIARY.items():
        others = seen[source]
        features.append(others.features)
        labels.append(np.array([each.label for each in others.examples]))
        weights.append(np.full(len(others.examples), share * len(examples) / len(others.examples)))
    together = np.concatenate(features)
    return fit_level_head(together, has_points(together), np.concatenate(labels), np.concatenate(weights), _RIDGE)


def has_points(features: np.ndarray) -> np.ndarray:
    """Whether an answer was compared with a reference or a checklist, which its features say, (n,)."""
    return (features[:, REFERENCE_THERE] > 0) | (features[:, CHECKLIST_THERE] > 0)


def _levels(head: LevelHead, features: np.ndarray) -> np.ndarray:
    return head.cumulative(features, has_points(features))


def agreement(examples: Sequence[Example], cumulative: np.ndarray, cosine: np.ndarray) -> dict[str, Any]:
    """Agreement of median levels with the experts', with intervals over questions, and the untrained baseline."""
    rows = probabilities(torch.from_numpy(cumulative)).numpy()
    level, groups = np.array([level_of(each) for each in examples]), [each.group for each in examples]
    judged = np.array([median_level(row) for row in rows])
    expected = rows @ np.arange(1, 6)
    usable, called = level >= USABLE_FROM, judged >= USABLE_FROM
    return {
        "answers": len(level),
        "usable_agreement": interval(groups, lambda at: (usable == called)[at].mean()),
        "cohen_kappa": interval(groups, lambda at: cohen_kappa_score(usable[at], called[at])),
        "spearman": interval(groups, lambda at: spearmanr(expected[at], level[at])[0]),
        "bias": interval(groups, lambda at: (judged - level)[at].mean()),
        "spearman of the untrained cosine": interval(groups, lambda at: spearmanr(cosine[at], level[at])[0]),
    }


def folds_table(seen: dict[str, Seen]) -> dict[str, Any]:
    """MEDIQA's answers by the head of their fold; an answer that its training holds word for word is left out."""
    examples = seen["scored"].examples
    folds = fold_of(examples, FOLDS, 0)
    fold = np.array([folds[each.group] for each in examples])
    cumulative, measured_here = np.zeros((len(examples), 4)), np.zeros(len(examples), bool)
    for number in range(FOLDS):
        trained = fold != number
        cumulative[~trained] = _levels(head_of(seen, trained), seen["scored"].features[~trained])
        known = {each.answer for each, held in zip(examples, trained, strict=True) if held}
        for at in np.flatnonzero(~trained):
            measured_here[at] = examples[at].source == "mediqa" and examples[at].answer not in known
    chosen = [each for each, held in zip(examples, measured_here, strict=True) if held]
    return agreement(chosen, cumulative[measured_here], seen["scored"].cosine[measured_here])


def validation_table(seen: dict[str, Seen]) -> dict[str, Any]:
    """MEDIQA's validation file."""
    held_out = seen["validation"]
    head = head_of(seen, np.ones(len(seen["scored"].examples), bool))
    return agreement(held_out.examples, _levels(head, held_out.features), held_out.cosine)


def claims_table(reader: Reader, material: Material) -> dict[str, Any]:
    """The held-out claims made by rule: the area under the curve of supported against the rest, by kind of change."""
    seen = features_of(reader, material, "claims-held")
    supported = np.array([example.verdict == 0 for example in seen.examples])
    kinds = np.array([example.source.split("/")[1] for example in seen.examples])
    groups = np.array([example.group for example in seen.examples])

    def row(chosen: np.ndarray) -> dict[str, Any]:
        return {
            "claims": int((chosen & ~supported).sum()),
            "auc": auc_interval(seen.verdicts[chosen, 0], supported[chosen], list(groups[chosen])),
            "auc of the untrained nearness": auc_interval(
                seen.nearness[chosen], supported[chosen], list(groups[chosen])
            ),
        }

    table = {"all": row(np.ones(len(kinds), bool))}
    for language in ("en", "zh"):
        table[language] = row(np.array([example.language == language for example in seen.examples]))
    for kind in sorted(set(kinds) - {"none"}):
        table[kind] = row((kinds == kind) | supported)
    return table


def write_judge(out: Path, reader: Reader, head: LevelHead, data: Path, examples: Sequence[Example]) -> None:
    """Writes the judge folder."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    reader.save(out, head)
    raw = {path.name: file_sha256(path) for path in sorted(data.glob("*/*")) if path.parent.name in SOURCES}
    # LiveQA's questions are MEDIQA's of the same number, and a converted LiveQA must be recognised.
    learnt = {example.group for example in examples}
    learnt |= {name.replace("mediqa-liveqamed-", "liveqa-") for name in learnt}
    card = JudgeCard(
        kind="reader",
        base_model=MULTILINGUAL_E5,
        max_length=MAX_LENGTH,
        windows=MOST_WINDOWS,
        vocabulary_sha256=vocabulary_sha256(load_tokenizer(MULTILINGUAL_E5)),
        trained_on=TrainedOn(files=raw, question_ids=sorted(learnt)),
        note=NOTE,
        only_languages=["en", "zh"],
        training={
            "languages": ["en", "zh"],
            "categories": ["CHQ"],
            "sources": ["experts (MEDIQA, LiveQA; English)", "rules (claims, graded and disturbed answers; en, zh)"],
            "answers": len(examples),
            "questions": len({example.group for example in examples}),
        },
    )
    card.write(out)
    write_readme(out, card)


def on_other_sets(folder: Path, data: Path, work: Path) -> dict[str, Any]:
    """What the finished judge does on Chinese files that nothing was trained on."""
    judge = load_judge(folder, "reader", torch.device("cpu"))
    sets: dict[str, Callable[[], dict[str, Any]]] = {
        "llmeval-2": lambda: llmeval2(judge, data, per_subject=60, seed=0),
        "llmeval-med": lambda: llmeval_med(judge, data, count=100, seed=0),
    }
    table = {}
    for name, measure in sets.items():
        kept = work / f"measured-{name}.json"
        if not kept.exists():
            kept.write_text(json.dumps(measure()))
        table[name] = json.loads(kept.read_text())
    return table


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python eval/reader_judge.py DATA WORK")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
