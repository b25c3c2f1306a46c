"""`medjudge annotate pairs`: physicians compare two answers at a time."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Optional

import typer

from medjudge.cli import options
from medjudge.cli.annotate import Format
from medjudge.cli.annotate_serve import OpenPage, Port, network_of, serve_links

app = typer.Typer(
    help="Collect physicians' preferences between two answers.", no_args_is_help=True, rich_markup_mode="rich"
)


@app.command("export")
def export(
    run: options.RunFolder,
    rater: Annotated[list[str], typer.Option(metavar="NAME", help="Name of a physician. Repeatable.")],
    models: Annotated[
        Optional[str], typer.Option(metavar="NAMES", help="Models to compare: a,b,c. Default: all of the run.")
    ] = None,
    format: Annotated[Format, typer.Option(help="One workbook per rater, or Label Studio projects.")] = Format.xlsx,
    overlap: Annotated[int, typer.Option(metavar="N", min=1, help="Raters per pair.")] = 1,
    each: Annotated[
        Optional[int], typer.Option(metavar="N", min=1, help="Most pairs per rater. Default: no limit.")
    ] = None,
    seed: options.Seed = 0,
    out: Annotated[
        Optional[Path],
        typer.Option(metavar="FOLDER", help="Folder for the forms. Default: annotation/pair_forms in the run folder."),
    ] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a form of pairs for each physician: answers A and B in random order, without names."""
    from medjudge.annotate.pair_plan import PairPlanOptions
    from medjudge.cli.output import console, print_json
    from medjudge.store import Run
    from medjudge.workflows.annotate_pairs import export_pairs

    names = tuple(name.strip() for name in (models or "").split(",") if name.strip())
    forms = export_pairs(Run.existing(run), PairPlanOptions(rater, names, overlap, each, seed), format.value, out)
    counts = {name: len(forms.plan.by_rater[name]) for name in forms.files}
    if as_json:
        raters = {name: {"pairs": counts[name], "file": str(file)} for name, file in forms.files.items()}
        print_json({"pairs": len(forms.plan.items), "raters": raters})
    screen = console(as_json)
    screen.print(f"{len(forms.plan.items)} pairs, each to {forms.plan.overlap} of {len(counts)} raters, seed {seed}")
    for name, file in forms.files.items():
        screen.print(f"  {name}: {counts[name]} pairs in {file}")
    screen.print(f"Next, when the forms come back: medjudge annotate pairs import {quote(str(run))} FILE …")


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
    accept_valid: Annotated[
        bool, typer.Option("--accept-valid", help="Import the valid verdicts, and list the others to fix.")
    ] = False,
    replace: Annotated[
        bool, typer.Option("--replace", help="Let a changed verdict replace the one imported before.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Import filled-in forms of pairs; nothing is imported until every cell is valid.

    Importing the same form again adds nothing, so fix it and import it again. Exits with 1 if --accept-valid left
    verdicts to fix.
    """
    from medjudge.cli.output import console, print_json
    from medjudge.judge.pairs import physician_pairs_file
    from medjudge.store import Run
    from medjudge.workflows.annotate_pairs import import_pair_forms

    folder = Run.existing(run)
    added = import_pair_forms(folder, files, replace, accept_valid)
    if as_json:
        print_json(added._asdict())
    screen = console(as_json)
    for problem in added.problems:
        screen.print(f"  {problem}")
    screen.print(f"{added.new} pairs imported, {added.same} imported before, {added.replaced} replaced")
    if added.blank:
        screen.print(f"{added.blank} pairs are not compared yet")
    screen.print(f"{physician_pairs_file(folder)}; next: medjudge compare {quote(str(run))} --judge JUDGE")
    if added.problems:
        screen.print(f"{len(added.problems)} problem{'s' if len(added.problems) > 1 else ''} to fix")
        raise typer.Exit(1)


@app.command("serve")
def serve(
    run: options.RunFolder,
    rater: Annotated[
        Optional[list[str]],
        typer.Option(metavar="NAME", help="Who compares: a rater of the plan. Repeatable. Default: all of them."),
    ] = None,
    port: Port = None,
    open_page: OpenPage = True,
    host: options.Host = "127.0.0.1",
    certificate: options.Certificate = None,
    key: options.CertificateKey = None,
    public_url: options.PublicUrl = None,
    as_json: options.AsJson = False,
) -> None:
    """Compare answers on a web page, for this machine or, with --host, for a network.

    Every rater has a personal link. The run needs a plan, which `annotate pairs export` makes.
    """
    from medjudge.errors import notify
    from medjudge.workflows.serve_pairs import open_pair_pages

    pages = open_pair_pages(run, rater or (), network=network_of(host, port, certificate, key, public_url))
    serve_links(pages, "pairs", "verdict", open_page, as_json)
    notify(f"stopped; the same command goes on, and `medjudge compare {quote(str(run))}` shows the agreement")
