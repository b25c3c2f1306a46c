"""`medjudge quickstart`: the whole road on the bundled sample."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medjudge.cli import options

if TYPE_CHECKING:
    from medjudge.store import Run

_STEPS = 5


def quickstart(
    run: Annotated[Path, typer.Option(help="Run folder to write; an existing one is replaced.")] = Path(
        "runs/quickstart"
    ),
    judge: Annotated[Path, typer.Option(help="Judge folder to write; an existing one is replaced.")] = Path(
        "judges/quickstart"
    ),
    epochs: Annotated[int, typer.Option(min=1, help="Times through the training set.")] = 4,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
) -> None:
    """Go the whole road on the bundled sample.

    Distil, train a judge, measure its agreement, report: on the CPU, with no network and no key, in a few minutes.
    Replaces its own folders from an earlier run.
    """
    import sys
    import time
    from contextlib import redirect_stdout

    options.go_offline()
    from medjudge.benchmark.sample import NOTICE
    from medjudge.cli.output import agreement_table, console, leaderboard_table, print_json
    from medjudge.judge.open import resolve_judge
    from medjudge.report.page import write_page
    from medjudge.store import Run
    from medjudge.workflows.judge import JudgeOptions
    from medjudge.workflows.report import write_scores
    from medjudge.workflows.validate import validate_judge

    start = time.monotonic()
    screen = console(as_json)
    for folder in (run, judge):
        _replaceable(folder)
    for folder in (run, judge):
        _mark(folder)
    place = Run(run)

    screen.print(f"[1/{_STEPS}] Sample: {NOTICE}")
    with place.lock():
        for folder in (run, judge):
            _clear(folder)
        lines = _split_sample(place, seed)
        screen.print(f"      {lines}")
        screen.print(
            f"[2/{_STEPS}] Similarity baseline: cosine of answer and reference, cut points fitted on the training part"
        )
        with redirect_stdout(sys.stderr):  # the trainer prints its log; stdout is the command's own
            baseline = _fit_baseline(place)
        screen.print(f"[3/{_STEPS}] Training a local judge: all-MiniLM-L6-v2 with LoRA and an ordinal head")
        with redirect_stdout(sys.stderr):
            _train(place, judge, epochs, seed)
        screen.print(f"[4/{_STEPS}] Judging the questions that neither has seen")
        judging = JudgeOptions(device="cpu")
        studies = [
            validate_judge(place, resolve_judge(str(folder)), place.physician_scores(), judging)
            for folder in (baseline, judge)
        ]
        scores = write_scores(place, studies[-1].judge).rates
        screen.print(f"[5/{_STEPS}] Report")
        page = run / "report.html"
        write_page(page, [place])

    title = f"\nAgreement with the sample's constructed levels ({studies[0].questions} unseen questions, 95 % interval)"
    if as_json:
        print_json(
            {
                "agreement": [study.model_dump(mode="json") for study in studies],
                "scores": scores,
                "report": str(page),
                "judge": str(judge),
            }
        )
    screen.print(leaderboard_table(scores, f"\nUsability rates of the sample's five answer sets by judge {judge.name}"))
    screen.print(agreement_table(studies, title))
    screen.print(NOTICE)
    screen.print(
        f"\nDone in {time.monotonic() - start:.0f} s. Report: {page}\n"
        "Next: medjudge eval --judge local --benchmark FILE --answers FILE   (local is now the judge just trained)"
    )


def _replaceable(folder: Path) -> None:
    """Only what an earlier quickstart wrote may be replaced."""
    from medjudge.errors import InputError

    if folder.exists() and any(folder.iterdir()) and not (folder / ".quickstart").exists():
        raise InputError(f"{folder}: exists and was not written by quickstart; choose another folder")


def _mark(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / ".quickstart").touch()


def _clear(folder: Path) -> None:
    """Empties a folder but for its mark and its lock: what is killed half way can be done again."""
    import shutil

    for inside in folder.iterdir():
        if inside.is_dir():
            shutil.rmtree(inside)
        elif not inside.name.startswith("."):
            inside.unlink()


def _split_sample(run: "Run", seed: int) -> str:
    """Holds a third of the conversations out into the run folder; the rest becomes the training set."""
    from medjudge.benchmark.sample import NOTICE, sample_folder
    from medjudge.benchmark.splits import held_out_groups
    from medjudge.distill.training_set import ScoredAnswers, TrainingSetOptions, build_training_set
    from medjudge.files import write_whole
    from medjudge.records import Answer, PhysicianScore
    from medjudge.scheme import LLMEVAL_MED
    from medjudge.store import read_questions, read_records, write_records
    from medjudge.workflows.run_folder import start_run

    source = sample_folder()
    questions = read_questions(source / "questions.jsonl")
    answers = read_records(source / "answers.jsonl", Answer)
    scores = read_records(source / "physician_scores.jsonl", PhysicianScore)
    unseen = held_out_groups(questions, 0.33, seed)
    kept_apart = {question.id for question in questions if question.group in unseen}

    start_run(
        run,
        [one for one in questions if one.id in kept_apart],
        LLMEVAL_MED,
        "sample (unseen part)",
        {"quickstart": True, "seed": seed},
    )
    run.update_manifest(notes=[NOTICE])
    write_records(run.answers_file, [one for one in answers if one.question_id in kept_apart])
    write_records(run.physicians_file, [one for one in scores if one.question_id in kept_apart])
    sources = ScoredAnswers(
        questions=[one for one in questions if one.id not in kept_apart],
        answers=[one for one in answers if one.question_id not in kept_apart],
        judgments=[],
        scores=[one for one in scores if one.question_id not in kept_apart],
    )
    made = build_training_set(sources, TrainingSetOptions(validation_share=0.15, seed=seed))
    for name, lines in (("train", made.train), ("validation", made.validation)):
        write_whole(run.path / "training" / f"{name}.jsonl", "".join(line.model_dump_json() + "\n" for line in lines))
    return (
        f"{len(made.train)} answers to train on, {len(made.validation)} to choose the checkpoint, "
        f"{5 * len(kept_apart)} that neither judge sees"
    )


def _fit_baseline(run: "Run") -> Path:
    from medjudge.train.features import read_training_lines
    from medjudge.train.similarity import fit_similarity_judge

    source = run.path / "training" / "train.jsonl"
    return fit_similarity_judge(read_training_lines(source), source, run.path / "similarity")


def _train(run: "Run", judge: Path, epochs: int, seed: int) -> None:
    from medjudge.workflows.train import train_judge

    train_judge(
        "quickstart",
        train_file=run.path / "training" / "train.jsonl",
        validation_file=run.path / "training" / "validation.jsonl",
        output_dir=judge,
        num_train_epochs=epochs,
        seed=seed,
    )
