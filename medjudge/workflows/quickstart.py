"""`medjudge quickstart`: the full pipeline on the bundled sample."""

import shutil
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from textwrap import shorten
from typing import Any

import numpy as np

from medjudge.answer.conversation import answer_questions
from medjudge.answer.transformers_engine import TransformersEngine
from medjudge.benchmark.sample import NOTICE, sample_folder
from medjudge.benchmark.splits import held_out_groups
from medjudge.distill.training_set import ScoredAnswers, build_training_set
from medjudge.errors import InputError
from medjudge.files import write_whole
from medjudge.judge.open import BUILT_IN, QUICKSTART_MARK, JudgeOptions, resolve_judge
from medjudge.judge.study_summary import Measures
from medjudge.models.loading import files_of_model
from medjudge.models.packaged import GEMMA, MULTILINGUAL_E5
from medjudge.records import TrainingLine, grouped
from medjudge.report.page import report_page
from medjudge.statistics.estimates import Estimate, estimate_text
from medjudge.store import Run, write_records
from medjudge.train.similarity import fit_similarity_judge
from medjudge.validation.answers import paired
from medjudge.validation.other_judges import against_teacher
from medjudge.validation.records import Study
from medjudge.workflows.distill import write_unseen
from medjudge.workflows.report import Scores, write_scores
from medjudge.workflows.train import train_judge
from medjudge.workflows.validate import ScoreSource, ValidateOptions, validate_judge


@dataclass(frozen=True)
class QuickstartResult:
    """Files and measurements of the quickstart.

    Attributes:
        judge: The folder of the trained judge.
        studies: Of the similarity baseline, of the built-in judge, and of the trained one.
        trained_minus_built_in: The difference between the two judges on the same answers, paired.
        scores: Usability rates by the trained judge.
        page: The HTML report.
    """

    judge: Path
    studies: tuple[Study, Study, Study]
    trained_minus_built_in: Measures
    scores: Scores
    page: Path

    def as_json(self) -> dict[str, Any]:
        """The object that `quickstart --json` prints."""
        return {
            "agreement": [study.model_dump(mode="json") for study in self.studies],
            "trained_minus_built_in": self.trained_minus_built_in,
            "scores": self.scores.as_json(),
            "report": str(self.page),
            "judge": str(self.judge),
        }


def run_quickstart(
    run: Path, judge: Path, epochs: int = 1, seed: int = 0, progress: Callable[[str], None] = print
) -> QuickstartResult:
    """Answers, judges, distils, trains and validates on the bundled sample, on the CPU and without a network.

    Args:
        run: The run folder to write, and `judge` the judge folder; those of an earlier quickstart are replaced.
        epochs: Passes over the training set.
        seed: Of the split and the training.
        progress: Is called with a line at each step.

    Raises:
        InputError: A folder holds something that quickstart did not write, or a base model is not on this machine.
    """
    for path in (run, judge):
        if path.exists() and any(path.iterdir()) and not (path / QUICKSTART_MARK).exists():
            raise InputError(f"{path}: exists and was not written by quickstart; choose another folder")
    for model in (GEMMA, MULTILINGUAL_E5):
        files_of_model(model)
    for path in (run, judge):
        path.mkdir(parents=True, exist_ok=True)
        (path / QUICKSTART_MARK).touch()
    folder = Run(run)
    with folder.lock():
        for path in (run, judge):
            _clear(path)
        with _step(f"[1/5] Sample: {NOTICE}", progress):
            to_learn, unseen = _split_sample(folder, seed)
            progress(f"      {len(to_learn)} answers to learn from, {unseen} that no judge sees")
        with _step(f"[2/5] Answer: the language model {GEMMA} answers two questions, 40 tokens each", progress):
            _answer(progress)
        with _step("[3/5] Judge: a similarity baseline and the built-in judge score the unseen answers", progress):
            scores_file = sample_folder() / "physician_scores.jsonl"
            with redirect_stdout(sys.stderr):
                baseline = _study(folder, fit_similarity_judge(to_learn, scores_file, run / "similarity"))
            built_in = _study(folder, BUILT_IN)
            for study in (baseline, built_in):
                progress(f"      {study.judge}: usable agreement {estimate_text(study.overall['usable_agreement'])}")
        with _step("[4/5] Distil and train: a judge of your own continues from the built-in judge", progress):
            train_file, validation_file = _distil(folder, to_learn, seed, progress)
            with redirect_stdout(sys.stderr):  # the trainer prints its log; stdout is the command's own
                train_judge(
                    "quickstart",
                    train_file=train_file,
                    validation_file=validation_file,
                    output_dir=judge,
                    num_train_epochs=epochs,
                    seed=seed,
                )
        with _step("[5/5] Validate and report: the trained judge against the built-in one, unseen answers", progress):
            trained = _study(folder, judge)
            difference = _difference(folder, trained.judge, built_in.judge)
            progress(f"      {_which_is_better(difference['usable_agreement'])}")
            scores = write_scores(folder, trained.judge)
            page = run / "report.html"
            write_whole(page, report_page([folder]))
    return QuickstartResult(judge, (baseline, built_in, trained), difference, scores, page)


@contextmanager
def _step(title: str, progress: Callable[[str], None]) -> Iterator[None]:
    """Print what a step does, and at its end how long it took."""
    progress(title)
    start = time.monotonic()
    yield
    progress(f"      Took {time.monotonic() - start:.0f} s")


def _answer(progress: Callable[[str], None]) -> None:
    """Answers the two shortest questions in English with a base model."""
    engine = TransformersEngine(GEMMA, device="cpu", max_new_tokens=40, temperature=0)
    questions = Run(sample_folder()).questions()
    english = [question for question in questions if question.language == "en" and question.round == 1]
    shortest = sorted(english, key=lambda question: len(question.prompt))[:2]
    prompts = {question.id: question.prompt for question in shortest}
    for answer in answer_questions(engine, shortest, samples=1, seed=0):
        progress(f"      Question: {shorten(prompts[answer.question_id], 100)}")
        progress(f"      Answer:   {shorten(answer.text, 100)}")


def _difference(run: Run, trained: str, built_in: str) -> Measures:
    """The trained minus the built-in judge on the answers that both scored."""
    scores = run.physician_scores()
    pairs = paired(run.questions(), run.judgments(trained), scores, run.judgments(built_in), run.scheme())
    compared = against_teacher(pairs, built_in)
    return {} if compared is None else compared.difference


def _which_is_better(difference: Estimate) -> str:
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


def _clear(folder: Path) -> None:
    """Empties a folder but for its mark and its lock, so that a quickstart that was killed can be run again."""
    for entry in folder.iterdir():
        if entry.is_dir():
            shutil.rmtree(entry)
        elif not entry.name.startswith("."):
            entry.unlink()


def _split_sample(run: Run, seed: int) -> tuple[list[TrainingLine], int]:
    """Holds an eighth of the conversations out in the run folder; gives what to learn from, and how many are unseen."""
    sample = Run(sample_folder())
    sources = ScoredAnswers(sample.questions(), sample.answers(), [], sample.physician_scores())
    held_out = held_out_groups(sources.questions, 0.12, seed)
    ids = {question.id for question in sources.questions}
    seen = {question.id for question in sources.questions if question.group not in held_out}
    unseen = sources.of_questions(ids - seen)
    write_unseen(run, unseen, "sample (unseen part)", {"quickstart": True, "seed": seed})
    run.update_manifest(notes=[NOTICE])
    made = build_training_set(sources.of_questions(seen))
    return [*made.train, *made.validation], len(unseen.answers)


def _distil(run: Run, lines: list[TrainingLine], seed: int, progress: Callable[[str], None]) -> list[Path]:
    """Draws whole conversations: 40 scored answers to train on and 10 others to choose the checkpoint."""
    files = []
    conversations = grouped(lines, lambda line: line.question.group)
    order = np.random.default_rng(seed).permutation(sorted(conversations)).tolist()
    for name, count in (("train", 40), ("validation", 10)):
        drawn: list[TrainingLine] = []
        for group in order:
            if len(drawn) + len(conversations.get(group, ())) <= count:
                drawn += conversations.pop(group, [])
        files.append(run.path / "training" / f"{name}.jsonl")
        write_records(files[-1], drawn)
        progress(f"      {len(drawn)} scored answers in {files[-1]}")
    return files
