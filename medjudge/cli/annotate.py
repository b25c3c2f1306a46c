"""`medjudge annotate`: scoring forms out to physicians, and back in."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from medjudge.cli import options
from medjudge.cli.options import REQUIRED, flags, option

if TYPE_CHECKING:
    from rich.console import Console

    from medjudge.workflows.annotate import ExportedForms, ImportedScores

app = typer.Typer(
    help="Collect physicians' scores with forms or a local web page.", no_args_is_help=True, rich_markup_mode="rich"
)


_NOT_RANDOM = "the answers were {how} and are no random sample: their scores may correct a judge, not validate it"
_LISTED = 20
"""The most ids that one line lists."""


@dataclass(kw_only=True)
class ExportOptions:
    """The options of `annotate export`."""

    run: options.RunFolder
    rater: list[str] = option(REQUIRED, "NAME", "Name or e-mail address of a physician. Repeatable.")
    overlap: Optional[int] = option(None, "N", "Raters per answer. Default: 2, or 1 for a single rater.", min=1)
    each: Optional[int] = option(None, "N", "Most answers per rater. Default: no limit.", min=1)
    which: Literal["random", "informative", "deferred"] = option(
        "random",
        None,
        "random: a sample to validate a judge on. informative: answers to correct a judge by. deferred: those that "
        "eval listed.",
    )
    judge: Optional[str] = option(
        None, "NAME", "informative: a judge of the run; its least certain answers come first."
    )
    teacher: Optional[str] = option(
        None, "NAME", "informative: a judge of the run; answers on which both differ come first."
    )
    seed: options.Seed = 0
    out: Optional[Path] = option(None, "FOLDER", "Folder for the forms. Default: annotation/forms in the run folder.")
    new_plan: bool = option(False, None, "Draw again; the old plan is kept, and its forms can still be imported.")
    as_json: options.AsJson = False


@app.command("export")
@flags
def export(given: ExportOptions) -> None:
    """Write a scoring form for each physician.

    No form names a model or shows a judge's score. The same options write the same forms again; other options need
    --new-plan, because the forms of the existing plan may be out.
    """
    from medjudge.annotate.plan import PlanOptions
    from medjudge.cli.output import console, print_json
    from medjudge.workflows.annotate import export_forms

    drawn_by = PlanOptions(given.rater, given.overlap, given.each, given.which, given.judge, given.teacher, given.seed)
    exported = export_forms(given.run, drawn_by, out=given.out, new_plan=given.new_plan)
    if given.as_json:
        print_json(exported.as_json())
    _print_export(console(given.as_json), exported, given.run)


def _print_export(screen: "Console", exported: "ExportedForms", run: Path) -> None:
    plan, count = exported.plan, len(exported.plan.items)
    if exported.reused:
        screen.print("the run has this plan already; its forms are written again")
    if exported.replaced_plan:
        screen.print(f"the previous plan is kept as {exported.replaced_plan}; its forms can still be imported")
    screen.print(f"{count} answers, each to {plan.overlap} of {len(exported.files)} raters, seed {plan.seed}")
    for rater, file in exported.files.items():
        screen.print(f"  {rater}: {len(plan.by_rater[rater])} answers in {file}")
    if plan.left_out:
        screen.print("left out: " + ", ".join(f"{number} {reason}" for reason, number in plan.left_out.items()))
    if exported.without_score is not None and exported.without_score.answers:
        judge, unscored = exported.without_score
        screen.print(
            f"{unscored} of these {count} answers have no score of judge {judge}: they cannot count in its validation"
        )
    if plan.which != "random":
        how = "chosen as informative" if plan.which == "informative" else "left to people"
        screen.print(_NOT_RANDOM.format(how=how))
    screen.print(f"Next, when the forms come back: medjudge annotate import {quote(str(run))} FILE …")


@app.command("import")
def import_forms(
    run: options.RunFolder,
    files: Annotated[
        list[Path],
        typer.Argument(metavar="FILE...", help="Filled-in workbooks.", show_default=False),
    ],
    accept_valid: Annotated[
        bool, typer.Option("--accept-valid", help="Import the valid rows and write the others into new forms to fix.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Let a changed score replace the one imported before.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Import filled-in forms; nothing is imported until every cell is valid.

    A blank score counts as not scored yet and is no problem. Importing the same file again adds nothing. Exits with 1
    if --accept-valid left rows to fix.
    """
    from medjudge.cli.output import console, print_json
    from medjudge.workflows.annotate import import_scores

    imported = import_scores(run, files, accept_valid=accept_valid, replace=replace)
    if as_json:
        print_json(imported.as_json())
    _print_import(console(as_json), imported, run)
    if imported.checked.problems:
        raise typer.Exit(1)


def _print_import(screen: "Console", imported: "ImportedScores", run: Path) -> None:
    from medjudge.store import Run

    added, checked = imported.added, imported.checked
    for problem in checked.problems:
        screen.print("  " + "\n    ".join(checked.lines(problem, problem.path.name)))
    new = f"{added.new} score{'' if added.new == 1 else 's'}"
    screen.print(f"{new} imported, {added.same} imported before, {added.replaced} replaced")
    if checked.unscored:
        commented = f" ({checked.only_comments} with a comment)" if checked.only_comments else ""
        screen.print(f"{checked.unscored} rows are not scored yet{commented}")
    for file, sheets in checked.missing.items():
        screen.print(_missing_items(file, sheets))
    if checked.problems:
        forms = ", ".join(map(str, imported.to_fix)) or "see above"
        screen.print(f"{len(checked.problems)} problem{'s' if len(checked.problems) > 1 else ''}; to fix: {forms}")
    for rater, progress in imported.progress.items():
        screen.print(f"  {rater}: {progress.scored} of {progress.answers} scored, {progress.open} open")
    _print_agreement(screen, imported)
    if imported.disputed:
        screen.print(
            f"physicians differ by two levels or across usable on {imported.disputed} answers; a third one settles "
            f"them: medjudge annotate serve {quote(str(run))} --adjudicate --rater NAME"
        )
    if imported.informative:
        screen.print(_NOT_RANDOM.format(how="chosen as informative"))
    judge = quote(Run(run).last_judge or "local")
    screen.print(f"{Run(run).physicians_file}; next: medjudge validate {quote(str(run))} --judge {judge}")


def _print_agreement(screen: "Console", imported: "ImportedScores") -> None:
    from medjudge.cli.output import percent, span

    agreement = imported.agreement
    if agreement is None:
        screen.print("agreement among raters: no answer was scored by two raters yet")
        return
    screen.print(
        f"agreement among raters on {agreement.answers} answers: usable {percent(agreement.usable_agreement)}, Cohen's "
        f"kappa {span(agreement.cohen_kappa)}, quadratic kappa {span(agreement.quadratic_kappa)}, alpha "
        f"{span(agreement.krippendorff_alpha)}"
    )


def _missing_items(file: str, sheets: dict[str, list[str]]) -> str:
    """The items of its rater that a workbook lacks, by sheet; long lists are cut, and complete in --json."""
    parts = [
        f"sheet '{sheet}': {', '.join(ids[:_LISTED])}{f' and {len(ids) - _LISTED} more' if ids[_LISTED:] else ''}"
        for sheet, ids in sheets.items()
    ]
    count = sum(map(len, sheets.values()))
    return f"{file}: {count} of its rater's items are missing and stay open ({'; '.join(parts)})"
