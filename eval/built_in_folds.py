"""Cross-validates the built-in judge over questions, with two seeds, and what each part of its making brings.

    python eval/built_in_folds.py WORK [VARIANT ...]

WORK is the folder of `eval/built_in.py`, after it. A run that is finished is not made again. The result is
eval/results/built-in.json.

Each run trains on four fifths of the questions of MEDIQA's two training files and judges the rest. What is measured is
what it says of answers whose text and whose question stand in none of its training lines; the sets share many. MEDIQA's
validation file gives the temperature, which changes no usable decision. Sixteen of the questions stand in MedQuAD, too,
with the answer given there.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from built_in_data import Ablation, folds, liveqa_lines, scored_lines, training_lines, unseen, write_lines
from scipy.stats import spearmanr
from study import REPOSITORY, record

from medjudge.agreement.pairs import Pairs, paired
from medjudge.agreement.parts import Estimate, measured
from medjudge.distill.training_set import TrainingLine
from medjudge.judge.protocol import median_level
from medjudge.records import Judgment, PhysicianScore
from medjudge.store import file_sha256

FOLDS, SEEDS = 5, (0, 1)
MEASURES = ("usable_agreement", "cohen_kappa", "quadratic_kappa", "spearman", "bias")
CONFIG = REPOSITORY / "configs" / "judges" / "built-in.yaml"


class Variant(NamedTuple):
    """One row of the table: what differs from the judge that is shipped."""

    what: Ablation = Ablation()
    options: tuple[str, ...] = ()
    intermediate: bool = True


FRESH = ("--model_name_or_path", "sentence-transformers/all-MiniLM-L6-v2", "--lora_r", "32", "--lora_alpha", "64")
VARIANTS = {
    "as shipped": Variant(),
    "without intermediate training": Variant(intermediate=False),
    "hard labels": Variant(Ablation(soft=False)),
    "squared error instead of ordinal loss": Variant(options=("--loss", "mse")),
    "without synthetic answers": Variant(Ablation(synthetic=0)),
    "without references": Variant(Ablation(references=False)),
    "without LiveQA and what is made from it": Variant(Ablation(liveqa=False, synthetic=0)),
    "256 tokens": Variant(options=("--max_length", "256")),
    "512 tokens": Variant(options=("--max_length", "512")),
    "full fine-tuning": Variant(options=("--full_fine_tuning", "true", "--learning_rate", "1e-4")),
}
SHIPPED = "as shipped"


class Job(NamedTuple):
    """One training run."""

    variant: str
    seed: int
    fold: int

    @property
    def name(self) -> str:
        return f"{self.variant.replace(' ', '-')}-seed{self.seed}-fold{self.fold}"


def run_job(job: Job, work: Path) -> None:
    """Trains one judge without a fold's questions and writes its probabilities for the fold and the validation file."""
    from medjudge.train.run import parse_arguments, train_judge

    variant, place = VARIANTS[job.variant], work / "folds" / job.name
    scored, liveqa = scored_lines(work / "mediqa"), liveqa_lines(work / "liveqa")
    validation = scored_lines(work / "mediqa-validation")
    of = folds(scored, FOLDS, seed=0)

    def kept(lines: Sequence[TrainingLine]) -> list[TrainingLine]:
        return [line for line in lines if of[line.question.group] != job.fold]

    write_lines(place / "train.jsonl", training_lines(kept(scored), kept(liveqa), variant.what, job.seed))
    write_lines(place / "validation.jsonl", validation)
    start = ("--start_from", str(work / "judges" / "minilm-intermediate")) if variant.intermediate else FRESH
    files = ("--train_file", f"{place}/train.jsonl", "--validation_file", f"{place}/validation.jsonl")
    config = [line for line in CONFIG.read_text().splitlines() if not line.startswith("start_from")]
    (place / "config.yaml").write_text("\n".join(config))
    out = ("--seed", str(job.seed), "--output_dir", str(place / "judge"), "--disable_tqdm", "true")
    train_judge(*parse_arguments(["--config", str(place / "config.yaml"), *files, *start, *out, *variant.options]))
    tested = [line for line in scored if of[line.question.group] == job.fold]
    result = {"fold": probabilities(place / "judge", tested), "validation": probabilities(place / "judge", validation)}
    (place / "probabilities.json").write_text(json.dumps(result))


def probabilities(judge: Path, lines: Sequence[TrainingLine]) -> dict[str, list[float]]:
    """What a judge says of answers, without their references: `question|model` -> level probabilities."""
    import torch

    from medjudge.judge.folder import load_judge
    from medjudge.judge.protocol import Assignment

    work = [Assignment(line.question, tuple(line.earlier), line.answer) for line in lines]
    made = load_judge(judge, "built-in", torch.device("cpu")).judge(work)
    return {f"{one.question_id}|{one.model}": one.probabilities for one in made if one.probabilities}


def pairs_of(lines: Sequence[TrainingLine], found: dict[str, list[float]]) -> Pairs:
    """The answers with their experts' level and the judge's probabilities."""
    judgments, scores = [], []
    for line in lines:
        row = found.get(f"{line.question.id}|{line.answer.model}")
        if row is None:
            continue
        asked, model = line.question.id, line.answer.model
        level = median_level(np.array(row))
        expected = float(np.dot(row, np.arange(1, 6)))
        judgments.append(
            Judgment(
                question_id=asked, model=model, judge="built-in", score=level, expected=expected, probabilities=row
            )
        )
        scores.append(PhysicianScore(question_id=asked, model=model, rater=line.scored_by[0], score=line.level))
    return paired([line.question for line in lines], judgments, scores)


def within_questions(pairs: Pairs) -> float:
    """Spearman's correlation within each question whose answers differ in level, averaged over the questions."""
    found = []
    for question in np.unique(pairs.question_id):
        rows = pairs.question_id == question
        if len(set(pairs.physician[rows])) > 1 and len(set(pairs.expected[rows])) > 1:
            found.append(float(spearmanr(pairs.expected[rows], pairs.physician[rows])[0]))
    return float(np.mean(found))


def intervals(pairs: Pairs) -> dict[str, Estimate]:
    """The measures of the table, with 95 % intervals from 2,000 resamples of the questions."""
    found = measured(pairs, resamples=2000)
    within: Estimate = {"value": round(within_questions(pairs), 4), "low": None, "high": None}
    return {**{name: found[name] for name in MEASURES}, "spearman_within_questions": within}


def summary(jobs: Sequence[Job], work: Path) -> dict[str, Any]:
    """One row of the table: mean and spread over the runs, and all folds of a seed together with intervals."""
    scored, liveqa = scored_lines(work / "mediqa"), liveqa_lines(work / "liveqa")
    validation = unseen(scored_lines(work / "mediqa-validation"), [*scored, *liveqa])
    of = folds(scored, FOLDS, seed=0)
    tested = {fold: unseen(*divided(scored, liveqa, of, fold)) for fold in range(FOLDS)}
    per_run, on_validation = [], []
    by_seed: dict[int, dict[str, list[float]]] = {}
    for job in jobs:
        found = json.loads((work / "folds" / job.name / "probabilities.json").read_text())
        per_run.append(intervals(pairs_of(tested[job.fold], found["fold"])))
        by_seed.setdefault(job.seed, {}).update(found["fold"])
        on_validation.append(intervals(pairs_of(validation, found["validation"])))
    all_tested = [line for fold in range(FOLDS) for line in tested[fold]]
    return {
        "runs": len(jobs),
        "answers": {"folds": len(all_tested), "validation_file": len(validation)},
        "folds": spread(per_run),
        "validation_file": spread(on_validation),
        "seed 0, all folds together": intervals(pairs_of(all_tested, by_seed[0])),
        "per_run": [{"fold": job.fold, "seed": job.seed, **run} for job, run in zip(jobs, per_run, strict=True)],
    }


def divided(
    scored: Sequence[TrainingLine], liveqa: Sequence[TrainingLine], of: dict[str, int], fold: int
) -> tuple[list[TrainingLine], list[TrainingLine]]:
    """The lines of a fold, and those that its judge is trained on."""
    return (
        [line for line in scored if of[line.question.group] == fold],
        [line for line in (*scored, *liveqa) if of[line.question.group] != fold],
    )


def spread(runs: Sequence[dict[str, Estimate]]) -> dict[str, dict[str, float]]:
    """Mean and standard deviation over runs, by measure."""
    values = {name: [float(run[name]["value"] or 0) for run in runs] for name in runs[0]}
    return {
        name: {"mean": round(mean(each), 4), "sd": round(stdev(each), 4) if len(each) > 1 else 0.0}
        for name, each in values.items()
    }


def shipped_jobs() -> list[Job]:
    """The runs whose judges are averaged into the one that is shipped."""
    return [Job(SHIPPED, seed, fold) for seed in SEEDS for fold in range(FOLDS)]


def origin_of(job: Job, work: Path) -> str:
    """The sha256 of what a run is made from, so that none is taken for another one after a change."""
    files = [CONFIG, work / "judges" / "minilm-intermediate" / "adapter_model.safetensors"]
    files += [work / folder / "physician_scores.jsonl" for folder in ("mediqa", "mediqa-validation", "liveqa")]
    parts = [repr((job, VARIANTS[job.variant])), *map(file_sha256, files)]
    return sha256("".join(parts).encode()).hexdigest()


def run_jobs(jobs: Sequence[Job], work: Path) -> None:
    """Runs what is not there yet, two at a time, each in a process of its own."""
    threads = max(1, (os.cpu_count() or 2) // 2)

    def start(job: Job) -> None:
        place, origin = work / "folds" / job.name, origin_of(job, work)
        finished = (place / "probabilities.json").exists() and (place / "origin.txt").exists()
        if finished and (place / "origin.txt").read_text() == origin:
            return
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        (place / "origin.txt").write_text(origin)
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, __file__, str(work), "--one", job.variant, str(job.seed), str(job.fold)]
        with (place / "log.txt").open("w") as log:
            subprocess.run(command, env=environment, stdout=log, stderr=log, check=True)
        print(f"done: {job.name}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(start, jobs))


def main(work: Path, names: Sequence[str]) -> None:
    """Runs variants and writes the table."""
    if unknown := set(names) - set(VARIANTS):
        sys.exit(f"no variant {', '.join(sorted(unknown))}; there are {', '.join(VARIANTS)}")
    others = [Job(name, 0, fold) for fold in range(FOLDS) for name in names if name != SHIPPED]
    jobs = [*(shipped_jobs() if SHIPPED in names else []), *others]
    run_jobs(jobs, work)
    table = {name: summary([job for job in jobs if job.variant == name], work) for name in names}
    named = "".join(f' "{name}"' for name in names) if len(names) < len(VARIANTS) else ""
    record("built-in", {"command": f"python eval/built_in_folds.py WORK{named}", "table": table})


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python eval/built_in_folds.py WORK [VARIANT ...]")
    if sys.argv[2:3] == ["--one"]:
        run_job(Job(sys.argv[3], int(sys.argv[4]), int(sys.argv[5])), Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]).resolve(), sys.argv[2:] or list(VARIANTS))
