"""Sends scoring forms to physicians, and imports the forms that come back."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from medjudge.annotate.add_scores import Added, add_scores
from medjudge.annotate.adjudicate import open_disputes
from medjudge.annotate.deferred import read_deferred
from medjudge.annotate.draw import draw_plan
from medjudge.annotate.intake import Checked, check_forms, read_form, require_valid, write_problem_form
from medjudge.annotate.items import all_to_score
from medjudge.annotate.label_studio import dimensions_suffix, write_label_studio
from medjudge.annotate.plan import Plan, PlanOptions, earlier_file, plan_file, read_plan, read_plans, write_plan
from medjudge.annotate.progress import RaterProgress, progress_by_rater
from medjudge.annotate.workbook import write_workbook
from medjudge.errors import InputError
from medjudge.store import Run
from medjudge.validation.physicians import RaterAgreement, agreement_of_physicians
from medjudge.workflows.which_judge import likely_judge

FormFormat = Literal["xlsx", "label-studio"]


class RaterForms(NamedTuple):
    """How many answers one rater got, and in which files."""

    answers: int
    files: list[Path]


class WithoutScore(NamedTuple):
    """How many answers of a plan the run's judge left unscored."""

    judge: str
    answers: int


@dataclass(frozen=True)
class ExportedForms:
    """The forms of a plan.

    Attributes:
        reused: Whether the run had this plan already.
        replaced_plan: The file that keeps the plan which this one replaced; None where there was none.
        without_score: None where the run has no judgments yet.
    """

    plan: Plan
    folder: Path
    forms: dict[str, RaterForms]
    reused: bool
    replaced_plan: Path | None
    without_score: WithoutScore | None

    def as_json(self) -> dict[str, Any]:
        return {
            "answers": len(self.plan.items),
            "left_out": self.plan.left_out,
            "without_score": self.without_score and self.without_score._asdict(),
            "raters": {
                rater: {"answers": forms.answers, "files": [*map(str, forms.files)]}
                for rater, forms in self.forms.items()
            },
        }


@dataclass(frozen=True)
class ImportedScores:
    """What came back.

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
        """Whether some answers are no random sample, so that the scores cannot validate a judge."""
        return any(plan.which != "random" for plan in self.checked.plans)

    def as_json(self) -> dict[str, Any]:
        return {
            **self.added._asdict(),
            "not_scored": self.checked.unscored,
            "only_comments": self.checked.only_comments,
            "missing": self.checked.missing,
            "wrong": [
                {"file": str(problem.path), "place": problem.place, "what": problem.what}
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
    form_format: FormFormat = "xlsx",
    out: Path | None = None,
    new_plan: bool = False,
) -> ExportedForms:
    """Draws a plan of who scores what, and writes a scoring form for each rater.

    The same options write the same forms again.

    Args:
        form_format: A workbook for each rater, or projects for Label Studio.
        out: Folder for the forms; None for `annotation/forms/` in the run.
        new_plan: Draw again even though the run has a plan; the old one is kept, and its forms can still be imported.

    Raises:
        InputError: A form exists already, the run has another plan, or no plan can be drawn.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    existing = None if new_plan else _existing_plan(run, options)
    plan = existing or draw_plan(run, options)
    folder = out or run.path / "annotation" / "forms"
    endings = (".xlsx",) if form_format == "xlsx" else (".json", f"{dimensions_suffix(run.scheme())}.json")
    for form in (folder / f"{rater}{ending}" for rater in plan.by_rater for ending in endings):
        if form.exists():
            raise InputError(f"{form}: exists already and may hold scores; move it away, or choose another --out")
    forms: dict[str, RaterForms] = {}
    for rater, items in all_to_score(run, plan).items():
        if form_format == "xlsx":
            files = [folder / f"{rater}.xlsx"]
            write_workbook(files[0], rater, items)
        else:
            files = write_label_studio(folder, rater, items)
        forms[rater] = RaterForms(len(items), files)
    return ExportedForms(plan, folder, forms, existing is not None, write_plan(run, plan), _without_score(run, plan))


def import_scores(
    run: Run | Path | str, files: Sequence[Path], *, accept_valid: bool = False, replace: bool = False
) -> ImportedScores:
    """Imports the scores of forms that came back; a file that was imported before adds nothing.

    Args:
        files: Filled-in workbooks, or exports of Label Studio.
        accept_valid: Import the valid scores, and write the other rows into new forms to fix.
        replace: Let a changed score replace the one imported before.

    Raises:
        InputError: A form has a problem and `accept_valid` is not set. The message lists all problems of all forms, and
            nothing is imported.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    forms = [read_form(file, run.scheme()) for file in dict.fromkeys(files)]
    checked = check_forms(run, read_plans(run), forms, replace)
    if not accept_valid:
        require_valid(checked)
    added = add_scores(run, checked.scores, replace)
    to_fix = [path for form in forms if (path := write_problem_form(form, checked.problems)) is not None]
    return ImportedScores(
        added,
        checked,
        to_fix,
        progress_by_rater(run, checked.plans),
        agreement_of_physicians(run.questions(), run.physician_scores()),
        open_disputes(run),
    )


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
