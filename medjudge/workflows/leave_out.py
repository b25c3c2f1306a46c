"""The cost of the unseen: judges trained without one model or category each, and one trained on everything."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from medjudge.errors import InputError
from medjudge.judge.open import ImportedRef, JudgeOptions, resolve_judge
from medjudge.records import AnswerKey, Judgment, PhysicianScore
from medjudge.statistics.bootstrap import Resampling
from medjudge.store import Run, write_records
from medjudge.train.features import read_training_lines
from medjudge.train.leave_out import By, train_folds
from medjudge.validation.other_judges import LeaveOutStudy, leave_out_rows
from medjudge.validation.study import Settings
from medjudge.workflows.judge import judge_answers
from medjudge.workflows.physician_scores import require_unseen


class LeaveOut(NamedTuple):
    """The values that folds leave out in turn, the YAML of a judge, and a folder that `medjudge distill` wrote."""

    by: By
    config: Path
    training_set: Path

    @property
    def training_files(self) -> tuple[Path, Path]:
        """`train.jsonl` and `validation.jsonl`."""
        return self.training_set / "train.jsonl", self.training_set / "validation.jsonl"

    def check(self) -> None:
        """Raises InputError where a file is missing."""
        for file in (self.config, *self.training_files):
            if not file.is_file():
                raise InputError(f"--leave-out {self.by}: {file}: no such file")


def leave_out_study(
    run: Run, scores: Sequence[PhysicianScore], judging: JudgeOptions, leave_out: LeaveOut, settings: Settings
) -> LeaveOutStudy:
    """Trains the folds, judges with each what it never saw, and compares it with the judge that saw everything.

    Raises:
        InputError: There are fewer than two models or categories, the training set holds scored questions, or the
            recipe refused a fold.
    """
    questions = run.questions()
    answers_by_value = _answers_by_value(run, scores, leave_out)
    taught = frozenset(line.question.id for file in leave_out.training_files for line in read_training_lines(file))
    require_unseen(ImportedRef(str(leave_out.training_set), taught), scores, questions)
    # A run of its own, so that the judges of the folds are not listed among those of the run.
    fold_run = Run(run.path / "leave-out")
    trained = train_folds(
        leave_out.config,
        *leave_out.training_files,
        leave_out.by,
        sorted(answers_by_value),
        fold_run.path / "judges",
        ("--use_cpu", "true") if judging.device == "cpu" else (),
    )

    def judged(folder: Path, keys: set[AnswerKey]) -> list[Judgment]:
        judge_ref = resolve_judge(str(folder))
        require_unseen(judge_ref, scores, questions)
        return judge_answers(fold_run, judge_ref, judging, keys)

    with fold_run.lock():
        fold_run.write_questions(questions, run.scheme())
        write_records(fold_run.answers_file, run.answers())
        seen = judged(trained.everything, set().union(*answers_by_value.values()))
        unseen = {value: judged(trained.without[value], keys) for value, keys in sorted(answers_by_value.items())}
    how: Resampling = {"resamples": settings.resamples, "seed": settings.seed}
    rows = leave_out_rows(leave_out.by, questions, unseen, seen, scores, run.scheme(), **how)
    rows = [row.model_copy(update={"removed": trained.removed.get(row.left_out or "")}) for row in rows]
    return LeaveOutStudy(by=leave_out.by, config=leave_out.config.name, rows=rows)


def _answers_by_value(run: Run, scores: Sequence[PhysicianScore], leave_out: LeaveOut) -> dict[str, set[AnswerKey]]:
    """The scored answers of each model or category."""
    category = {question.id: question.category for question in run.questions()}
    answers: dict[str, set[AnswerKey]] = {}
    for score in scores:
        if score.question_id in category:
            value = score.model if leave_out.by == "model" else category[score.question_id]
            answers.setdefault(value, set()).add(score.answer_key)
    if len(answers) < 2:
        raise InputError(
            f"--leave-out {leave_out.by}: physicians scored answers of one {leave_out.by} only; two are needed"
        )
    return answers
