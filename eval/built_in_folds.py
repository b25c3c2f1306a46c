"""Cross-validates the ordinal judge inside the built-in one, with three seeds, and measures what its parts bring.

    python eval/built_in_folds.py WORK [VARIANT ...]

WORK is the folder of `eval/built_in.py`, after it has run. A finished run is not repeated. The result is
eval/results/second-opinion.json, with one lesson for each variant.

Each run trains on four fifths of the questions of MEDIQA's two training files and judges the rest. Only answers count
whose text and question are in none of its training lines; the sets share many. MEDIQA's validation file gives the
temperature, which changes no usable decision.
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
from typing import Any, NamedTuple

import yaml
from built_in_data import (
    Ablation,
    folds,
    from_systems,
    read_sets,
    training_lines,
    without_references,
    write_lines,
)
from built_in_table import (
    ABLATED,
    FOLDS,
    Job,
    against_shipped,
    all_folds,
    compared,
    lesson,
    markdown,
    measured_on,
    summary,
)
from study import REPOSITORY, record

from medjudge.files import file_sha256, write_json
from medjudge.records import TrainingLine

SEEDS = (0, 1, 2)
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
    "Alexa questions as messages": Variant(Ablation(messages=True)),
    "without references": Variant(Ablation(references=False)),
    "without LiveQA and what is made from it": Variant(Ablation(liveqa=False, synthetic=0)),
    "256 tokens": Variant(options=("--max_length", "256")),
    "512 tokens": Variant(options=("--max_length", "512")),
    "4 windows of 128 tokens": Variant(options=("--windows", "4")),
    "full fine-tuning": Variant(options=("--full_fine_tuning", "true", "--learning_rate", "1e-4")),
}
SHIPPED = "as shipped"


def lines_of(job: Job, work: Path) -> list[TrainingLine]:
    """The training set of a run: nothing of its fold's questions."""
    sets = read_sets(work)
    fold_of = folds(sets.scored, FOLDS, seed=0)
    scored, liveqa = ([line for line in lines if fold_of[line.question.group] != job.fold] for lines in sets[:2])
    return training_lines(scored, liveqa, VARIANTS[job.variant].what, job.seed)


def train_job(job: Job, work: Path) -> None:
    """Trains one judge without a fold's questions."""
    from medjudge.workflows.train import train_judge

    variant, folder = VARIANTS[job.variant], work / "folds" / job.name
    write_lines(folder / "train.jsonl", lines_of(job, work))
    write_lines(folder / "validation.jsonl", read_sets(work).validation)
    start = () if variant.intermediate else FRESH
    (folder / "config.yaml").write_text(yaml.safe_dump(config()))
    train_judge(
        folder / "config.yaml",
        train_file=folder / "train.jsonl",
        validation_file=folder / "validation.jsonl",
        output_dir=folder / "judge",
        start_from=work / "judges" / "minilm-intermediate" if variant.intermediate else None,
        seed=job.seed,
        options=(*start, *variant.options, "--disable_tqdm", "true"),
    )


def config() -> dict[str, Any]:
    """The recipe's options of the built-in judge; a run says for itself what it starts from."""
    options: dict[str, Any] = yaml.safe_load(CONFIG.read_text(encoding="utf-8"))
    return {name: value for name, value in options.items() if name != "start_from"}


def judge_job(job: Job, work: Path) -> None:
    """Writes what a run's judge says of its fold, of LiveQA's answers in it, and of the validation file."""
    folder = work / "folds" / job.name
    sets = read_sets(work)
    fold_of = folds(sets.scored, FOLDS, seed=0)
    systems = from_systems(sets.liveqa, fold_of, job.fold)
    in_fold = [line for line in sets.scored if fold_of[line.question.group] == job.fold]
    result = {
        "fold": probabilities(folder / "judge", in_fold),
        "validation": probabilities(folder / "judge", sets.validation),
        "liveqa with references": probabilities(folder / "judge", systems),
        "liveqa without references": probabilities(folder / "judge", without_references(systems)),
    }
    write_json(folder / "probabilities.json", result)


def probabilities(judge: Path, lines: Sequence[TrainingLine]) -> dict[str, list[float]]:
    """What a judge says of answers: `question|model` -> level probabilities."""
    import torch

    from medjudge.judge.folder import load_judge
    from medjudge.judge.protocol import Assignment

    work = [Assignment(line.question, tuple(line.earlier), line.answer) for line in lines]
    judgments = load_judge(judge, "built-in", torch.device("cpu")).judge(work)
    return {f"{each.question_id}|{each.model}": each.probabilities for each in judgments if each.probabilities}


def shipped_jobs() -> list[Job]:
    """The runs whose judges are averaged into the one that is shipped."""
    return [Job(SHIPPED, seed, fold) for seed in SEEDS for fold in range(FOLDS)]


def origin_of(job: Job, work: Path) -> str:
    """The sha256 of what a run is made from, so that a run from before a change is not taken for it."""
    start = work / "judges" / "minilm-intermediate" / "adapter_model.safetensors"
    lines = [*lines_of(job, work), *read_sets(work).validation]
    parts = [repr(VARIANTS[job.variant]), str(job.seed), json.dumps(config()), file_sha256(start)]
    return sha256("".join([*parts, *(line.model_dump_json() for line in lines)]).encode()).hexdigest()


def run_jobs(jobs: Sequence[Job], work: Path) -> None:
    """Runs the jobs that are not finished, two at a time, each in a process of its own."""
    threads = max(1, (os.cpu_count() or 2) // 2)

    def start(job: Job) -> None:
        folder, origin = work / "folds" / job.name, origin_of(job, work)
        finished = (folder / "probabilities.json").exists() and (folder / "origin.txt").exists()
        if finished and (folder / "origin.txt").read_text() == origin:
            return
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        (folder / "origin.txt").write_text(origin)
        environment = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
        command = [sys.executable, __file__, str(work), "--one", job.variant, str(job.seed), str(job.fold)]
        with (folder / "log.txt").open("w") as log:
            subprocess.run(command, env=environment, stdout=log, stderr=log, check=True)
        print(f"done: {job.name}", file=sys.stderr, flush=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(start, jobs))


def main(work: Path, names: Sequence[str]) -> None:
    """Runs variants and writes the table."""
    if unknown := set(names) - set(VARIANTS):
        sys.exit(f"no variant {', '.join(sorted(unknown))}; choose among {', '.join(VARIANTS)}")
    others = [Job(name, 0, fold) for fold in range(ABLATED) for name in names if name != SHIPPED]
    jobs = [*(shipped_jobs() if SHIPPED in names else []), *others]
    run_jobs(jobs, work)
    measured = measured_on(work)
    jobs_of = {name: [job for job in jobs if job.variant == name] for name in names}
    table = {name: summary(jobs_of[name], work, measured) for name in names}
    if SHIPPED in table:
        shipped = all_folds(compared(jobs_of[SHIPPED]), work, measured)
        for name in table.keys() - {SHIPPED}:
            change = against_shipped(all_folds(jobs_of[name], work, measured), shipped)
            table[name] |= {"minus as shipped": change, "lesson": lesson(name, change)}
    named = "".join(f' "{name}"' for name in names) if len(names) < len(VARIANTS) else ""
    record("second-opinion", {"command": f"python eval/built_in_folds.py WORK{named}", "table": table})
    print(markdown(table, SHIPPED))


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit("usage: python eval/built_in_folds.py WORK [VARIANT ...]")
    if sys.argv[2:3] == ["--one"]:
        single = Job(sys.argv[3], int(sys.argv[4]), int(sys.argv[5]))
        train_job(single, Path(sys.argv[1]))
        judge_job(single, Path(sys.argv[1]))
    else:
        main(Path(sys.argv[1]).resolve(), sys.argv[2:] or list(VARIANTS))
