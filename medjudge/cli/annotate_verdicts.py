"""`medjudge annotate pairs` and `annotate items`: physicians compare two answers, or mark the items of an answer."""

from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import Annotated, Optional

import typer

from medjudge.cli import options
from medjudge.cli.annotate_serve import PagesOptions, serve_links
from medjudge.cli.options import REQUIRED, flags, option

_HELP = {
    "pairs": "Collect physicians' preferences between two answers.",
    "items": "Collect physicians' verdicts on the items of answers.",
}
_BLANK = {"pairs": "pairs are not compared yet", "items": "items have no verdict yet"}
_NOUN = {"pairs": "pairs", "items": "verdicts"}
_NEXT = {"pairs": "compare", "items": "validate"}

_DOES = {"pairs": "Compare answers", "items": "Mark items"}
_IMPORT = """Import filled-in forms of {name}; nothing is imported until every cell is valid.

Importing the same form again adds nothing, so fix it and import it again. Exits with 1 if --accept-valid left verdicts
to fix."""
_SERVE = """{does} on a web page, for this machine or, with --host, for a network.

Every rater has a personal link. The run needs a plan, which `annotate {name} export` makes."""


@dataclass(kw_only=True)
class ExportOptions:
    """The options of `annotate items export`."""

    run: options.RunFolder
    rater: list[str] = option(REQUIRED, "NAME", "Name of a physician. Repeatable.")
    overlap: int = option(1, "N", "Raters per pair or answer.", min=1)
    each: Optional[int] = option(None, "N", "Most pairs or answers per rater. Default: no limit.", min=1)
    seed: options.Seed = 0
    out: Optional[Path] = option(
        None, "FOLDER", "Folder for the forms. Default: annotation/pair_forms or item_forms in the run folder."
    )
    as_json: options.AsJson = False


@dataclass(kw_only=True)
class PairsExportOptions(ExportOptions):
    """The options of `annotate pairs export`."""

    models: Optional[str] = option(None, "NAMES", "Models to compare: a,b,c. Default: all of the run.")


def _export(name: str, given: ExportOptions, models: tuple[str, ...] = ()) -> None:
    from medjudge.annotate.draw import VerdictOptions
    from medjudge.annotate.tasks import VERDICTS
    from medjudge.cli.output import console, print_json
    from medjudge.store import Run
    from medjudge.workflows.annotate import export_verdict_forms

    task, drawn_by = VERDICTS[name], VerdictOptions(given.rater, given.overlap, given.each, given.seed, models)
    forms = export_verdict_forms(Run.existing(given.run), task, drawn_by, given.out)
    plan, work = forms.plan, task.work
    counts = {rater: len(plan.by_rater[rater]) for rater in forms.files}
    if given.as_json:
        raters = {rater: {work: counts[rater], "file": str(file)} for rater, file in forms.files.items()}
        print_json({work: len(plan.items), "raters": raters})
    screen = console(given.as_json)
    screen.print(f"{len(plan.items)} {work}, each to {plan.overlap} of {len(counts)} raters, seed {plan.seed}")
    for rater, file in forms.files.items():
        screen.print(f"  {rater}: {counts[rater]} {work} in {file}")
    screen.print(f"Next, when the forms come back: medjudge annotate {name} import {quote(str(given.run))} FILE …")


@flags
def _export_pairs(given: PairsExportOptions) -> None:
    """Write a form of pairs for each physician: answers A and B in random order, without names."""
    _export("pairs", given, options.names_in(given.models))


@flags
def _export_items(given: ExportOptions) -> None:
    """Write a form of items for each physician: answers in random order, without names."""
    _export("items", given)


def verdict_app(name: str) -> typer.Typer:
    """The commands `export`, `import` and `serve` of `pairs` or `items`."""
    app = typer.Typer(help=_HELP[name], no_args_is_help=True, rich_markup_mode="rich")
    app.command("export")(_export_pairs if name == "pairs" else _export_items)

    @app.command("import", help=_IMPORT.format(name=name))
    def import_(
        run: options.RunFolder,
        files: Annotated[
            list[Path],
            typer.Argument(
                metavar="FILE...",
                help="Filled-in workbooks, or records (.jsonl).",
                show_default=False,
            ),
        ],
        accept_valid: Annotated[
            bool, typer.Option("--accept-valid", help="Import the valid verdicts, and list the others to fix.")
        ] = False,
        replace: Annotated[
            bool, typer.Option("--replace", help="Let a changed verdict replace the one imported before.")
        ] = False,
        as_json: options.AsJson = False,
    ) -> None:
        from medjudge.annotate.tasks import VERDICTS
        from medjudge.cli.output import console, print_json
        from medjudge.store import Run
        from medjudge.workflows.annotate import import_verdicts

        folder, task = Run.existing(run), VERDICTS[name]
        added = import_verdicts(folder, task, files, replace, accept_valid)
        if as_json:
            print_json(added._asdict())
        screen = console(as_json)
        for problem in added.problems:
            screen.print(f"  {problem}")
        screen.print(f"{added.new} {_NOUN[name]} imported, {added.same} imported before, {added.replaced} replaced")
        if added.blank:
            screen.print(f"{added.blank} {_BLANK[name]}")
        screen.print(f"{task.file(folder)}; next: medjudge {_NEXT[name]} {quote(str(run))} --judge JUDGE")
        if added.problems:
            screen.print(f"{len(added.problems)} problem{'s' if len(added.problems) > 1 else ''} to fix")
            raise typer.Exit(1)

    @app.command("serve", help=_SERVE.format(does=_DOES[name], name=name))
    @flags
    def serve(given: PagesOptions) -> None:
        from medjudge.annotate.tasks import VERDICTS
        from medjudge.workflows.annotation_pages import open_pages

        network = given.stable_network()
        pages = open_pages(given.run, given.rater or (), task=VERDICTS[name], network=network)
        serve_links(pages, given.open_page, given.as_json)

    return app
