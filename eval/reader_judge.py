"""Makes the built-in judge, of kind `reader`, in WORK/judges/built-in: stages of `eval/built_in.py`.

The reader learns from matching, claims made by rule, graded and disturbed answers, then from HealthVer and from answers
in their own words too; its alarm learns last. The point reader and the reader of single sentences, each an adapter on
the encoder, learn apart (`reader_points.py`; `reader_dangers.py`, `reader_asides.py`). Experts' scores fit only the
weights of the level head and, with claims and contrasts, the 21 weights of the verdicts. `reader_rows.py` measures it.
WORK keeps every finished stage: token states (about 17 GB), the evidence, the readers. Nothing in it is made twice, and
its files are not named by their settings: after a change, delete what depends on it.
"""

import pickle
import shutil
from collections.abc import Collection, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple

import numpy as np
from reader_alarms import alarming
from reader_asides import with_asides
from reader_claims import CHINESE_CLAIMS, ENGLISH_CLAIMS, claims, split, thinned, unlearned
from reader_contrasts import HELD_OUT, contrasts, subjects
from reader_dangers import make_detector
from reader_examples import (
    Example,
    chinese_pairs,
    distinct_texts,
    disturbed,
    graded,
    healthver,
    level_of,
    matching,
    measured,
    medquad,
    mined,
    of_claim,
    scored,
    verbatim,
)
from reader_features import Readers, Seen, features_of
from reader_heads import AUXILIARY, fitted_shift, head_of, levels_by, shifted, usable_of
from reader_lessons import Material, evidence_for
from reader_parallel import huatuo_parallels, medquad_parallels, parallel
from reader_records import records
from reader_states import MAX_LENGTH, MOST_WINDOWS, StateStore, encoder
from reader_tables import usable_answers_with_references, usable_auxiliary_answers, usable_training_answers
from reader_training import alarmed
from reader_verdicts import weighted, write
from reader_words import in_company, other_words

from medjudge.files import file_sha256
from medjudge.judge.card import write_readme
from medjudge.judge.folder import SECOND_FOLDER, JudgeCard, TrainedOn, read_card
from medjudge.judge.level_head import LevelHead
from medjudge.judge.point_reader import PointReader
from medjudge.judge.reader import Reader
from medjudge.judge.states import FrozenEncoder, vocabulary_sha256
from medjudge.models.loading import load_tokenizer
from medjudge.models.packaged import MULTILINGUAL_E5
from medjudge.scale import USABLE_FROM

FACTS_TAUGHT, FACTS_MEASURED = {"en": 700, "zh": 400}, {"en": 240, "zh": 110}
"""The most facts of each kind by language: encoding takes most of the time that claims cost."""
VERBATIM_CLAIMS, MINED_CLAIMS = 600, 1_200
TEXTS = (
    "scored",
    "validation",
    "healthver",
    "matching",
    "graded",
    "disturbed",
    "parallel",
    "alarms",
    "words",
    "contrasts",
    "contrasts-held",
    "records",
)
PARALLELS, ALARMED_PAIRS, ADVICE_LISTS = 400, 900, 1_200
"""Parallel answers of a language, pairs of a question and its answer that the alarm learns from, lists of advice."""
CLAIMS = ("claims", "claims-held")
WRITTEN = {"scored", "validation", "healthver", "words", "contrasts", "contrasts-held", "records"}
"""Those of `TEXTS` that no rule derives from other texts."""
_LONGEST_ANSWER = 2500
"""In characters, of the pairs that matching and grading take."""
SOURCES = ("mediqa2019-qa", "liveqa-med", "medquad", "healthver", "toyhom-internal", "huatuo-knowledge")
NOTE = (
    "The judge that comes with medjudge. It reads question, reference, checklist and answer, in English and Chinese, "
    "and says for each point whether the answer meets it, leaves it open or contradicts it. It learned from no scores "
    "of Chinese answers and knows little medicine beyond what the reference says. If the reference is the key of an "
    "objective question, it checks whether the answer states the key. It overlooks most wrong facts in other words. "
    "One adapter on the encoder's upper layers gives the verdicts on points. Another reads single sentences: it leaves "
    "out greetings, filler and what is said to the judge, and it detects dangerous advice, but misses much. For "
    "English answers it also weighs the opinion of the ordinal judge in its folder `second`."
)


class Made(NamedTuple):
    """What `make` has made.

    Attributes:
        reader: Compares whole texts.
        points: Gives the verdicts on points.
        seen: What both see of the sources that the level head is fitted to or measured on.
        head: The level head without its shifts.
        material: All examples.
        folder: Of the finished judge.
    """

    reader: Reader
    points: PointReader
    seen: dict[str, Seen]
    head: LevelHead
    material: Material
    folder: Path


def make(data: Path, work: Path, out: Path) -> Made:
    """Runs the stages that are not finished yet, and writes the judge."""
    prepare(data, work)
    material = Material(work)
    points = weighted(work, material)
    reader = alarmed(work, material)
    make_detector(data, work / "judges" / "dangers")
    with_asides(data, work / "judges" / "dangers", work / "judges" / "sentences")
    readers = Readers(reader, points)
    seen = {source: features_of(readers, material, source) for source in ("scored", "validation", *AUXILIARY)}
    seen["scored-alone"] = features_of(readers, material, "scored", references=False)
    head = head_of(seen, np.ones(len(seen["scored"].examples), bool))
    write_judge(out, work, reader, points, shifted_head(head, seen, material), data, seen["scored"].examples)
    return Made(reader, points, seen, head, material, out)


def shifted_head(head: LevelHead, seen: dict[str, Seen], material: Material) -> LevelHead:
    """The head with the shifts of its rows.

    Those of the rows with points come from the parallel and the graded answers and, where a second opinion is heard,
    from LiveQA's; the usable ones together count as many as the others: nobody knows how many answers of the models to
    be judged are usable.
    """
    for row, second in ((0, False), (2, True)):
        usable = usable_training_answers(seen, material, second)
        validation = usable_of(seen["validation"], levels_by(head, seen["validation"], second))
        head = shifted(head, row, fitted_shift([usable, validation]))
    for row, second in ((1, False), (3, True)):
        sets = usable_auxiliary_answers(head, seen, second)
        if second:
            sets.append(usable_answers_with_references(seen, material))
        head = shifted(head, row, fitted_shift(sets, [1.0] * len(sets), balanced=True))
    return head


def prepare(data: Path, work: Path, sources: Collection[str] = (*TEXTS, *CLAIMS)) -> None:
    """Writes the evidence of every source where it is not there yet."""
    missing = {source for source in sources if not (work / f"evidence-{source}.pickle").exists()}
    if not missing:
        return
    frozen = encoder()
    if texts := missing & set(TEXTS):
        store = StateStore(work / "states")
        written = as_written(data, work)
        for source, examples in (written if texts <= WRITTEN else written | made_by_rule(data)).items():
            if source in missing:
                write_evidence(work, source, examples, store, frozen)
    if missing & set(CLAIMS):
        prepare_claims(data, work, frozen, missing)


def prepare_claims(data: Path, work: Path, frozen: FrozenEncoder, missing: Collection[str]) -> None:
    """Writes the evidence of the claims made by rule."""
    store = StateStore(work / "states-claims")
    parts = split(claims(data, ENGLISH_CLAIMS, CHINESE_CLAIMS, 0))
    if "claims" in missing:
        train = list(map(of_claim, thinned(parts.train, FACTS_TAUGHT, 0)))
        train += verbatim(train, VERBATIM_CLAIMS, 0)
        store.add(distinct_texts(train), frozen)
        train += mined(train, lambda text: store[text].whole, MINED_CLAIMS, 0)
        write_evidence(work, "claims", train, store, frozen)
    if "claims-held" in missing:
        held = list(map(of_claim, thinned(unlearned(parts.held_out), FACTS_MEASURED, 0)))
        write_evidence(work, "claims-held", held, store, frozen)


def as_written(data: Path, work: Path) -> dict[str, list[Example]]:
    """The examples of each of `WRITTEN`."""
    words, written = other_words(), subjects()
    return {
        "scored": scored(work),
        "validation": measured(work),
        "healthver": healthver(data),
        "words": words + in_company(words, 0),
        "contrasts": contrasts([each for each in written if each.author not in HELD_OUT], 0),
        "contrasts-held": contrasts([each for each in written if each.author in HELD_OUT], 0),
        "records": records(),
    }


def made_by_rule(data: Path) -> dict[str, list[Example]]:
    """The examples of the other `TEXTS`."""
    short = [pair for pair in medquad(data) if len(pair.answer) <= _LONGEST_ANSWER]
    chinese = chinese_pairs(data)
    huatuo = [pair for pair in chinese if pair.topic == "huatuo"]
    toyhom = [pair for pair in chinese if pair.topic == "toyhom" and len(pair.answer) > 100]
    sources = {
        "matching": matching(short, 2400, 0) + matching(chinese, 3600, 0),
        "graded": graded(short, 900, 0) + graded(huatuo, 600, 1) + graded(toyhom, 300, 2),
    }
    usable = [each for name in ("graded", "matching") for each in sources[name] if level_of(each) >= USABLE_FROM]
    Random(1).shuffle(usable)
    sources["disturbed"] = disturbed(usable[:900], 0)
    sources["parallel"] = parallel(medquad_parallels(data)[:PARALLELS], 0)
    sources["parallel"] += parallel(huatuo_parallels(data)[:PARALLELS], 1)
    good = [each for each in sources["parallel"] if each.source == "parallel-good" and each.reference]
    matched = [each for each in sources["matching"] if level_of(each) >= USABLE_FROM]
    Random(0).shuffle(matched)
    return sources | {"alarms": alarming(good + matched[:ALARMED_PAIRS], ADVICE_LISTS, 0)}


def write_evidence(
    work: Path, source: str, examples: Sequence[Example], store: StateStore, frozen: FrozenEncoder
) -> None:
    """Encodes the texts of a source and writes the evidence of its examples; an example without a point is left out."""
    store.add(distinct_texts(examples), frozen)
    pairs = [(tuple(example), evidence_for(example, store)) for example in examples if example.answer]
    with (work / f"evidence-{source}.pickle").open("wb") as file:
        pickle.dump([pair for pair in pairs if pair[1]], file)


def own_texts() -> list[Path]:
    """The files written for this project that a part of the judge has learned from.

    Of the contrasts by the two authors of `HELD_OUT`, one subject in five fits the weights of the verdicts.
    """
    folder = Path(__file__).parent
    measured_alone = {"reader_dangers_unseen.yaml", "reader_dangers_later.yaml"}
    return [
        *(path for path in sorted(folder.glob("reader_*.yaml")) if path.name not in measured_alone),
        *sorted((folder / "reader_contrasts").glob("*.jsonl")),
    ]


def write_judge(
    out: Path, work: Path, reader: Reader, points: PointReader, head: LevelHead, data: Path, examples: Sequence[Example]
) -> None:
    """Writes the judge folder: the reader of sentences, the reader of points, and the second judge inside."""
    second = work / "judges" / "second"
    shutil.rmtree(out, ignore_errors=True)
    shutil.copytree(work / "judges" / "sentences", out)
    write(work / "readers" / "points", points, out)
    shutil.copytree(second, out / SECOND_FOLDER)
    reader.save(out, head)
    raw = [path for path in sorted(data.glob("*/*")) if path.parent.name in SOURCES]
    # LiveQA's questions are MEDIQA's of the same number, and a converted LiveQA must be recognised.
    learnt = {example.group for example in examples} | set(read_card(second).trained_on.question_ids)
    learnt |= {name.replace("mediqa-liveqamed-", "liveqa-") for name in learnt}
    tuned = read_card(second).trained_on.tuned_question_ids
    card = JudgeCard(
        kind="reader",
        base_model=MULTILINGUAL_E5,
        max_length=MAX_LENGTH,
        windows=MOST_WINDOWS,
        vocabulary_sha256=vocabulary_sha256(load_tokenizer(MULTILINGUAL_E5)),
        trained_on=TrainedOn(
            files={path.name: file_sha256(path) for path in [*raw, *own_texts()]},
            question_ids=sorted(learnt),
            tuned_question_ids=sorted(tuned),
        ),
        note=NOTE,
        only_languages=["en", "zh"],
        training={
            "languages": ["en", "zh"],
            "categories": ["CHQ"],
            "sources": [
                "experts (MEDIQA, LiveQA; English)",
                "rules (claims, graded, parallel and disturbed answers; en, zh)",
                "texts written for this project (contrasts, points in other words, records, advice, asides; en, zh)",
            ],
            "answers": len(examples),
            "questions": len({example.group for example in examples}),
        },
    )
    card.write(out)
    write_readme(out, card)
