"""Distillation: run folders with judgments and physicians' scores -> a training set in a folder."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medjudge.annotate.scores import read_physician_scores
from medjudge.benchmark.splits import held_out_groups
from medjudge.distill.checks import check_training_set, questions_to_keep_out
from medjudge.distill.training_set import (
    ScoredAnswers,
    TrainingSetOptions,
    build_training_set,
    people_last,
    side_summary,
)
from medjudge.errors import InputError
from medjudge.files import json_lines, remove_leftovers, write_json, write_whole
from medjudge.records import Answer, AnswerKey, Judgment, PhysicianScore, Question, TrainingLine
from medjudge.scheme import Scheme
from medjudge.store import Run, write_records, write_scheme
from medjudge.workflows.run_folder import adopt_scheme, start_run

TRAIN_FILE, VALIDATION_FILE, SUMMARY_FILE = "train.jsonl", "validation.jsonl", "summary.json"
FIRST_FILE, LAST_FILE = "teacher-first.jsonl", "people-last.jsonl"
UNFINISHED_FILE, HELD_OUT = "unfinished.txt", "held-out"


@dataclass(frozen=True)
class DistillOptions(TrainingSetOptions):
    """Sources and options of a training set.

    Attributes:
        teachers: Names of the judges whose judgments teach; all but local judges if omitted.
        physicians: Files with physicians' scores; those of the runs if omitted.
        keep_out: Run folders, or files with question ids, that a judge will be validated on: no line is made of their
            questions, of the same texts, or of their conversations.
        scheme: What the questions of runs belong to that keep no copy of their scheme: its name, folder or file.
        people_last: Whether to write the files of two stages too (`people_last`).
        hold_out: Share of the conversations with physicians' scores to hold out, 0 to below 1; they become a run folder
            that a judge is validated in.
    """

    teachers: Sequence[str] | None = None
    physicians: Sequence[Path] | None = None
    keep_out: Sequence[Path] = ()
    scheme: str | None = None
    people_last: bool = False
    hold_out: float = 0.0


@dataclass(frozen=True, repr=False)
class DistilledSet:
    """A training set in a folder.

    Attributes:
        folder: Holds the files below, the scheme of the questions, and what `people_last` and `hold_out` ask for.
        train: The lines to train on; `validation` those that choose a checkpoint.
        summary: What came from where, and what the checks found; the content of `summary.json`.
    """

    folder: Path
    train: list[TrainingLine]
    validation: list[TrainingLine]
    summary: dict[str, Any]

    @property
    def train_file(self) -> Path:
        return self.folder / TRAIN_FILE

    @property
    def validation_file(self) -> Path:
        return self.folder / VALIDATION_FILE

    @property
    def summary_file(self) -> Path:
        return self.folder / SUMMARY_FILE

    def __repr__(self) -> str:
        return f"{self.folder}: {len(self.train):,} answers to train on, {len(self.validation):,} to validate on"


def distill_training_set(
    runs: Sequence[Path | str], out: Path | str, *, options: DistillOptions = DistillOptions()
) -> DistilledSet:
    """Makes a training set from the scores in run folders, and writes it.

    A physician's score outranks the teacher's; conversations stay on one side of the split.

    Args:
        runs: Run folders with questions, answers, and judgments or physicians' scores. Their schemes may
            differ in which categories they hold, and in nothing else.
        out: The folder to write, without a training set so far.

    Raises:
        InputError: The runs do not fit together, no judge could be trained on what they hold, or `out` holds a training
            set already.
    """
    folder = Path(out)
    unfinished = folder / UNFINISHED_FILE
    for name in (TRAIN_FILE, VALIDATION_FILE):
        if (folder / name).exists() and not unfinished.exists():
            raise InputError(f"--out {folder}: holds {name} already; remove it, or choose another folder")
    everything = _read_runs(list(map(Path, runs)), options)
    held = _held_out(everything, options)
    kept_out = _kept_out(everything, options.keep_out, held)
    sources = everything.without(kept_out["ids"])
    if kept_out["ids"] and not sources.answers:
        raise InputError(
            f"--keep-out {', '.join(map(str, options.keep_out))}: names all questions here, such as "
            f"{kept_out['ids'][0]}; nothing is left to train on"
        )
    training_set = build_training_set(sources, options)
    checked = check_training_set(training_set.train, training_set.validation)
    stages = people_last(checked.train, options.seed) if options.people_last else None
    summary: dict[str, Any] = {
        **training_set.summary,
        "train": side_summary(checked.train),
        "people_last": stages
        and {
            "first": len(stages.first),
            "people": len(stages.last) - stages.replayed,
            "replayed": stages.replayed,
        },
        "checks": {**checked.report, "kept_out": kept_out, "warnings": checked.warnings},
    }
    result = DistilledSet(folder, checked.train, training_set.validation, summary)
    remove_leftovers(folder, "**/*.part")
    # A killed process leaves this file, so that the same command replaces what it left.
    write_whole(unfinished, "This folder is being written, or the process that wrote it was killed.\n")
    write_scheme(folder, sources.scheme)
    files = {result.train_file: result.train, result.validation_file: result.validation}
    if stages is not None:
        files |= {folder / FIRST_FILE: stages.first, folder / LAST_FILE: stages.last}
    for file, lines in files.items():
        write_records(file, lines)
    write_json(result.summary_file, summary)
    if held:
        shutil.rmtree(folder / HELD_OUT, ignore_errors=True)  # of a process that was killed: no training set was here
        what = "conversations held out by medjudge distill"
        write_unseen(Run(folder / HELD_OUT), everything.of_questions(held), what, {"held_out": True})
    unfinished.unlink()
    return result


def _read_runs(paths: Sequence[Path], options: DistillOptions) -> ScoredAnswers:
    questions: dict[str, Question] = {}
    answers: dict[AnswerKey, Answer] = {}
    judgments: list[Judgment] = []
    scores: list[PhysicianScore] = []
    runs = [Run.existing(path) for path in paths]
    for run in runs:
        if options.scheme is not None:
            adopt_scheme(run, options.scheme)
        for question in run.questions():
            if questions.setdefault(question.id, question) != question:
                raise InputError(
                    f"{run.path}: question {question.id} differs from that of another run; the ids must be unique"
                )
        for answer in run.answers():
            if answers.setdefault(answer.key, answer) != answer:
                raise InputError(
                    f"{run.path}: the answer of {answer.model} to {answer.question_id} differs from that of another "
                    "run; give the models names of their own"
                )
        for teacher in _teachers(run, options.teachers):
            judgments += run.judgments(teacher)
        scores += run.settled_scores() if options.physicians is None else []
    for file in options.physicians or []:
        scores += read_physician_scores(file)
    for teacher in options.teachers or []:
        if teacher not in {judgment.judge for judgment in judgments}:
            raise InputError(f"--teacher {teacher}: no judgments of it in {', '.join(map(str, paths))}")
    return ScoredAnswers(list(questions.values()), list(answers.values()), judgments, scores, _joined_scheme(runs))


def _joined_scheme(runs: Sequence[Run]) -> Scheme:
    """The scheme of all runs: schemes may differ in which categories they hold, and in nothing else."""
    scheme = runs[0].scheme()
    for number, run in enumerate(runs[1:], 1):
        other = run.scheme()
        try:
            scheme = scheme.joined_with(other)
        except ValueError as error:
            before = ", ".join(str(earlier.path) for earlier in runs[:number])
            raise InputError(
                f"{run.path}: its scheme ({other.name}) differs from that of {before} ({scheme.name}) in {error}; "
                "distil them one by one, or make the runs anew with one --scheme that holds the categories of all"
            ) from None
    return scheme


def _teachers(run: Run, names: Sequence[str] | None) -> list[str]:
    """The judges of a run that teach; if none are named, those that know more than a local judge: APIs and imports."""
    if names is not None:
        return [name for name in names if name in run.judges()]
    kinds = {name: entry.get("kind", "api") for name, entry in run.manifest().get("judges", {}).items()}
    return [name for name in run.judges() if kinds.get(name, "api") == "api"]


def _held_out(sources: ScoredAnswers, options: DistillOptions) -> set[str]:
    """The ids of the questions to hold out: whole conversations, the same share of each category and language."""
    if not options.hold_out:
        return set()
    scored = {score.question_id for score in sources.scores}
    groups = {question.group for question in sources.questions if question.id in scored}
    if not groups:
        raise InputError("--hold-out: the runs hold no physicians' scores to validate a judge on; omit it")
    asked = [question for question in sources.questions if question.group in groups]
    held = held_out_groups(asked, options.hold_out, options.seed)
    return {question.id for question in asked if question.group in held}


def write_unseen(run: Run, sources: ScoredAnswers, name: str, config: dict[str, Any]) -> None:
    """Writes what no judge is trained on as a run folder: questions, answers, scores and teachers' judgments."""
    start_run(run, sources.questions, sources.scheme, name, config)
    write_records(run.answers_file, sources.answers)
    write_records(run.physicians_file, sources.scores)
    for judge in sorted({judgment.judge for judgment in sources.judgments}):
        write_records(
            run.judgments_file(judge), [judgment for judgment in sources.judgments if judgment.judge == judge]
        )


def _kept_out(sources: ScoredAnswers, files: Sequence[Path], held: set[str]) -> dict[str, Any]:
    """The questions that must stay unseen, and how many of them were named; nothing is learnt from them."""
    named = [question for file in files for question in _named_questions(file)]
    named += [(question.id, question.prompt) for question in sources.questions if question.id in held]
    ids = {name for name, _ in named}
    unseen = questions_to_keep_out(sources.questions, ids, {prompt for _, prompt in named if prompt is not None})
    return {
        "questions": len(unseen),
        "answers": sum(answer.question_id in unseen for answer in sources.answers),
        "by_id": len(ids.intersection(question.id for question in sources.questions)),
        "ids": sorted(unseen),
    }


def _named_questions(path: Path) -> Iterator[tuple[str, str | None]]:
    """Id and, where it is known, text of the questions of a run folder, or of a file of records or scores."""
    if path.is_dir():
        yield from ((question.id, question.prompt) for question in Run.existing(path).questions())
    elif path.suffix != ".jsonl":
        yield from ((score.question_id, None) for score in read_physician_scores(path))
    else:
        for number, fields in json_lines(path):
            try:
                # A training line holds its question, a question is one, all other records name theirs.
                question = fields.get("question", fields)
                name = str(fields["question_id"] if "question_id" in fields else question["id"])
                prompt = str(question["prompt"]) if "prompt" in question else None
            except (AttributeError, KeyError, TypeError):
                raise InputError(
                    f"--keep-out {path}, line {number}: names no question; records with id or question_id are expected"
                ) from None
            yield name, prompt
