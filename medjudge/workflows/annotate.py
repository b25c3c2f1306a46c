"""Sends forms to physicians, and imports the forms that come back: scores, pairs, and verdicts on items."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from medjudge.annotate.add_scores import Added, add_records
from medjudge.annotate.adjudicate import open_disputes
from medjudge.annotate.draw import VerdictOptions, draw_items, draw_pairs, draw_plan, read_deferred
from medjudge.annotate.intake import Checked, Intake, require_valid, write_problem_form
from medjudge.annotate.plan import (
    ItemPlan,
    PairPlan,
    Plan,
    PlanOptions,
    RaterProgress,
    earlier_file,
    plan_file,
    progress_by_rater,
    read_plan,
    read_plans,
    write_plan,
)
from medjudge.annotate.tasks import LEVELS, PAIRS, Task
from medjudge.annotate.units import Unit
from medjudge.annotate.workbook import read_workbook, write_workbook
from medjudge.errors import InputError
from medjudge.store import Run
from medjudge.validation.physicians import RaterAgreement, agreement_of_physicians
from medjudge.workflows.compare import models_to_compare
from medjudge.workflows.run_folder import likely_judge


class WithoutScore(NamedTuple):
    """The number of answers of a plan that the run's judge left unscored."""

    judge: str
    answers: int


@dataclass(frozen=True)
class ExportedForms:
    """The forms of a plan.

    Attributes:
        files: The workbook of each rater.
        reused: Whether the run had this plan already.
        replaced_plan: The file that keeps the plan which this one replaced; None where there was none.
        without_score: None where the run has no judgments yet.
    """

    plan: Plan
    files: dict[str, Path]
    reused: bool
    replaced_plan: Path | None
    without_score: WithoutScore | None

    def as_json(self) -> dict[str, Any]:
        return {
            "answers": len(self.plan.items),
            "left_out": self.plan.left_out,
            "without_score": self.without_score and self.without_score._asdict(),
            "raters": {
                rater: {"answers": len(self.plan.by_rater[rater]), "files": [str(file)]}
                for rater, file in self.files.items()
            },
        }


@dataclass(frozen=True)
class ImportedScores:
    """The result of an import.

    Attributes:
        to_fix: Forms with the items that could not be imported.
        progress: By rater.
        agreement: The physicians with each other; None where no answer was scored by two yet.
        disputed: Answers on which they differ too much, and that nobody adjudicated.
    """

    added: Added
    checked: Checked
    to_fix: list[Path]
    progress: dict[str, RaterProgress]
    agreement: RaterAgreement | None
    disputed: int = 0

    @property
    def informative(self) -> bool:
        """True if some answers are no random sample, so that the scores cannot validate a judge."""
        return any(isinstance(plan, Plan) and plan.which != "random" for plan in self.checked.plans)

    def as_json(self) -> dict[str, Any]:
        return {
            **self.added._asdict(),
            "not_scored": self.checked.unscored,
            "only_comments": self.checked.only_comments,
            "missing": self.checked.missing,
            "wrong": [
                {"file": str(problem.path), "place": str(problem.place), "what": problem.what}
                for problem in self.checked.problems
            ],
            "to_mend": [*map(str, self.to_fix)],
            "raters": {
                rater: {**progress._asdict(), "open": progress.open} for rater, progress in self.progress.items()
            },
            "agreement": self.agreement and self.agreement.model_dump(mode="json"),
            "disputed": self.disputed,
        }


def export_forms(
    run: Run | Path | str,
    options: PlanOptions,
    *,
    out: Path | None = None,
    new_plan: bool = False,
) -> ExportedForms:
    """Draws a plan of who scores what, and writes a scoring form for each rater.

    The same options write the same forms again.

    Args:
        out: Folder for the forms; None for `annotation/forms/` in the run.
        new_plan: Draw again even though the run has a plan; the old one is kept, and its forms can still be imported.

    Raises:
        InputError: A form exists already, the run has another plan, or no plan can be drawn.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    existing = None if new_plan else _existing_plan(run, options)
    plan = existing or draw_plan(run, options)
    folder = out or run.path / "annotation" / "forms"
    files = _form_files(LEVELS, plan, folder)
    _write_forms(LEVELS, LEVELS.units(run, plan), files)
    return ExportedForms(plan, files, existing is not None, write_plan(run, plan), _without_score(run, plan))


def import_scores(
    run: Run | Path | str, files: Sequence[Path], *, accept_valid: bool = False, replace: bool = False
) -> ImportedScores:
    """Imports the scores of forms that came back; a file that was imported before adds nothing.

    Args:
        files: Filled-in workbooks.
        accept_valid: Import the valid scores, and write the other rows into new forms to fix.
        replace: Let a changed score replace the one imported before.

    Raises:
        InputError: A form has a problem and `accept_valid` is not set. The message lists all problems of all forms, and
            nothing is imported.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    forms = [read_workbook(file, run.scheme()) for file in dict.fromkeys(files)]
    intake = Intake(run, LEVELS, read_plans(run), replace)
    for form in forms:
        intake.add_form(form)
    checked = intake.checked()
    if not accept_valid:
        require_valid(checked)
    added = add_records(run, LEVELS, checked.records, replace)
    to_fix = [path for form in forms if (path := write_problem_form(form, checked.problems)) is not None]
    return ImportedScores(
        added,
        checked,
        to_fix,
        progress_by_rater(run, [plan for plan in checked.plans if isinstance(plan, Plan)]),
        agreement_of_physicians(run.questions(), run.physician_scores()),
        open_disputes(run),
    )


class VerdictForms(NamedTuple):
    """The forms of a plan of pairs or items: rater -> file."""

    plan: PairPlan | ItemPlan
    files: dict[str, Path]


class AddedVerdicts(NamedTuple):
    """The numbers of verdicts that were new, in the run already, replaced or still blank; and all problems."""

    new: int
    same: int
    replaced: int
    blank: int
    problems: list[str]


def export_verdict_forms(run: Run, task: Task, options: VerdictOptions, out: Path | None = None) -> VerdictForms:
    """Draws a plan of pairs or items, and writes a form for each rater; the same options write the same forms again.

    Args:
        options: `models` may be empty for all of the run.
        out: Folder for the forms; None for `annotation/pair_forms/` or `annotation/item_forms/` in the run.

    Raises:
        InputError: A form exists already, the run has another plan, or no plan can be drawn.
    """
    plan: PairPlan | ItemPlan
    if task is PAIRS:
        plan = draw_pairs(run, options._replace(models=models_to_compare(run, options.models)))
    else:
        plan = draw_items(run, options)
    folder = out or run.path / "annotation" / f"{task.form_file.removesuffix('.yaml')}s"
    files = _form_files(task, plan, folder)
    task.write_plan(run, plan)
    _write_forms(task, task.units(run, plan), files)
    return VerdictForms(plan, files)


def import_verdicts(
    run: Run, task: Task, files: Sequence[Path], replace: bool = False, accept_valid: bool = False
) -> AddedVerdicts:
    """Imports workbooks (.xlsx) and records (.jsonl) of pairs, or verdicts on items.

    Args:
        replace: Whether a verdict replaces a different one by the same rater on the same pair or item.
        accept_valid: Whether to import what has no problem; the problems are returned.

    Raises:
        InputError: With all problems of all files, by place, unless `accept_valid`; nothing is imported.
    """
    forms = [file for file in dict.fromkeys(files) if file.suffix.lower() != ".jsonl"]
    intake = Intake(run, task, [task.read_plan(run)] if forms else [], replace)
    for file in dict.fromkeys(files):
        if file in forms:
            intake.add_form(read_workbook(file, run.scheme(), task))
        else:
            intake.add_records(file)
    checked = intake.checked()
    if not accept_valid:
        require_valid(checked, task)
    added = add_records(run, task, checked.records, replace)
    problems = ["\n    ".join(checked.lines(problem, problem.path)) for problem in checked.problems]
    return AddedVerdicts(*added, checked.unscored, problems)


def _form_files(task: Task, plan: Plan | PairPlan | ItemPlan, folder: Path) -> dict[str, Path]:
    """The workbook of each rater.

    Raises:
        InputError: One of them exists.
    """
    files = {rater: folder / f"{rater}.xlsx" for rater in plan.by_rater}
    if taken := next((file for file in files.values() if file.exists()), None):
        raise InputError(f"{taken}: exists already and may hold {task.verdict}s; move it away, or choose another --out")
    return files


def _write_forms(task: Task, units: Mapping[str, Sequence[Unit]], files: Mapping[str, Path]) -> None:
    for rater, listed in units.items():
        write_workbook(files[rater], rater, listed, task)


def _existing_plan(run: Run, options: PlanOptions) -> Plan | None:
    """The run's plan, if it was drawn by these options; None where the run has none.

    Raises:
        InputError: The run has another plan. Its forms may be out, even if none came back yet.
    """
    if not plan_file(run).exists():
        return None
    plan = read_plan(run)
    if plan.options.same_plan(options):
        if plan.which == "deferred" and plan.list_sha256 != read_deferred(run).sha256:
            raise InputError(
                f"{run.deferred_file}: changed since the plan was made; --new-plan takes the new list and keeps the "
                f"plan as {earlier_file(run).name}"
            )
        return plan
    scored = sum(progress.scored for progress in progress_by_rater(run, [plan]).values())
    raise InputError(
        f"{plan_file(run)}: another plan, made with {plan.options.command_line()} ({scored} scores imported), and its "
        "forms may be out; the same options write them again, --new-plan makes a new plan and keeps this one as "
        f"{earlier_file(run).name}"
    )


def _without_score(run: Run, plan: Plan) -> WithoutScore | None:
    judge = plan.judge or likely_judge(run)
    if judge is None or judge not in run.judges():
        return None
    scored = {judgment.answer_key for judgment in run.judgments(judge) if judgment.score is not None}
    return WithoutScore(judge, sum(item.key not in scored for item in plan.items))
