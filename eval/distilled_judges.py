"""GPT-4's judgments and people's scores distilled into LoRA judges, by the commands that a user has.

    python eval/distilled_judges.py DATA WORK [CELL …] [--questions N]

DATA holds llmeval-2/, halluqa/ and evouna/. WORK is a folder for intermediate files; a step that finished there is not
repeated. A cell is BASE.SOURCE.SPLIT, such as gemma-270m.people-800.questions; without any, all of them run, for hours.
Each runs `medjudge distill`, `medjudge train` and `medjudge validate --teacher gpt-4` and writes its entry of
eval/results/distilled-judges.json. No weights are kept beyond WORK: LLMEval-2 is for evaluation only.

Sources: `gpt-4` (its scores of LLMEval-2 alone), `people-N` (GPT-4's, and N of people's last), `qa` (HalluQA by GPT-4
and EVOUNA by people, no score of LLMEval-2). Splits of LLMEval-2: a fifth of the questions, of the models (named by
their answers) or of the subjects is unseen. --questions trains on so many questions at most, for slow machines.
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from real_calibration import TEACHER
from study import Study, record_entry

from medjudge.records import Answer, Question
from medjudge.store import Run, write_records

BASES = {
    "gemma-270m": ("google/gemma-3-270m", 6),
    "qwen-0.5b": ("Qwen/Qwen2.5-Coder-0.5B-Instruct", 8),
    "qwen-1.5b": ("Qwen/Qwen2.5-Coder-1.5B-Instruct", 9),
}
"""Hub id, and how many of the upper layers are trained: a third."""
SOURCES = ("gpt-4", "people-200", "people-800", "people-3200", "qa")
SPLITS = ("questions", "models", "subjects")
UNSEEN, SEED = 0.2, 0
RUN = "llmeval2"
LAST_RATE = 1e-4
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


def write_part(source: Run, target: Run, questions: list[Question], answers: list[Answer], people: int | None) -> None:
    """Writes questions with some answers, their judgments, and so many of people's scores (all of them if None)."""
    keys = {answer.key for answer in answers}
    scores = [score for score in source.physician_scores() if score.answer_key in keys]
    if people is not None:
        scores = [scores[at] for at in sorted(np.random.default_rng(SEED).permutation(len(scores))[:people])]
    target.path.mkdir(parents=True)
    write_records(target.answers_file, answers)
    write_records(target.physicians_file, scores)
    if TEACHER in source.judges():
        judged = [judgment for judgment in source.judgments(TEACHER) if judgment.answer_key in keys]
        write_records(target.judgments_file(TEACHER), judged)
    target.write_questions(questions, source.scheme())


def some_questions(folder: Path, name: str, most: int | None) -> str:
    """The name of a run with so many questions of another at most, which is written once."""
    part = name if most is None else f"{name}-{most}"
    if not (folder / part).exists():
        source = Run(folder / name)
        questions = drawn(source.questions(), most)
        ids = {question.id for question in questions}
        answers = [answer for answer in source.answers() if answer.question_id in ids]
        write_part(source, Run(folder / part), questions, answers, None)
    return part


def drawn(questions: list[Question], most: int | None) -> list[Question]:
    """So many of the questions at most, in their order."""
    chosen = np.random.default_rng(SEED).permutation(len(questions))[:most]
    return [questions[at] for at in sorted(chosen)]


def split_run(folder: Path, cell: Cell, most: int | None) -> tuple[str, str]:
    """Writes what a cell learns from and what it is validated on, once; returns both names in the folder."""
    source = Run(folder / RUN)
    unseen_questions, unseen_models = unseen_part(source, cell.split)
    people = int(cell.source.split("-")[1]) if cell.source.startswith("people") else 0
    learn, unseen = f"learn-{cell.split}-{people}-{most}", f"unseen-{cell.split}"
    for name, is_unseen in ((learn, False), (unseen, True)):
        if (folder / name).exists():
            continue
        questions = source.questions()
        if not unseen_models:
            questions = [question for question in questions if (question.id in unseen_questions) == is_unseen]
        if not is_unseen:
            questions = drawn(questions, most)
        ids = {question.id for question in questions}
        answers = [
            answer
            for answer in source.answers()
            if answer.question_id in ids and (not unseen_models or (answer.model in unseen_models) == is_unseen)
        ]
        write_part(source, Run(folder / name), questions, answers, None if is_unseen else people)
    return learn, unseen


def trained(study: Study, cell: Cell, learn: str, most: int | None) -> str:
    """Distils and trains by the user's commands; returns the judge folder."""
    model, upper = BASES[cell.base]
    name = f"{cell}-{most}"
    config = f"medjudge train --config gemma3-270m-lora --model_name_or_path {model} --upper_layers {upper}"
    files = f"--validation-file {name}/data/validation.jsonl"
    if not cell.source.startswith("people"):
        others = [some_questions(study.folder, name, most) for name in ("halluqa", "evouna")]
        runs = " ".join(others) if cell.source == "qa" else learn
        study.run(f"medjudge distill {runs} --out {name}/data")
        study.run(f"{config} {files} --train-file {name}/data/train.jsonl --output-dir {name}/judge")
        return f"{name}/judge"
    study.run(f"medjudge distill {learn} --out {name}/data --people-last")
    study.run(f"{config} {files} --train-file {name}/data/teacher-first.jsonl --output-dir {name}/first")
    study.run(
        f"medjudge train --config gemma3-270m-lora {files} --train-file {name}/data/people-last.jsonl "
        f"--start-from {name}/first --output-dir {name}/judge --learning_rate {LAST_RATE}"
    )
    return f"{name}/judge"


def measured(study: Study, cell: Cell, most: int | None) -> dict[str, Any]:
    """What `medjudge validate` says of the judge, and of GPT-4 on the same answers."""
    learn, unseen = split_run(study.folder, cell, most)
    judge = trained(study, cell, learn, most)
    found: dict[str, Any] = study.run(
        f"medjudge validate {unseen} --judge {judge} --teacher {TEACHER} --margin 0.02 --offline --json",
        json_output=True,
        allowed=(0, 1),
    )
    return {"questions": most, "overall": found["overall"], "n": found["n"], "teacher": found.get("teacher")}


def main() -> None:
    """Runs the cells that are named, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("DATA", type=Path)
    parser.add_argument("WORK", type=Path)
    parser.add_argument("CELL", nargs="*", choices=[[], *map(str, all_cells())])
    parser.add_argument("--questions", type=int)
    options = parser.parse_args()
    study = Study(options.WORK, DATA=options.DATA.resolve())
    study.run(f"medjudge data convert llmeval2 $DATA/llmeval-2/human-score $DATA/llmeval-2/gpt-score --out {RUN}")
    for name in ("halluqa", "evouna"):
        study.run(f"medjudge data convert {name} $DATA/{name} --out {name}")
    for cell in all_cells():
        if not options.CELL or str(cell) in options.CELL:
            result = measured(study, cell, options.questions)
            record_entry(
                "distilled-judges", f"{cell}-{options.questions or 'all'}", {"commands": study.commands, **result}
            )


if __name__ == "__main__":
    main()
