"""`medjudge distill`: judgments, physicians' scores and synthetic answers -> a training set."""

import json
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Optional

import typer

from medjudge.cli import options
from medjudge.errors import InputError


class _Sources(NamedTuple):
    """Everything that the run folders hold, joined."""

    questions: list[Any]
    answers: list[Any]
    judgments: list[Any]
    scores: list[Any]


def distill(
    runs: options.RunFolders,
    out: options.Out,
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
    calibration: Annotated[
        bool,
        typer.Option(
            "--calibration/--no-calibration",
            help="Map a teacher's scores to the physicians' levels first, where that helps on held-out scores.",
        ),
    ] = True,
    synthetic: Annotated[
        int, typer.Option(min=0, help="Add this many answers made from references to deserve 5 to 1.")
    ] = 0,
    weight: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="SOURCE=W",
            help="Weight of a source's lines: physician, constructed, teacher 1, synthetic 0.5, because faults made by "
            "rule are cruder than real ones and shall not outvote them. Repeatable.",
        ),
    ] = None,
    keep_out: Annotated[
        Optional[list[Path]],
        typer.Option(
            help="Run folder, or file with question ids, that a judge will be validated on: no line is made of its "
            "questions, of the same texts, or of their conversations. Repeatable.",
        ),
    ] = None,
    validation_share: Annotated[
        float, typer.Option(min=0.01, max=0.9, help="Part of the conversations held out.")
    ] = 0.1,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Make a training set from scores.

    A physician's score outranks the teacher's; conversations stay on one side of the split.
    """
    from medjudge.cli.distill_screen import said
    from medjudge.cli.output import console, print_json
    from medjudge.distill.checks import check_training_set
    from medjudge.distill.training_set import build_training_set, side
    from medjudge.files import write_json, write_whole

    for name in ("train.jsonl", "validation.jsonl"):
        if (out / name).exists():
            raise InputError(f"--out {out}: holds {name} already; remove it, or choose another folder")
    weights = _weights(weight or [])
    sources, left_out = _without(_read(runs, teacher, physicians), keep_out or [])
    made = build_training_set(
        *sources, validation_share, seed, calibrate=calibration, weights=weights, synthetic=synthetic
    )
    checked = check_training_set(made.train, made.validation)
    summary = {
        **made.summary,
        "train": side(checked.train),
        "checks": checked.report | {"kept_out": left_out, "warnings": checked.warnings},
    }
    for name, lines in (("train", checked.train), ("validation", made.validation)):
        write_whole(out / f"{name}.jsonl", "".join(line.model_dump_json() + "\n" for line in lines))
    write_json(out / "summary.json", summary)
    if as_json:
        print_json(summary)
    screen = console(as_json)
    for line in said(summary):
        screen.print(line)
    screen.print(
        f"{out / 'summary.json'}\nNext: medjudge train --config minilm-ordinal "
        f"--train-file {out / 'train.jsonl'} --validation-file {out / 'validation.jsonl'}"
    )


def _weights(given: list[str]) -> dict[str, float]:
    from medjudge.distill.training_set import WEIGHTS

    weights = dict(WEIGHTS)
    names = ", ".join(weights)
    for one in given:
        source, _, value = one.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if source not in WEIGHTS or not 0 < number < float("inf"):
            raise InputError(f"--weight {one}: SOURCE=W with {names} and a number above 0 is expected")
        weights[source] = number
    return weights


def _read(runs: list[Path], teacher: list[str] | None, physicians: list[Path] | None) -> _Sources:
    from medjudge.annotate.scores import read_physician_scores
    from medjudge.store import Run

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
    return _Sources(list(questions.values()), list(answers.values()), judgments, scores)


def _teachers(run: Any) -> list[str]:
    """The judges of a run that know more than a local judge: APIs and imported scores."""
    kinds = {name: entry["kind"] for name, entry in run.manifest().get("judges", {}).items()}
    return [name for name in run.judges() if kinds.get(name, "api") == "api"]


def _without(sources: _Sources, files: list[Path]) -> tuple[_Sources, dict[str, Any]]:
    """Takes out what must stay unseen, before anything is learnt from it; says how much that was."""
    from medjudge.distill.checks import kept_out

    ids: set[str] = set()
    prompts: set[str] = set()
    for file in files:
        of_file, texts = _unseen(file)
        ids |= of_file
        prompts |= texts
    gone = kept_out(sources.questions, ids, prompts)
    known = {question.id for question in sources.questions}
    stay = _Sources(
        [one for one in sources.questions if one.id not in gone],
        *([one for one in part if one.question_id not in gone] for part in sources[1:]),
    )
    if gone and not stay.answers:
        raise InputError(
            f"--keep-out {', '.join(map(str, files))}: names all questions here, such as {min(gone)}; nothing is left "
            "to train on"
        )
    report = {
        "questions": len(gone),
        "answers": len(sources.answers) - len(stay.answers),
        "by_id": len(ids & known),
        "ids": sorted(gone),
    }
    return stay, report


def _unseen(path: Path) -> tuple[set[str], set[str]]:
    """The question ids, and where they are known the texts, of a run folder or of a file of records or scores."""
    from medjudge.annotate.scores import read_physician_scores
    from medjudge.files import read_text
    from medjudge.store import Run

    if path.is_dir():
        questions = Run.existing(path).questions()
        return {one.id for one in questions}, {one.prompt for one in questions}
    if path.suffix != ".jsonl":
        return {one.question_id for one in read_physician_scores(path)}, set()
    ids, texts = set(), set()
    for number, line in enumerate(read_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            fields = json.loads(line)
            # A training line holds its question, a question is one, all other records name theirs.
            question = fields.get("question", fields)
            ids.add(str(fields["question_id"] if "question_id" in fields else question["id"]))
        except (ValueError, AttributeError, KeyError, TypeError):
            raise InputError(
                f"--keep-out {path}, line {number}: names no question; records with id or question_id are expected"
            ) from None
        if "prompt" in question:
            texts.add(str(question["prompt"]))
    return ids, texts
