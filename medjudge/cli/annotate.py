"""`medjudge annotate`: forms and pages out to physicians, and scores, pairs and verdicts on items back in."""

import sys
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Literal, Optional

import typer

from medjudge.cli import options
from medjudge.cli.groups import Address
from medjudge.cli.options import REQUIRED, argument, flags, option
from medjudge.errors import notify

if TYPE_CHECKING:
    from rich.console import Console

    from medjudge.workflows.annotate import ExportedForms, ImportedForms
    from medjudge.workflows.annotation_pages import AnnotationPages

_HELP = {
    "levels": "Collect physicians' scores with forms or a local web page.",
    "pairs": "Collect physicians' preferences between two answers.",
    "items": "Collect physicians' verdicts on the items of answers.",
}
_SERVE = """{does} on a web page, for this machine or, with --host, for a network.

Every rater has a personal link. The run needs a plan, which `annotate {name}export` makes."""
_DOES = {"levels": "Score answers", "pairs": "Compare answers", "items": "Mark items"}
_NOT_RANDOM = "the answers are no random sample: their scores may correct a judge, not validate it"


@dataclass(kw_only=True)
class Export:
    """The options of each `export`."""

    run: options.RunFolder
    rater: list[str] = option(REQUIRED, "NAME", "Name or e-mail address of a physician. Repeatable.")
    each: Optional[int] = option(None, "N", "Most answers or pairs per rater. Default: no limit.", min=1)
    overlap: Optional[int] = option(
        None,
        "N",
        "Raters per answer or pair. Default: 2 for scores (1 for a single rater), 1 for pairs and items.",
        min=1,
    )
    seed: options.Seed = 0
    out: Optional[Path] = option(
        None, "FOLDER", "Folder for the forms. Default: annotation/forms, pair_forms or item_forms in the run folder."
    )
    new_plan: bool = option(False, None, "Draw again; the old plan is kept, and its forms can still be imported.")
    as_json: options.AsJson = False


@dataclass(kw_only=True)
class ScoresExport(Export):
    """The options of `annotate export`."""

    which: Literal["random", "deferred"] = option(
        "random",
        "random|deferred",
        "random: a sample to validate a judge on. deferred: the uncertain answers that `eval --defer-to-physicians` "
        "listed.",
    )


@dataclass(kw_only=True)
class PairsExport(Export):
    """The options of `annotate pairs export`."""

    models: options.Models = None


@dataclass(kw_only=True)
class Import:
    """The options of each `import`."""

    run: options.RunFolder
    files: list[Path] = argument(REQUIRED, "FILE...", "Filled-in workbooks.")
    accept_valid: bool = option(False, None, "Import the valid rows; fix the others and import the same file again.")
    replace: bool = option(False, None, "Let what changed replace what was imported before.")
    as_json: options.AsJson = False


@dataclass(kw_only=True)
class Pages(Address):
    """The options of the pages of a plan's raters."""

    run: options.RunFolder
    rater: Optional[list[str]] = option(None, "NAME", "A rater of the plan. Repeatable. Default: all of them.")
    port: Optional[int] = option(
        None,
        "N",
        "0 uses a free port. Default: 8443; where only this machine can connect, a free one if that is taken.",
        min=0,
        max=65535,
    )
    open_page: bool = option(True, None, "Open the page of a single rater in the browser.", name="--open/--no-open")
    as_json: options.AsJson = False


@dataclass(kw_only=True)
class ScoresPages(Pages):
    """The options of `annotate serve`."""

    adjudicate: bool = option(
        False,
        None,
        "Where physicians differ by two levels or across usable: --rater sees their scores without names and records "
        "the agreed one.",
    )


@flags
def _export_scores(given: ScoresExport) -> None:
    """Write a scoring form for each physician.

    No form names a model or shows a judge's score. The same options write the same forms again; other options need
    --new-plan, because the forms of the existing plan may be out.
    """
    _export("levels", given)


@flags
def _export_pairs(given: PairsExport) -> None:
    """Write a form of pairs for each physician: answers A and B in random order, without names."""
    _export("pairs", given)


@flags
def _export_items(given: Export) -> None:
    """Write a form of items for each physician: answers in random order, without names."""
    _export("items", given)


def _export(name: str, given: Export) -> None:
    from medjudge.annotate.plan import PlanOptions
    from medjudge.annotate.tasks import TASKS
    from medjudge.cli.output import console
    from medjudge.workflows.annotate import export_forms

    fields = {field: value for field, value in vars(given).items() if field in PlanOptions._fields}
    fields["models"] = options.names_in(fields.get("models"))
    if name != "levels":
        fields["overlap"] = given.overlap or 1
    drawn_by = PlanOptions(given.rater, **fields)
    exported = export_forms(given.run, drawn_by, task=TASKS[name], out=given.out, new_plan=given.new_plan)
    _print_export(console(given.as_json, exported.as_json()), exported, given.run)


def _print_export(screen: "Console", exported: "ExportedForms", run: Path) -> None:
    plan, work, count = exported.plan, exported.task.work, len(exported.plan.items)
    if exported.reused:
        screen.print("the run has this plan already; its forms are written again")
    if exported.replaced_plan:
        screen.print(f"the previous plan is kept as {exported.replaced_plan}; its forms can still be imported")
    screen.print(f"{count} {work}, each to {plan.overlap} of {len(exported.files)} raters, seed {plan.seed}")
    for rater, file in exported.files.items():
        screen.print(f"  {rater}: {len(plan.by_rater[rater])} {work} in {file}")
    if plan.left_out:
        screen.print("left out: " + ", ".join(f"{number} {reason}" for reason, number in plan.left_out.items()))
    if plan.which != "random":
        screen.print(_NOT_RANDOM)
    screen.print(f"Next, when the forms come back: medjudge {exported.task.command} import {quote(str(run))} FILE …")


def _print_import(screen: "Console", imported: "ImportedForms", folder: Path) -> None:
    from medjudge.cli.output import counted, percent, span
    from medjudge.store import Run

    run, task, added, checked = Run(folder), imported.task, imported.added, imported.checked
    for problem in checked.problems:
        screen.print(f"  {checked.lines(problem, problem.path.name)}")
    screen.print(
        f"{counted(added.new, task.verdict)} imported, {added.same} imported before, {added.replaced} replaced"
    )
    if checked.only_comments:
        screen.print(f"{counted(checked.only_comments, 'row')} with a comment and no {task.verdict}: not imported")
    if checked.problems:
        screen.print(f"{counted(len(checked.problems), 'problem')}, see above; fix and import the same file again")
    for rater, progress in imported.progress.items():
        screen.print(f"  {rater}: {progress.scored} of {progress.answers} scored, {progress.open} open")
    if task.name == "levels" and imported.agreement is None:
        screen.print("agreement among raters: no answer was scored by two raters yet")
    elif agreement := imported.agreement:
        screen.print(
            f"agreement among raters on {agreement.answers} answers: usable {percent(agreement.usable_agreement)}, "
            f"Cohen's kappa {span(agreement.cohen_kappa)}, quadratic kappa {span(agreement.quadratic_kappa)}, alpha "
            f"{span(agreement.krippendorff_alpha)}"
        )
    if imported.disputed:
        screen.print(
            f"physicians differ by two levels or across usable on {imported.disputed} answers; a third one settles "
            f"them: medjudge annotate serve {quote(str(folder))} --adjudicate --rater NAME"
        )
    if not imported.random:
        screen.print(_NOT_RANDOM)
    judge = quote(run.last_judge or "local")
    screen.print(f"{task.file(run)}; next: medjudge {task.checked_by} {quote(str(folder))} --judge {judge}")


def _serve(name: str, given: Pages, adjudicate: bool = False) -> None:
    """Prints the raters' links, serves the pages until Ctrl-C, and says what is left to do."""
    from medjudge.annotate.tasks import AGREED, TASKS
    from medjudge.workflows.annotation_pages import open_pages

    task = AGREED if adjudicate else TASKS[name]
    # The links need a port that stays.
    network = given.network(8443 if given.port is None else given.port)
    network = network._replace(or_free=given.port is None and network.for_this_machine)
    pages = open_pages(given.run, given.rater or (), task=task, network=network)
    _print_links(pages, given.as_json)
    if given.open_page and len(pages.links) == 1 and pages.listener.network.for_this_machine:
        import webbrowser

        webbrowser.open(next(iter(pages.links.values())).link)  # the socket is listening: the browser waits
    pages.serve()
    left = pages.open_units()
    advice = f"next: medjudge {task.checked_by} {quote(str(given.run))} --judge JUDGE"
    if any(left.values()):
        advice = "run the same command to continue"
    counts = "; ".join(
        f"{name}: {count} of {pages.links[name].answers} {task.work} are open" for name, count in left.items()
    )
    notify(f"stopped; {counts}, in {given.run}; {advice}")


def _print_links(pages: "AnnotationPages", as_json: bool) -> None:
    from medjudge.cli.output import print_json

    what = pages.task.work
    if as_json:
        each = {name: {"link": link, what: count} for name, (link, count) in pages.links.items()}
        single = [{"rater": name, **fields} for name, fields in each.items()] if len(each) == 1 else [{}]
        print_json({**single[0], "links": each})
    else:
        for name, (link, count) in pages.links.items():
            print(f"{name}, {count} {what}: {link}")
        print(f"Every {pages.task.verdict} is saved at once. Press Ctrl-C to stop.")
    sys.stdout.flush()


def _commands(name: str) -> typer.Typer:
    """The commands `export`, `import` and `serve` of scores (levels), pairs or items."""
    group = typer.Typer(help=_HELP[name], no_args_is_help=True, rich_markup_mode="rich")
    group.command("export")({"levels": _export_scores, "pairs": _export_pairs, "items": _export_items}[name])

    @flags
    def import_(given: Import) -> None:
        """Import filled-in forms; nothing is imported until every cell is valid.

        A blank cell counts as not scored yet and is no problem. Importing the same file again adds nothing. Exits with
        1 if --accept-valid left rows to fix.
        """
        from medjudge.annotate.tasks import TASKS
        from medjudge.cli.output import console
        from medjudge.workflows.annotate import import_forms

        options = {"accept_valid": given.accept_valid, "replace": given.replace}
        imported = import_forms(given.run, given.files, task=TASKS[name], **options)
        _print_import(console(given.as_json, imported.as_json()), imported, given.run)
        if imported.checked.problems:
            raise typer.Exit(1)

    group.command("import")(import_)
    does = _SERVE.format(does=_DOES[name], name="" if name == "levels" else f"{name} ")

    @flags
    def serve(given: Pages) -> None:
        _serve(name, given)

    @flags
    def serve_scores(given: ScoresPages) -> None:
        _serve(name, given, given.adjudicate)

    group.command("serve", help=does)(serve_scores if name == "levels" else serve)
    return group


app = _commands("levels")
for _name in ("pairs", "items"):
    app.add_typer(_commands(_name), name=_name)
