"""`medjudge annotate items`: physicians mark which items an answer meets."""

import sys
from pathlib import Path
from typing import Annotated, Optional

import typer

from medjudge.cli import options
from medjudge.cli.annotate import Format

app = typer.Typer(
    help="Collect physicians' verdicts on the items of answers.", no_args_is_help=True, rich_markup_mode="rich"
)


@app.command("export")
def export(
    run: options.RunFolder,
    rater: Annotated[list[str], typer.Option(metavar="NAME", help="Name of a physician. Repeatable.")],
    format: Annotated[Format, typer.Option(help="One workbook per rater, or Label Studio projects.")] = Format.xlsx,
    overlap: Annotated[int, typer.Option(metavar="N", min=1, help="Raters per answer.")] = 1,
    each: Annotated[
        Optional[int], typer.Option(metavar="N", min=1, help="Most answers per rater. Default: no limit.")
    ] = None,
    seed: options.Seed = 0,
    out: Annotated[
        Optional[Path],
        typer.Option(metavar="FOLDER", help="Folder for the forms. Default: annotation/item_forms in the run folder."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a form of items for each physician: answers in random order, without names."""
    from medjudge.annotate.item_plan import ItemPlanOptions
    from medjudge.cli.output import console, print_json
    from medjudge.store import Run
    from medjudge.workflows.annotate_items import export_items

    forms = export_items(Run.existing(run), ItemPlanOptions(rater, overlap, each, seed), format.value, out)
    counts = {name: len(forms.plan.by_rater[name]) for name in forms.files}
    if as_json:
        raters = {name: {"answers": counts[name], "file": str(file)} for name, file in forms.files.items()}
        print_json({"answers": len(forms.plan.answers), "raters": raters})
    screen = console(as_json)
    screen.print(
        f"{len(forms.plan.answers)} answers, each to {forms.plan.overlap} of {len(counts)} raters, seed {seed}"
    )
    for name, file in forms.files.items():
        screen.print(f"  {name}: {counts[name]} answers in {file}")
    screen.print(f"Next, when the forms come back: medjudge annotate items import {run} FILE …")


@app.command("import")
def import_(
    run: options.RunFolder,
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Filled-in workbooks, Label Studio exports (.json), or records (.jsonl).",
            show_default=False,
        ),
    ],
    replace: Annotated[
        bool, typer.Option("--replace", help="Let a changed verdict replace the one imported before.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Import filled-in forms of items; nothing is imported until every cell is valid."""
    from medjudge.annotate.item_intake import import_items
    from medjudge.cli.output import console, print_json
    from medjudge.store import Run

    folder = Run.existing(run)
    added = import_items(folder, files, replace)
    if as_json:
        print_json(added._asdict())
    screen = console(as_json)
    screen.print(f"{added.new} verdicts imported, {added.same} imported before, {added.replaced} replaced")
    if added.blank:
        screen.print(f"{added.blank} items have no verdict yet")
    screen.print(f"{folder.items_file}; next: medjudge validate {run} --judge JUDGE")


@app.command("serve")
def serve(
    run: options.RunFolder,
    rater: Annotated[
        Optional[list[str]],
        typer.Option(metavar="NAME", help="Who marks: a rater of the plan. Repeatable. Default: all of them."),
    ] = None,
    port: Annotated[int, typer.Option(metavar="N", min=0, max=65535, help="0 uses a free port.")] = 0,
    open_page: Annotated[
        bool, typer.Option("--open/--no-open", help="Open the page of a single rater in the browser.")
    ] = True,
    as_json: options.AsJson = False,
) -> None:
    """Mark items on a web page of this machine. The run needs a plan, which `annotate items export` makes."""
    import webbrowser

    from medjudge.cli.output import print_json
    from medjudge.errors import notify
    from medjudge.workflows.serve_items import open_item_pages

    pages = open_item_pages(run, rater or (), port)
    if as_json:
        print_json({"links": {name: link._asdict() for name, link in pages.links.items()}})
    else:
        for name, (link, answers) in pages.links.items():
            print(f"{name}, {answers} answers: {link}")
        print("Every answer is saved at once. Press Ctrl-C to stop.")
    sys.stdout.flush()
    if open_page and len(pages.links) == 1:
        webbrowser.open(next(iter(pages.links.values())).link)
    pages.serve()
    notify(f"stopped; the same command goes on, and `medjudge validate {run}` shows the agreement")
