"""GPT-4 as a teacher on real scores: LoRA judges distilled by the user's commands, and judges without such training.

    python eval/quality/real_scores.py cells DATA WORK [CELL …] [--answers N]
    python eval/quality/real_scores.py baselines DATA WORK [JUDGE …]

DATA holds llmeval-2/, halluqa/, evouna/ and liveqa-med/. WORK is a folder for intermediate files; a step that finished
there is not repeated. A cell is BASE.SOURCE.SPLIT, such as gemma-270m.people-800.questions; without any, all of them
run, for hours. Each runs `medjudge distill`, `medjudge train` and `medjudge validate --teacher gpt-4` and writes its
entry of eval/results/distilled-judges.json. No weights are kept beyond WORK: LLMEval-2 is for evaluation only.

Sources: `gpt-4` (its scores of LLMEval-2 alone), `people-N` (GPT-4's, and N of people's last), `qa` (HalluQA by GPT-4
and EVOUNA by people, no score of LLMEval-2). Splits of LLMEval-2: a fifth of the questions, of the models (named by
their answers) or of the subjects is unseen. --answers trains on so many of each set at most, for slow machines.

`baselines` has whole questions with 300 answers of each set judged by `medjudge eval`, and compares the scores with
GPT-4's or people's levels: the area under the ROC curve for full marks, and quadratic kappa, with intervals from a
bootstrap over questions. No cell learns from these answers. The result is eval/results/teacher-baselines.json.
"""

import argparse
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.metrics import roc_auc_score

from eval.lib.study import MEASURED, Study, drawn_part, record_entry, write_part
from medjudge.judge.folder import read_card
from medjudge.records import AnswerKey
from medjudge.statistics.measures import confusion, quadratic_kappa
from medjudge.store import Run

GENERATIVE = "--config gemma3-270m-lora"
FURTHER = "--per_device_train_batch_size 8 --gradient_accumulation_steps 4"
BASES = {
    "built-in": f"--config built-in {FURTHER}",
    "gemma-270m": f"{GENERATIVE} --model_name_or_path google/gemma-3-270m --upper_layers 6",
    "qwen-0.5b": f"{GENERATIVE} --model_name_or_path Qwen/Qwen2.5-Coder-0.5B-Instruct --upper_layers 8",
    "qwen-1.5b": f"{GENERATIVE} --model_name_or_path Qwen/Qwen2.5-Coder-1.5B-Instruct --upper_layers 9",
}
"""The options of `medjudge train`: the built-in judge goes on learning, of language models the upper third learns."""
SOURCES = ("gpt-4", "people-200", "people-800", "people-3200", "qa")
SPLITS = ("questions", "models", "subjects")
UNSEEN, SEED = 0.2, 0
RUN, TEACHER = "llmeval2", "gpt-4"
QA = ("halluqa", "evouna")
EPOCHS, FIRST_RATE, LAST_RATE = 2, 5e-4, 5e-5
"""The second stage is on people's scores."""
SETS = {
    "halluqa": "halluqa $DATA/halluqa",
    "evouna": "evouna $DATA/evouna",
    "liveqa-2479": "liveqa-2479 $DATA/liveqa-med/reference-answers.xml $DATA/liveqa-med/qrels-2479-answers.zip",
}
DRAWS = 1000


class Cell(NamedTuple):
    """One judge: its base model, what it learns from, and what it is validated on."""

    base: str
    source: str
    split: str

    def __str__(self) -> str:
        return ".".join(self)


def all_cells() -> list[Cell]:
    """Every base on every source; the largest on one split, and `qa` on one, which the built-in judge knows."""
    cells = [Cell(base, source, split) for base in BASES for source in SOURCES for split in SPLITS]
    return [
        cell
        for cell in cells
        if (cell.base != "qwen-1.5b" or cell.split == "questions")
        and (cell.source != "qa" or (cell.split == "questions" and cell.base != "built-in"))
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

    None of them has a question on which `baselines` measures.
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
    name = f"{cell}-{answers}"
    runs = " ".join(learned_runs(study.folder, cell, answers))
    config = f"medjudge train {BASES[cell.base]} --num_train_epochs {EPOCHS}"
    start = "--start-from built-in " if cell.base == "built-in" else ""
    first_rate, last_rate = f"{start}--learning_rate {FIRST_RATE}", f"--learning_rate {LAST_RATE}"
    files = f"--validation-file {name}/data/validation.jsonl"
    if not cell.source.startswith("people"):
        study.run(f"medjudge distill {runs} --out {name}/data")
        train(study, f"{config} {files} --train-file {name}/data/train.jsonl {first_rate}", f"judges/{name}")
        return f"judges/{name}"
    study.run(f"medjudge distill {runs} --out {name}/data --people-last")
    train(study, f"{config} {files} --train-file {name}/data/teacher-first.jsonl {first_rate}", f"{name}/first")
    last = f"{config} {files} --train-file {name}/data/people-last.jsonl"
    train(study, f"{last} --start-from {name}/first {last_rate}", f"judges/{name}")
    return f"judges/{name}"


def validated(study: Study, cell: Cell, judge: str) -> dict[str, Any]:
    """The result of `medjudge validate` for a judge on the unseen side of a split."""
    unseen = split_run(study.folder, cell.split, 0)[1]
    command = f"medjudge validate {unseen} --judge {judge} --teacher {TEACHER} --margin 0.02 --offline --json"
    found: dict[str, Any] = study.run(command, json_output=True, allowed=(0, 1))
    return found


def measured(study: Study, cell: Cell, answers: int | None) -> dict[str, Any]:
    """The judge's agreement, GPT-4's on the same answers, and the built-in judge's where training went on from it."""
    judge = trained(study, cell, answers)
    found = validated(study, cell, judge)
    card = read_card(study.folder / judge).training
    learned = {name: card[name] for name in ("untuned", "validation")}
    before = {"before": validated(study, cell, "built-in")["overall"]} if cell.base == "built-in" else {}
    agreement = {"overall": found["overall"], "n": found["n"], "teacher": found.get("teacher")}
    return {"answers": answers, **learned, **before, **agreement}


def levels_of(run: Run) -> dict[AnswerKey, int]:
    """People's levels, and where a set has none, the teacher's."""
    people = {score.answer_key: score.level for score in run.physician_scores()}
    return people or {each.answer_key: each.score for each in run.judgments(TEACHER) if each.score is not None}


def compared(run: Run, judge: str) -> dict[str, Any]:
    """AUC of full marks and quadratic kappa of a judge's scores, with 95 % intervals over questions."""
    truth = levels_of(run)
    scored = [each for each in run.judgments(judge) if each.score is not None and each.answer_key in truth]
    level = np.array([truth[each.answer_key] for each in scored])
    score = np.array([each.score for each in scored])
    expected = np.array([each.expected for each in scored])
    questions = np.array([each.question_id for each in scored])
    rows_of = [np.flatnonzero(questions == name) for name in np.unique(questions)]
    generator = np.random.default_rng(SEED)

    def measures(rows: np.ndarray) -> list[float]:
        full = level[rows] == 5
        auc = roc_auc_score(full, expected[rows]) if 0 < full.sum() < len(rows) else float("nan")
        return [float(auc), float(quadratic_kappa(confusion(score[rows], level[rows])))]

    drawn = [
        measures(np.concatenate([rows_of[at] for at in generator.integers(len(rows_of), size=len(rows_of))]))
        for _ in range(DRAWS)
    ]
    low, high = np.nanpercentile(np.array(drawn), [2.5, 97.5], axis=0)
    values = measures(np.arange(len(scored)))
    found = {
        name: {"value": round(value, 3), "low": round(least, 3), "high": round(most, 3)}
        for name, value, least, most in zip(("auc_full_marks", "quadratic_kappa"), values, low, high, strict=True)
    }
    return {**found, "answers": len(scored), "questions": len(rows_of), "unscored": len(truth) - len(scored)}


def run_cells(options: argparse.Namespace) -> None:
    """Trains and validates the cells that are named, or all, and writes an entry for each."""
    prepared = Study(options.WORK, DATA=options.DATA.resolve())
    prepared.run(f"medjudge data convert llmeval2 $DATA/llmeval-2/human-score $DATA/llmeval-2/gpt-score --out {RUN}")
    for name in QA:
        prepared.run(f"medjudge data convert {SETS[name]} --out {name}")
        drawn_part(Run(options.WORK / name), Run(options.WORK / f"{name}-{MEASURED}"), MEASURED)
    for cell in all_cells():
        if not options.CELL or str(cell) in options.CELL:
            study = Study(options.WORK, DATA=options.DATA.resolve())
            result = measured(study, cell, options.answers)
            entry = {"commands": study.commands, **result}
            record_entry("distilled-judges", f"{cell}-{options.answers or 'all'}", entry)


def run_baselines(options: argparse.Namespace) -> None:
    """Judges every set by every judge, compares, and writes an entry for each set."""
    study = Study(options.WORK, DATA=options.DATA.resolve())
    for name, source in SETS.items():
        study.run(f"medjudge data convert {source} --out {name}")
        run = drawn_part(Run(options.WORK / name), Run(options.WORK / f"{name}-{MEASURED}"), MEASURED)
        result = {}
        for judge in options.JUDGE:
            folder = run.path.name
            files = f"--benchmark {folder}/questions.jsonl --answers {folder}/answers.jsonl"
            study.run(f"medjudge eval {files} --judge {judge} --run {folder}", allowed=(0, 1))
            result[judge] = compared(run, judge.rstrip("/").split("/")[-1])
            print(name, judge, result[judge], flush=True)
        record_entry("teacher-baselines", name, {"commands": study.commands, "judges": result})


def main() -> None:
    """Runs the cells or the baselines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    cells, baselines = commands.add_parser("cells"), commands.add_parser("baselines")
    for each, run in ((cells, run_cells), (baselines, run_baselines)):
        each.set_defaults(run=run)
        each.add_argument("DATA", type=Path)
        each.add_argument("WORK", type=Path)
    cells.add_argument("CELL", nargs="*", choices=[[], *map(str, all_cells())])
    cells.add_argument("--answers", type=int)
    baselines.add_argument("JUDGE", nargs="*", default=["similarity", "built-in"])
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
