"""`medjudge distill`: judgments and physicians' scores -> a training set."""

from pathlib import Path
from typing import Annotated, Any, Optional

import typer

from medjudge.errors import InputError


def distill(
    runs: Annotated[
        list[Path], typer.Argument(help="Run folders with questions, answers, and judgments or physicians' scores.")
    ],
    out: Annotated[Path, typer.Option(help="Folder for train.jsonl, validation.jsonl and summary.json.")],
    teacher: Annotated[
        Optional[list[str]],
        typer.Option(help="Judge whose judgments teach. Repeatable. All but local judges unless given."),
    ] = None,
    physicians: Annotated[
        Optional[list[Path]],
        typer.Option(
            help="Physicians' scores (.jsonl, .csv, .xlsx, Label Studio .json). Repeatable. Those of the runs unless "
            "given.",
        ),
    ] = None,
    validation_share: Annotated[
        float, typer.Option(min=0.01, max=0.9, help="Part of the conversations held out.")
    ] = 0.1,
    seed: Annotated[int, typer.Option(help="Of the split.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object on stdout.")] = False,
) -> None:
    """Make a training set from scores.

    A physician's score outranks the teacher's; conversations stay on one side of the split.
    """
    from medjudge.annotate.scores import read_physician_scores
    from medjudge.cli.output import console, print_json
    from medjudge.distill.training_set import build_training_set
    from medjudge.store import Run, write_json, write_whole

    for name in ("train.jsonl", "validation.jsonl"):
        if (out / name).exists():
            raise InputError(f"--out {out}: holds {name} already; remove it, or choose another folder")
    questions: dict[str, Any] = {}
    answers: dict[Any, Any] = {}
    judgments, scores = [], []
    for path in runs:
        run = Run.existing(path)
        for question in run.questions():
            if questions.setdefault(question.id, question) != question:
                raise InputError(
                    f"{path}: question {question.id} differs from that of another run; the ids must be unique"
                )
        for answer in run.answers():
            if answers.setdefault(answer.key, answer) != answer:
                raise InputError(
                    f"{path}: the answer of {answer.model} to {answer.question_id} differs from that of another run; "
                    "give the models names of their own"
                )
        names = _teachers(run) if teacher is None else [name for name in teacher if name in run.judges()]
        for name in names:
            judgments += run.judgments(name)
        scores += run.physician_scores() if physicians is None else []
    for file in physicians or []:
        scores += read_physician_scores(file)
    for name in teacher or []:
        if not any(judgment.judge == name for judgment in judgments):
            raise InputError(f"--teacher {name}: no judgments of it in {', '.join(map(str, runs))}")
    made = build_training_set(
        list(questions.values()), list(answers.values()), judgments, scores, validation_share, seed
    )
    for name, lines in (("train", made.train), ("validation", made.validation)):
        write_whole(out / f"{name}.jsonl", "".join(line.model_dump_json() + "\n" for line in lines))
    write_json(out / "summary.json", made.summary)
    if as_json:
        print_json(made.summary)
    screen = console(as_json)
    for side in ("train", "validation"):
        part = made.summary[side]
        screen.print(
            f"{side}: {part['answers']} answers to {part['questions']} questions, levels {part['levels']}, "
            f"from {part['sources']}"
        )
    difference = made.summary["teacher_against_physicians"]
    if difference["answers"]:
        screen.print(
            f"teacher and physicians both scored {difference['answers']} answers and differ in level on "
            f"{difference['other_level']}; usable by the teacher only {difference['usable_by_teacher_only']}, by the "
            f"physicians only {difference['usable_by_physicians_only']}"
        )
    screen.print(
        f"{out / 'summary.json'}\nNext: accelerate launch recipes/train_judge.py "
        f"--config configs/judges/minilm-ordinal.yaml --train_file {out / 'train.jsonl'} "
        f"--validation_file {out / 'validation.jsonl'}"
    )


def _teachers(run: Any) -> list[str]:
    """The judges of a run that know more than a local judge: APIs and imported scores."""
    kinds = {name: entry["kind"] for name, entry in run.manifest().get("judges", {}).items()}
    return [name for name in run.judges() if kinds.get(name, "api") == "api"]
