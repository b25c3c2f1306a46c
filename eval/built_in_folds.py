"""Cross-validates the built-in judge over questions, with three seeds, and what each part of its making brings.

    python eval/built_in_folds.py WORK

WORK is the folder of `eval/built_in.py`, after it. A run that is finished is not made again. The result is
eval/results/built-in.json.

Each run trains on four fifths of the questions of MEDIQA's two training files and judges the rest. MEDIQA's validation
file chooses the checkpoint and the temperature, so figures on it are a little too good; those on the folds are not.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import numpy as np
from built_in_data import Ablation, folds, liveqa_lines, scored_lines, training_lines, write_lines
from scipy.stats import spearmanr
from study import REPOSITORY, record

from medjudge.agreement.pairs import Pairs, paired
from medjudge.agreement.parts import Estimate, measured
from medjudge.distill.training_set import TrainingLine
from medjudge.judge.protocol import median_level
from medjudge.records import Judgment, PhysicianScore

FOLDS, SEEDS = 5, (0, 1, 2)
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
    "without LiveQA": Variant(Ablation(liveqa=False, synthetic=0)),
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
    scored, validation = scored_lines(work / "mediqa"), scored_lines(work / "mediqa-validation")
    per_run, on_validation = [], []
    by_seed: dict[int, dict[str, list[float]]] = {}
    for job in jobs:
        found = json.loads((work / "folds" / job.name / "probabilities.json").read_text())
        per_run.append(intervals(pairs_of(scored, found["fold"])))
        by_seed.setdefault(job.seed, {}).update(found["fold"])
        on_validation.append(intervals(pairs_of(validation, found["validation"])))
    return {
        "runs": len(jobs),
        "folds": spread(per_run),
        "validation_file": spread(on_validation),
        "seed 0, all folds together": intervals(pairs_of(scored, by_seed[0])),
        "per_run": [{"fold": job.fold, "seed": job.seed, **run} for job, run in zip(jobs, per_run, strict=True)],
    }


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


def run_jobs(jobs: Sequence[Job], work: Path) -> None:
    """Runs what is not there yet, two at a time, each in a process of its own."""
    threads = max(1, (os.cpu_count() or 2) // 2)

    def start(job: Job) -> None:
        place = work / "folds" / job.name
        if (place / "probabilities.json").exists():
            return
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, __file__, str(work), job.variant, str(job.seed), str(job.fold)]
        with (place / "log.txt").open("w") as log:
            subprocess.run(command, env=environment, stdout=log, stderr=log, check=True)
        print(f"done: {job.name}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(start, jobs))


def main(work: Path) -> None:
    """Runs all variants and writes the table."""
    others = [Job(name, 0, fold) for fold in range(FOLDS) for name in VARIANTS if name != SHIPPED]
    jobs = [*shipped_jobs(), *others]
    run_jobs(jobs, work)
    table = {name: summary([job for job in jobs if job.variant == name], work) for name in VARIANTS}
    record("built-in", {"command": "python eval/built_in_folds.py WORK", "table": table})


if __name__ == "__main__":
    if len(sys.argv) == 5:
        run_job(Job(sys.argv[2], int(sys.argv[3]), int(sys.argv[4])), Path(sys.argv[1]))
    elif len(sys.argv) == 2:
        main(Path(sys.argv[1]).resolve())
    else:
        sys.exit("usage: python eval/built_in_folds.py WORK")
