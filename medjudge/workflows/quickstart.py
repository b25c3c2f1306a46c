"""`medjudge quickstart`: the full pipeline on the bundled sample."""

import shutil
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medjudge.benchmark.sample import NOTICE, sample_folder
from medjudge.benchmark.splits import held_out_groups
from medjudge.distill.training_set import ScoredAnswers, TrainingSetOptions, build_training_set
from medjudge.errors import InputError
from medjudge.files import write_whole
from medjudge.judge.open import QUICKSTART_MARK, built_in_folder, resolve_judge
from medjudge.judge.study import Study
from medjudge.models.loading import files_of_model
from medjudge.models.packaged import MINILM, MULTILINGUAL_E5
from medjudge.records import Answer, PhysicianScore, TrainingLine
from medjudge.report.page import write_page
from medjudge.scheme import LLMEVAL_MED
from medjudge.statistics.estimates import estimate_text
from medjudge.statistics.two_judges import Compared, compare
from medjudge.store import Run, read_questions, read_records, write_records
from medjudge.train.features import read_training_lines
from medjudge.train.similarity import fit_similarity_judge
from medjudge.workflows.judge import JudgeOptions
from medjudge.workflows.report import Scores, write_scores
from medjudge.workflows.run_folder import start_run
from medjudge.workflows.train import train_judge
from medjudge.workflows.validate import ScoreSource, ValidateOptions, validate_judge


@dataclass(frozen=True)
class QuickstartResult:
    """What the quickstart made and measured.

    Attributes:
        judge: The folder of the trained judge.
        studies: Agreement with the constructed levels: of the similarity baseline, of the built-in judge, and of the
            trained one.
        trained_minus_built_in: The two judges on the same answers, paired.
        scores: Usability rates by the trained judge.
        page: The HTML report.
    """

    judge: Path
    studies: tuple[Study, Study, Study]
    trained_minus_built_in: Compared
    scores: Scores
    page: Path

    def as_json(self) -> dict[str, Any]:
        """The object that `quickstart --json` prints."""
        return {
            "agreement": [study.model_dump(mode="json") for study in self.studies],
            "trained_minus_built_in": self.trained_minus_built_in.difference,
            "scores": self.scores.as_json(),
            "report": str(self.page),
            "judge": str(self.judge),
        }


class _Split(NamedTuple):
    """The sample's training part in files, and the number of answers that no judge sees before it is measured."""

    train: list[TrainingLine]
    validation: list[TrainingLine]
    train_file: Path
    validation_file: Path
    unseen: int


def run_quickstart(
    run: Path, judge: Path, epochs: int = 4, seed: int = 0, progress: Callable[[str], None] = print
) -> QuickstartResult:
    """Distils the sample, trains a judge, measures its agreement and writes a report, on the CPU and without a network.

    Args:
        run: The run folder to write; one of an earlier quickstart is replaced.
        judge: The judge folder to write; one of an earlier quickstart is replaced.
        epochs: Passes over the training set.
        seed: Of the split and the training.
        progress: Is called with a line at each step.

    Raises:
        InputError: A folder holds something that quickstart did not write, or a base model is not on this machine.
    """
    for path in (run, judge):
        _require_replaceable(path)
    for model in (MULTILINGUAL_E5, MINILM):
        files_of_model(model)
    for path in (run, judge):
        path.mkdir(parents=True, exist_ok=True)
        (path / QUICKSTART_MARK).touch()
    folder = Run(run)
    progress(f"[1/5] Sample: {NOTICE}")
    with folder.lock():
        for path in (run, judge):
            _clear(path)
        split = _split_sample(folder, seed)
        progress(
            f"      {len(split.train)} answers to train on, {len(split.validation)} to choose the checkpoint, "
            f"{split.unseen} that no judge sees"
        )
        built_in = _built_in(folder, progress)
        progress("[2/5] Similarity baseline: cosine of answer and reference, cut points fitted on the training part")
        with redirect_stdout(sys.stderr):  # the trainer prints its log; stdout is the command's own
            lines = read_training_lines(split.train_file)
            baseline = fit_similarity_judge(lines, split.train_file, run / "similarity")
        progress("[3/5] Training a local judge: all-MiniLM-L6-v2 with LoRA and an ordinal head")
        with redirect_stdout(sys.stderr):
            train_judge(
                "quickstart",
                train_file=split.train_file,
                validation_file=split.validation_file,
                output_dir=judge,
                num_train_epochs=epochs,
                seed=seed,
            )
        progress("[4/5] Judging the questions that no judge has seen")
        studies = _study(folder, baseline), built_in, _study(folder, judge)
        compared = _compared(folder, studies[2].judge, built_in.judge)
        progress(f"      {_which_is_better(compared)}")
        scores = write_scores(folder, studies[2].judge)
        progress("[5/5] Report")
        page = run / "report.html"
        write_page(page, [folder])
    return QuickstartResult(judge, studies, compared, scores, page)


def _built_in(run: Run, progress: Callable[[str], None]) -> Study:
    """Judges the unseen part with the judge that comes with the package, before anything is trained."""
    progress("      First the built-in judge, which was not trained on the sample")
    start = time.monotonic()
    study = _study(run, built_in_folder())
    agreement = estimate_text(study.overall["usable_agreement"])
    progress(f"      Usable agreement {agreement}, after {time.monotonic() - start:.0f} s")
    return study


def _compared(run: Run, trained: str, built_in: str) -> Compared:
    """The trained and the built-in judge on the answers that both scored."""
    levels = {score.answer_key: score.level for score in run.physician_scores()}
    first, second = ({each.answer_key: each.score for each in run.judgments(name)} for name in (trained, built_in))
    keys = [key for key in levels if first.get(key) and second.get(key)]
    groups = {question.id: question.group for question in run.questions()}
    return compare(
        np.array([first[key] for key in keys]),
        np.array([second[key] for key in keys]),
        np.array([levels[key] for key in keys]),
        np.array([groups[key.question_id] for key in keys]),
    )


def _which_is_better(compared: Compared) -> str:
    difference = compared.difference["usable_agreement"]
    low, high = difference["low"], difference["high"]
    if low is None or high is None or low <= 0 <= high:
        verdict = "Which judge is better is inconclusive"
    else:
        verdict = "The trained judge is better" if low > 0 else "The built-in judge is better"
    return f"{verdict}: usable agreement, trained minus built-in, {estimate_text(difference)}"


def _study(run: Run, judge: Path) -> Study:
    source = ScoreSource(run.physician_scores(), run.physicians_file.name)
    options = ValidateOptions(judging=JudgeOptions(device="cpu"))
    return validate_judge(run, resolve_judge(str(judge)), source, options)


def _require_replaceable(folder: Path) -> None:
    if folder.exists() and any(folder.iterdir()) and not (folder / QUICKSTART_MARK).exists():
        raise InputError(f"{folder}: exists and was not written by quickstart; choose another folder")


def _clear(folder: Path) -> None:
    """Empties a folder but for its mark and its lock, so that a quickstart that was killed can be run again."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif not entry.name.startswith("."):
            entry.unlink()


def _split_sample(run: Run, seed: int) -> _Split:
    """Holds a third of the conversations out into the run folder; the rest becomes the training set."""
    source = sample_folder()
    questions = read_questions(source / "questions.jsonl")
    answers = read_records(source / "answers.jsonl", Answer)
    scores = read_records(source / "physician_scores.jsonl", PhysicianScore)
    held_out = held_out_groups(questions, 0.33, seed)
    unseen = {question.id for question in questions if question.group in held_out}

    unseen_questions = [question for question in questions if question.id in unseen]
    unseen_answers = [answer for answer in answers if answer.question_id in unseen]
    start_run(run, unseen_questions, LLMEVAL_MED, "sample (unseen part)", {"quickstart": True, "seed": seed})
    run.update_manifest(notes=[NOTICE])
    write_records(run.answers_file, unseen_answers)
    write_records(run.physicians_file, [score for score in scores if score.question_id in unseen])
    sources = ScoredAnswers(
        questions=[question for question in questions if question.id not in unseen],
        answers=[answer for answer in answers if answer.question_id not in unseen],
        judgments=[],
        scores=[score for score in scores if score.question_id not in unseen],
    )
    made = build_training_set(sources, TrainingSetOptions(validation_share=0.15, seed=seed))
    train_file, validation_file = (run.path / "training" / f"{name}.jsonl" for name in ("train", "validation"))
    for file, lines in ((train_file, made.train), (validation_file, made.validation)):
        write_whole(file, "".join(line.model_dump_json() + "\n" for line in lines))
    return _Split(made.train, made.validation, train_file, validation_file, len(unseen_answers))
