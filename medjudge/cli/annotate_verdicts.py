"""`medjudge annotate pairs` and `annotate items`: physicians compare two answers, or mark the items of an answer."""

from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Annotated, Any, Optional

import typer

from medjudge.cli import options
from medjudge.cli.annotate_serve import OpenPage, Port, network_of, serve_links

if TYPE_CHECKING:
    from medjudge.annotate.draw import VerdictOptions

_Raters = Annotated[list[str], typer.Option("--rater", metavar="NAME", help="Name of a physician. Repeatable.")]
_Overlap = Annotated[int, typer.Option(metavar="N", min=1, help="Raters per pair or answer.")]
_Each = Annotated[
    Optional[int], typer.Option(metavar="N", min=1, help="Most pairs or answers per rater. Default: no limit.")
]
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


def _out(folder: str) -> object:
    return typer.Option(metavar="FOLDER", help=f"Folder for the forms. Default: annotation/{folder} in the run folder.")


def _export(run: Path, name: str, drawn_by: "VerdictOptions", out: Path | None, as_json: bool) -> None:
    from medjudge.annotate.tasks import VERDICTS
    from medjudge.cli.output import console, print_json
    from medjudge.store import Run
    from medjudge.workflows.annotate import export_verdict_forms

    task = VERDICTS[name]
    forms = export_verdict_forms(Run.existing(run), task, drawn_by, out)
    plan, work = forms.plan, task.work
    counts = {rater: len(plan.by_rater[rater]) for rater in forms.files}
    if as_json:
        raters = {rater: {work: counts[rater], "file": str(file)} for rater, file in forms.files.items()}
        print_json({work: len(plan.items), "raters": raters})
    screen = console(as_json)
    screen.print(f"{len(plan.items)} {work}, each to {plan.overlap} of {len(counts)} raters, seed {plan.seed}")
    for rater, file in forms.files.items():
        screen.print(f"  {rater}: {counts[rater]} {work} in {file}")
    screen.print(f"Next, when the forms come back: medjudge annotate {name} import {quote(str(run))} FILE …")


def _options(*drawn_by: Any) -> "VerdictOptions":
    from medjudge.annotate.draw import VerdictOptions

    return VerdictOptions(*drawn_by)


def _export_pairs(
    run: options.RunFolder,
    rater: _Raters,
    models: Annotated[
        Optional[str], typer.Option(metavar="NAMES", help="Models to compare: a,b,c. Default: all of the run.")
    ] = None,
    overlap: _Overlap = 1,
    each: _Each = None,
    seed: options.Seed = 0,
    out: Annotated[Optional[Path], _out("pair_forms")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a form of pairs for each physician: answers A and B in random order, without names."""
    names = tuple(name.strip() for name in (models or "").split(",") if name.strip())
    _export(run, "pairs", _options(rater, overlap, each, seed, names), out, as_json)


def _export_items(
    run: options.RunFolder,
    rater: _Raters,
    overlap: _Overlap = 1,
    each: _Each = None,
    seed: options.Seed = 0,
    out: Annotated[Optional[Path], _out("item_forms")] = None,
    as_json: options.AsJson = False,
) -> None:
    """Write a form of items for each physician: answers in random order, without names."""
    _export(run, "items", _options(rater, overlap, each, seed), out, as_json)


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
    def serve(
        run: options.RunFolder,
        rater: Annotated[
            Optional[list[str]],
            typer.Option(metavar="NAME", help="A rater of the plan. Repeatable. Default: all of them."),
        ] = None,
        port: Port = None,
        open_page: OpenPage = True,
        host: options.Host = "127.0.0.1",
        certificate: options.Certificate = None,
        key: options.CertificateKey = None,
        public_url: options.PublicUrl = None,
        as_json: options.AsJson = False,
    ) -> None:
        from medjudge.annotate.tasks import VERDICTS
        from medjudge.workflows.annotation_pages import open_pages

        network = network_of(host, port, certificate, key, public_url)
        pages = open_pages(run, rater or (), task=VERDICTS[name], network=network)
        serve_links(pages, open_page, as_json)

    return app
