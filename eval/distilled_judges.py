"""GPT-4's judgments and people's scores distilled into LoRA judges, by the commands that a user has.

    python eval/distilled_judges.py DATA WORK [CELL …] [--answers N]

DATA holds llmeval-2/, halluqa/ and evouna/. WORK is a folder for intermediate files; a step that finished there is not
repeated. A cell is BASE.SOURCE.SPLIT, such as gemma-270m.people-800.questions; without any, all of them run, for hours.
Each runs `medjudge distill`, `medjudge train` and `medjudge validate --teacher gpt-4` and writes its entry of
eval/results/distilled-judges.json. No weights are kept beyond WORK: LLMEval-2 is for evaluation only.

Sources: `gpt-4` (its scores of LLMEval-2 alone), `people-N` (GPT-4's, and N of people's last), `qa` (HalluQA by GPT-4
and EVOUNA by people, no score of LLMEval-2). Splits of LLMEval-2: a fifth of the questions, of the models (named by
their answers) or of the subjects is unseen. --answers trains on so many of each set at most, for slow machines. The
answers of HalluQA and EVOUNA that `teacher_baselines.py` measures on are unseen; it takes the judge's folder.
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from run_parts import MEASURED, drawn_part, write_part
from study import Study, record_entry

from medjudge.judge.folder import read_card
from medjudge.store import Run

BASES = {
    "gemma-270m": ("google/gemma-3-270m", 6),
    "qwen-0.5b": ("Qwen/Qwen2.5-Coder-0.5B-Instruct", 8),
    "qwen-1.5b": ("Qwen/Qwen2.5-Coder-1.5B-Instruct", 9),
}
"""Hub id, and how many of the upper layers are trained: a third."""
SOURCES = ("gpt-4", "people-200", "people-800", "people-3200", "qa")
SPLITS = ("questions", "models", "subjects")
UNSEEN, SEED = 0.2, 0
RUN, TEACHER = "llmeval2", "gpt-4"
QA = ("halluqa", "evouna")
LAST_RATE = 5e-5
"""The rate of the second stage, on people's scores: a tenth of the config's."""


class Cell(NamedTuple):
    """One judge: its base model, what it learns from, and what it is validated on."""

    base: str
    source: str
    split: str

    def __str__(self) -> str:
        return ".".join(self)


def all_cells() -> list[Cell]:
    """Every base on every source; the largest on one split, and the sources' answers unseen anyway."""
    cells = [Cell(base, source, split) for base in BASES for source in SOURCES for split in SPLITS]
    return [
        cell
        for cell in cells
        if (cell.base != "qwen-1.5b" or cell.split == "questions")
        and (cell.source != "qa" or cell.split == "questions")
    ]


def unseen_part(run: Run, split: str) -> tuple[set[str], set[str]]:
    """The ids of the unseen questions, and the unseen models; one of both is empty."""
    questions, draw = run.questions(), np.random.default_rng(SEED)
    if split == "models":
        models = sorted({answer.model for answer in run.answers()})
        return set(), set(draw.permutation(models)[: round(UNSEEN * len(models))].tolist())
    name_of = {question.id: question.category if split == "subjects" else question.group for question in questions}
    names = sorted(set(name_of.values()))
    unseen = set(draw.permutation(names)[: round(UNSEEN * len(names))].tolist())
    return {question for question, name in name_of.items() if name in unseen}, set()


def split_run(folder: Path, split: str, people: int) -> tuple[str, str]:
    """Writes the two sides of a split of LLMEval-2, once; returns the names of what is learned from and of the rest."""
    source = Run(folder / RUN)
    unseen_questions, unseen_models = unseen_part(source, split)
    learned, unseen = f"learned-{split}-{people}", f"unseen-{split}"
    for name, is_unseen in ((learned, False), (unseen, True)):
        if (folder / name).exists():
            continue
        questions = source.questions()
        if not unseen_models:
            questions = [question for question in questions if (question.id in unseen_questions) == is_unseen]
        ids = {question.id for question in questions}
        answers = [
            answer
            for answer in source.answers()
            if answer.question_id in ids and (not unseen_models or (answer.model in unseen_models) == is_unseen)
        ]
        write_part(source, Run(folder / name), questions, answers, None if is_unseen else people)
    return learned, unseen


def learned_runs(folder: Path, cell: Cell, answers: int | None) -> list[str]:
    """Writes the runs that a cell learns from, each with so many answers at most; returns their names.

    None of them has a question on which `teacher_baselines.py` measures.
    """
    people = int(cell.source.split("-")[1]) if cell.source.startswith("people") else 0
    wholes = list(QA) if cell.source == "qa" else [split_run(folder, cell.split, people)[0]]
    parts = [f"{name}-learned-{answers}" for name in wholes]
    for name, part in zip(wholes, parts, strict=True):
        measured = folder / f"{name}-{MEASURED}"
        without = {question.id for question in Run(measured).questions()} if measured.exists() else set()
        drawn_part(Run(folder / name), Run(folder / part), answers, without)
    return parts


def train(study: Study, command: str, folder: str) -> None:
    """Trains into a folder, from the checkpoint that an interrupted run left there."""
    resume = " --resume" if (study.folder / folder / "checkpoints").exists() else ""
    study.run(f"{command} --output-dir {folder}{resume}")


def trained(study: Study, cell: Cell, answers: int | None) -> str:
    """Distils and trains by the user's commands; returns the judge folder."""
    model, upper = BASES[cell.base]
    name = f"{cell}-{answers}"
    runs = " ".join(learned_runs(study.folder, cell, answers))
    config = f"medjudge train --config gemma3-270m-lora --model_name_or_path {model} --upper_layers {upper}"
    files = f"--validation-file {name}/data/validation.jsonl"
    if not cell.source.startswith("people"):
        study.run(f"medjudge distill {runs} --out {name}/data")
        train(study, f"{config} {files} --train-file {name}/data/train.jsonl", f"judges/{name}")
        return f"judges/{name}"
    study.run(f"medjudge distill {runs} --out {name}/data --people-last")
    train(study, f"{config} {files} --train-file {name}/data/teacher-first.jsonl", f"{name}/first")
    last = f"medjudge train --config gemma3-270m-lora {files} --train-file {name}/data/people-last.jsonl"
    train(study, f"{last} --start-from {name}/first --learning_rate {LAST_RATE}", f"judges/{name}")
    return f"judges/{name}"


def measured(study: Study, cell: Cell, answers: int | None) -> dict[str, Any]:
    """What `medjudge validate` says of the judge, and of GPT-4 on the same answers."""
    judge = trained(study, cell, answers)
    unseen = split_run(study.folder, cell.split, 0)[1]
    found: dict[str, Any] = study.run(
        f"medjudge validate {unseen} --judge {judge} --teacher {TEACHER} --margin 0.02 --offline --json",
        json_output=True,
        allowed=(0, 1),
    )
    card = read_card(study.folder / judge).training
    learned = {name: card[name] for name in ("untuned", "validation")}
    validated = {"overall": found["overall"], "n": found["n"], "teacher": found.get("teacher")}
    return {"answers": answers, **learned, **validated}


def main() -> None:
    """Runs the cells that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("DATA", type=Path)
    parser.add_argument("WORK", type=Path)
    parser.add_argument("CELL", nargs="*", choices=[[], *map(str, all_cells())])
    parser.add_argument("--answers", type=int)
    options = parser.parse_args()
    prepared = Study(options.WORK, DATA=options.DATA.resolve())
    prepared.run(f"medjudge data convert llmeval2 $DATA/llmeval-2/human-score $DATA/llmeval-2/gpt-score --out {RUN}")
    for name in QA:
        prepared.run(f"medjudge data convert {name} $DATA/{name} --out {name}")
        drawn_part(Run(options.WORK / name), Run(options.WORK / f"{name}-{MEASURED}"), MEASURED)
    for cell in all_cells():
        if not options.CELL or str(cell) in options.CELL:
            study = Study(options.WORK, DATA=options.DATA.resolve())
            result = measured(study, cell, options.answers)
            entry = {"commands": study.commands, **result}
            record_entry("distilled-judges", f"{cell}-{options.answers or 'all'}", entry)


if __name__ == "__main__":
    main()
