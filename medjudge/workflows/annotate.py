"""Sends forms to physicians, and imports the forms that come back: scores, pairs, and verdicts on items."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medjudge.annotate.add_scores import Added, add_records
from medjudge.annotate.adjudicate import open_disputes
from medjudge.annotate.draw import draw_plan, read_deferred
from medjudge.annotate.intake import Checked, check_forms, plans_of
from medjudge.annotate.plan import Plan, PlanOptions, RaterProgress, earlier_file, plan_file, read_plans, write_plan
from medjudge.annotate.tasks import LEVELS, PAIRS, Task
from medjudge.annotate.workbook import read_workbook, write_workbook
from medjudge.errors import InputError
from medjudge.files import file_sha256
from medjudge.store import Run
from medjudge.validation.physicians import RaterAgreement, agreement_of_physicians
from medjudge.workflows.compare import models_to_compare


@dataclass(frozen=True)
class ExportedForms:
    """The forms of a plan.

    Attributes:
        files: The workbook of each rater.
        reused: Whether the run had this plan already.
        replaced_plan: The file that keeps the plan which this one replaced; None where there was none.
    """

    task: Task
    plan: Plan
    files: dict[str, Path]
    reused: bool
    replaced_plan: Path | None

    def as_json(self) -> dict[str, Any]:
        """The object that `export --json` prints."""
        return {
            self.task.work: len(self.plan.items),
            "left_out": self.plan.left_out,
            "raters": {
                rater: {self.task.work: len(self.plan.by_rater[rater]), "files": [str(file)]}
                for rater, file in self.files.items()
            },
        }


@dataclass(frozen=True)
class ImportedForms:
    """The result of an import.

    Attributes:
        plans: Those that the forms belong to.
        progress: By rater.
        agreement: The physicians with each other; None where no answer was scored by two yet.
        disputed: Answers on which they differ too much, and that nobody adjudicated.
    """

    task: Task
    added: Added
    checked: Checked
    plans: list[Plan]
    progress: dict[str, RaterProgress]
    agreement: RaterAgreement | None
    disputed: int = 0

    @property
    def random(self) -> bool:
        """True if the answers are a random sample; scores of others cannot validate a judge."""
        return all(plan.which == "random" for plan in self.plans)

    def as_json(self) -> dict[str, Any]:
        """The object that `import --json` prints."""
        return {
            **self.added._asdict(),
            "only_comments": self.checked.only_comments,
            "wrong": [
                {"file": str(problem.path), "place": str(problem.place), "what": problem.text()}
                for problem in self.checked.problems
            ],
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
    task: Task = LEVELS,
    out: Path | None = None,
    new_plan: bool = False,
) -> ExportedForms:
    """Draws a plan of who scores, compares or marks what, and writes a form for each rater.

    The same options write the same forms again.

    Args:
        options: For pairs, `models` may be empty for all of the run.
        out: Folder for the forms; None for `annotation/forms/`, `pair_forms/` or `item_forms/` in the run.
        new_plan: Draw again even though the run has a plan; the old one is kept, and its forms can still be imported.

    Raises:
        InputError: A form exists already, the run has another plan, or no plan can be drawn.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    if task is PAIRS:
        options = options._replace(models=models_to_compare(run, options.models))
    existing = None if new_plan else _existing_plan(run, options, task)
    plan = existing or draw_plan(run, options, task)
    name = "forms" if task is LEVELS else f"{task.form_file.removesuffix('.yaml')}s"
    folder = out or run.path / "annotation" / name
    files = {rater: folder / f"{rater}.xlsx" for rater in plan.by_rater}
    if taken := next((file for file in files.values() if file.exists()), None):
        raise InputError(f"{taken}: exists already and may hold {task.verdict}s; move it away, or choose another --out")
    for rater, units in task.units(run, plan).items():
        write_workbook(files[rater], rater, units, task)
    kept = write_plan(run, plan, task.plan_name)
    return ExportedForms(task, plan, files, existing is not None, kept)


def import_forms(
    run: Run | Path | str,
    files: Sequence[Path],
    *,
    task: Task = LEVELS,
    accept_valid: bool = False,
    replace: bool = False,
) -> ImportedForms:
    """Imports forms that came back; a file that was imported before adds nothing.

    Args:
        files: Filled-in workbooks.
        accept_valid: Import what is valid; once the other rows are fixed, the same file is imported again.
        replace: Let a changed record replace the one imported before.

    Raises:
        InputError: A file has a problem and `accept_valid` is not set. The message lists all problems of all files, and
            nothing is imported.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    forms = [read_workbook(file, run.scheme(), task) for file in dict.fromkeys(files)]
    plans = plans_of(forms, read_plans(run, task.plan_name, task.command))
    checked = check_forms(run, task, plans, forms, replace)
    if not accept_valid:
        checked.require_valid(task)
    added = add_records(run, checked.records, replace, task)
    return ImportedForms(
        task,
        added,
        checked,
        plans,
        task.progress(run, plans),
        agreement_of_physicians(run.questions(), run.physician_scores()) if task is LEVELS else None,
        open_disputes(run) if task is LEVELS else 0,
    )


def _existing_plan(run: Run, options: PlanOptions, task: Task) -> Plan | None:
    """The run's plan, if it was drawn by these options; None where the run has none.

    Raises:
        InputError: The run has another plan. Its forms may be out, even if none came back yet.
    """
    file = plan_file(run, task.plan_name)
    if not file.exists():
        return None
    plan = task.read_plan(run)
    kept_as = earlier_file(run, task.plan_name).name
    if not plan.options.same_plan(options):
        if plan.which == "informative":  # the option that made it is gone
            raise InputError(
                f"{file}: a plan of an earlier version; --new-plan makes another and keeps it as {kept_as}"
            )
        raise InputError(
            f"{file}: another plan, made with {plan.options.command_line()}, and its forms may be out; the same "
            f"options write them again, --new-plan makes a new plan and keeps this one as {kept_as}"
        )
    if plan.which == "deferred" and read_deferred(run) and plan.list_sha256 != file_sha256(run.deferred_file):
        raise InputError(
            f"{run.deferred_file}: changed since the plan was made; --new-plan takes the new list and keeps the plan "
            f"as {kept_as}"
        )
    return plan
