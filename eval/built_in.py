"""Makes the built-in judge from DATA, measures it, and writes it into the package.

    python eval/built_in.py DATA WORK

DATA holds mediqa2019-qa/, liveqa-med/, medquad/, healthver/, toyhom-internal/, huatuo-knowledge/ and, for measuring
only, llmeval-2/ and llmeval-med/. WORK keeps every finished stage: converted records, token states (about 10 GB), the
evidence, the readers. Nothing in it is made twice.

A base learns from matching, claims made by rule, graded and disturbed answers. For each fifth of MEDIQA's questions and
HealthVer's claims a reader goes on from the base with the other four fifths; it is measured on its fifth. Their mean is
shipped (Wortsman et al., 2022); a shift of the cut points and a temperature are fitted on what the five said of the
answers that they had not seen. The table is `eval/results/built-in.json`.
"""

import json
import pickle
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np
import torch
from built_in_claims import claims, split
from built_in_data import scored_lines
from built_in_examples import (
    Example,
    chinese_pairs,
    distinct_texts,
    disturbed,
    graded,
    healthver,
    matching,
    measured,
    medquad,
    of_claim,
    scored,
)
from built_in_lessons import FOLDS, Material, evidence_for
from built_in_measures import auc_interval, interval, llmeval2, llmeval_med, probes
from built_in_states import MAX_LENGTH, MOST_WINDOWS, StateStore, encoder
from built_in_training import SCORED, base, fold_reader
from safetensors.torch import load_file, save_file
from scipy.optimize import minimize
from scipy.stats import spearmanr
from sklearn.metrics import cohen_kappa_score, f1_score
from study import REPOSITORY, Study

from medjudge.files import file_sha256
from medjudge.judge.card import write_readme
from medjudge.judge.evidence import nearness
from medjudge.judge.folder import JudgeCard, TrainedOn, load_judge
from medjudge.judge.open import built_in_folder
from medjudge.judge.ordinal import probabilities
from medjudge.judge.reader import READER_FILE, Reader, collate
from medjudge.judge.states import vocabulary_sha256
from medjudge.models.loading import load_tokenizer
from medjudge.models.multilingual_e5 import MULTILINGUAL_E5
from medjudge.scale import USABLE_FROM, median_level
from medjudge.train.reader import Lesson

SEEDS = (0,)
ENGLISH_CLAIMS, CHINESE_CLAIMS = 16_000, 8_000
_LONGEST_ANSWER = 2500
"""In characters, of the pairs that matching and grading take."""
_BATCH = 48
SOURCES = ("mediqa2019-qa", "liveqa-med", "medquad", "healthver", "toyhom-internal", "huatuo-knowledge")
NOTE = (
    "The judge that comes with medjudge. It reads question, reference, checklist and answer, in English and Chinese, "
    "and says of each point whether the answer meets it, leaves it open or contradicts it. No physician's scores of "
    "Chinese answers are among what it learned from. It knows no medicine beyond what stands in the reference."
)


def main(data: Path, work: Path) -> None:
    """Runs the stages that are not finished yet, from the data to the judge folder and the table."""
    study = Study(work, DATA=data.resolve(), MEDJUDGE=REPOSITORY)
    convert(study)
    prepare(data, work)
    material = Material(work)
    base(work, material)
    for fold in range(FOLDS):
        for seed in SEEDS:
            fold_reader(work, material, fold, seed)
    out = work / "judge" / "built-in"
    held_out = held_out_answers(work, material)
    write_judge(out, work, data, held_out)
    table = {"folds": folds_table(held_out), **claims_table(work, material), **measures(out, data, work)}
    study.write("built-in", table)
    shutil.rmtree(built_in_folder(), ignore_errors=True)
    shutil.copytree(out, built_in_folder())


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
    if all(
        (work / f"evidence-{source}.pickle").exists() for source in ("scored", "disturbed", "claims", "claims-held")
    ):
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
    usable = [each for each in sources["graded"] if _likeliest(each) >= USABLE_FROM]
    usable += [each for each in sources["matching"] if _likeliest(each) >= USABLE_FROM]
    Random(1).shuffle(usable)
    sources["disturbed"] = disturbed(usable[:900], 0)
    parts = split(claims(data, ENGLISH_CLAIMS, CHINESE_CLAIMS, 0))
    sources |= {"claims": list(map(of_claim, parts.train)), "claims-held": list(map(of_claim, parts.held_out))}
    reader = encoder()
    for source, examples in sources.items():
        store = StateStore(work / ("states-claims" if source.startswith("claims") else "states"))
        store.add(distinct_texts(examples), reader)
        pairs = [(tuple(example), evidence_for(example, store)) for example in examples if example.answer]
        with (work / f"evidence-{source}.pickle").open("wb") as file:
            pickle.dump([pair for pair in pairs if pair[1]], file)


def _likeliest(example: Example) -> int:
    return 0 if example.label is None else int(np.argmax(example.label)) + 1


class Said(NamedTuple):
    """What a reader says of answers or claims it has not seen.

    Attributes:
        examples: Shape (n,).
        cumulative: Logits of levels, (n, 4).
        verdicts: Logits of the verdict on the first point, (n, 3).
        nearness: The untrained baseline: the mean nearness of all points, (n,).
        cosine: The untrained cosine of question and answer, (n,).
    """

    examples: list[Example]
    cumulative: np.ndarray
    verdicts: np.ndarray
    nearness: np.ndarray
    cosine: np.ndarray


def said_of(reader: Reader, pairs: Sequence[tuple[Example, Lesson]]) -> Said:
    """Lets a reader read examples."""
    cumulative, verdicts = [], []
    with torch.inference_mode():
        for start in range(0, len(pairs), _BATCH):
            batch = collate([lesson.reading for _, lesson in pairs[start : start + _BATCH]])
            output = reader(batch)
            owners = batch.owner.numpy()
            cumulative.append(output.cumulative.numpy())
            verdicts.append(
                output.verdicts.numpy()[[int(np.flatnonzero(owners == row)[0]) for row in np.unique(owners)]]
            )
    readings = [lesson.reading for _, lesson in pairs]
    return Said(
        [example for example, _ in pairs],
        np.concatenate(cumulative),
        np.concatenate(verdicts),
        np.array([np.mean([nearness(piece) for piece in reading.evidence]) for reading in readings]),
        np.array([0.0 if r.parts[0] is None else float(r.parts[0].whole @ r.answer.whole) for r in readings]),
    )


class HeldOut(NamedTuple):
    """What the fold readers say of MEDIQA's answers and HealthVer's claims that they have not seen."""

    mediqa: list[Said]
    healthver: list[Said]


def held_out_answers(work: Path, material: Material) -> HeldOut:
    """By fold and seed. An answer that stands word for word in the training of its fold is left out."""
    mediqa, healthver_said = [], []
    for fold in range(FOLDS):
        scored_pairs = material.fold("scored", fold)
        mine = {example.answer for example, _ in scored_pairs}
        others = {
            example.answer for other in range(FOLDS) if other != fold for example, _ in material.fold("scored", other)
        }
        unseen = [pair for pair in scored_pairs if pair[0].source == "mediqa" and pair[0].answer in mine - others]
        for seed in SEEDS:
            reader = fold_reader(work, material, fold, seed)
            mediqa.append(said_of(reader, unseen))
            healthver_said.append(said_of(reader, material.fold("healthver", fold)))
    return HeldOut(mediqa, healthver_said)


def levels_of(examples: Sequence[Example]) -> np.ndarray:
    """The experts' levels, (n,)."""
    return np.array([_likeliest(example) for example in examples])


def fitted_shift_and_temperature(held_out: HeldOut) -> tuple[float, float]:
    """The shift of the cut points and the temperature with the least ordinal loss on held-out answers.

    They bring the mean of the readers, which is more careful than each of them, back to the experts' scale.
    """
    logits = np.concatenate([said.cumulative for said in held_out.mediqa])
    above = np.concatenate([levels_of(said.examples) for said in held_out.mediqa])[:, None] > np.arange(1, 5)

    def loss(parameters: np.ndarray) -> float:
        scaled = (logits + parameters[0]) / np.exp(parameters[1])
        return float(np.logaddexp(0, np.where(above, -scaled, scaled)).mean())

    shift, scale = minimize(loss, np.zeros(2), method="Nelder-Mead").x
    return float(shift), float(np.exp(scale))


def write_judge(out: Path, work: Path, data: Path, held_out: HeldOut) -> None:
    """Writes the mean of the fold readers as a judge folder."""
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    members = [work / "readers" / f"base-fold-{fold}-seed-{seed}" for fold in range(FOLDS) for seed in SEEDS]
    weights = [load_file(member / READER_FILE) for member in members]
    mean = {name: torch.stack([each[name].float() for each in weights]).mean(dim=0) for name in weights[0]}
    shift, temperature = fitted_shift_and_temperature(held_out)
    mean["first_cut"] = mean["first_cut"] - shift
    save_file({name: value.half().contiguous() for name, value in mean.items()}, out / READER_FILE)
    examples = [example for example, _ in Material(work).examples("scored")]
    raw = {path.name: file_sha256(path) for path in sorted(data.glob("*/*")) if path.parent.name in SOURCES}
    # LiveQA's questions are MEDIQA's of the same number, and a converted LiveQA must be recognised.
    learnt = {example.group for example in examples}
    learnt |= {name.replace("mediqa-liveqamed-", "liveqa-") for name in learnt}
    card = JudgeCard(
        kind="reader",
        base_model=MULTILINGUAL_E5,
        max_length=MAX_LENGTH,
        windows=MOST_WINDOWS,
        temperature=round(temperature, 4),
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
            "mean_of": f"{len(members)} readers: {FOLDS} folds of the questions, each left out once",
            "steps": SCORED.steps,
            "shift": round(shift, 4),
        },
    )
    card.write(out)
    write_readme(out, card)


def agreement(said: Sequence[Said], temperature: float = 1.0, shift: float = 0.0) -> dict[str, Any]:
    """Agreement of median levels with the experts', with intervals over questions, and the untrained baselines."""
    examples = [example for each in said for example in each.examples]
    logits = torch.tensor(np.concatenate([each.cumulative for each in said]) + shift)
    rows = probabilities(logits, temperature).numpy()
    level, groups = levels_of(examples), [example.group for example in examples]
    judged = np.array([median_level(row) for row in rows])
    expected = rows @ np.arange(1, 6)
    usable, called = level >= USABLE_FROM, judged >= USABLE_FROM
    cosine = np.concatenate([each.cosine for each in said])
    return {
        "answers": len(level),
        "usable_agreement": interval(level, groups, lambda at: (usable == called)[at].mean()),
        "cohen_kappa": interval(level, groups, lambda at: cohen_kappa_score(usable[at], called[at])),
        "spearman": interval(level, groups, lambda at: spearmanr(expected[at], level[at])[0]),
        "bias": interval(level, groups, lambda at: (judged - level)[at].mean()),
        "untrained cosine of question and answer: spearman": interval(
            level, groups, lambda at: spearmanr(cosine[at], level[at])[0]
        ),
    }


def folds_table(held_out: HeldOut) -> dict[str, Any]:
    """MEDIQA and HealthVer by fold readers; MEDIQA with the shift and temperature that the other folds give."""
    rows = []
    for at, said in enumerate(held_out.mediqa):
        others = HeldOut([each for other, each in enumerate(held_out.mediqa) if other != at], [])
        shift, temperature = fitted_shift_and_temperature(others)
        rows.append(said._replace(cumulative=(said.cumulative + shift) / temperature))
    verdicts = np.concatenate([said.verdicts for said in held_out.healthver]).argmax(axis=1)
    examples = [example for said in held_out.healthver for example in said.examples]
    truth, groups = np.array([example.verdict for example in examples]), [example.group for example in examples]
    return {
        "mediqa": agreement(rows),
        "healthver": {
            "claims": len(truth),
            "macro_f1": interval(truth, groups, lambda at: f1_score(truth[at], verdicts[at], average="macro")),
        },
    }


def claims_table(work: Path, material: Material) -> dict[str, Any]:
    """The held-out claims made by rule: the area under the curve of supported against the rest, by kind of change."""
    reader = base(work, material)
    pairs = [
        (example, material.lesson("claims-held", example, evidence))
        for example, evidence in material.examples("claims-held")
    ]
    said = said_of(reader, pairs)
    scores = torch.softmax(torch.tensor(said.verdicts), dim=1).numpy()[:, 0]
    supported = np.array([example.verdict == 0 for example in said.examples])
    kinds = np.array([example.source.split("/")[1] for example in said.examples])
    groups = np.array([example.group for example in said.examples])

    def rows(chosen: np.ndarray) -> dict[str, Any]:
        return {
            "claims": int(chosen.sum() if chosen.all() else (chosen & ~supported).sum()),
            "auc": auc_interval(scores[chosen], supported[chosen], list(groups[chosen])),
            "untrained nearness: auc": auc_interval(said.nearness[chosen], supported[chosen], list(groups[chosen])),
        }

    table = {"all": rows(np.ones(len(kinds), bool))}
    for language in ("en", "zh"):
        table[language] = rows(np.array([example.language == language for example in said.examples]))
    for kind in sorted(set(kinds) - {"none"}):
        table[kind] = rows((kinds == kind) | supported)
    return {"rule claims": table}


def measures(folder: Path, data: Path, work: Path) -> dict[str, Any]:
    """What the finished judge does on files that nothing was trained on."""
    judge = load_judge(folder, "built-in", torch.device("cpu"))
    material = Material(work)
    reader = Reader.load(folder, material.words)
    pairs = [
        (example, material.lesson("validation", example, evidence))
        for example, evidence in material.examples("validation")
    ]
    temperature = json.loads((folder / "judge.json").read_text())["temperature"]
    table = {"validation": agreement([said_of(reader, pairs)], temperature)}
    table["llmeval-2"] = llmeval2(judge, data, per_subject=100, seed=0)
    table["llmeval-med"] = llmeval_med(judge, data, count=120, seed=0)
    table["probes"] = probes(judge, scored_lines(work / "mediqa-validation"))
    return table


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python eval/built_in.py DATA WORK")
    main(Path(sys.argv[1]), Path(sys.argv[2]))
