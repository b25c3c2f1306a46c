"""`medjudge data`: checks a file before it is used, and converts other formats."""

from enum import Enum
from pathlib import Path
from typing import Annotated

import typer

from medjudge.cli import options

app = typer.Typer(help="Check a file, or convert other formats.", no_args_is_help=True, rich_markup_mode="rich")


class Format(str, Enum):
    """Formats that `convert` reads."""

    mediqa2019 = "mediqa2019"
    liveqa_med = "liveqa-med"
    llmeval_scores = "llmeval-scores"


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="LLMEval-Med's dataset.json, or a .jsonl of records.")],
    scheme: options.Scheme = None,
    as_json: options.AsJson = False,
) -> None:
    """Count what a file holds, and list every oddity with its place."""
    from rich.table import Table

    from medjudge.benchmark.files import check_file
    from medjudge.cli.output import console, print_json
    from medjudge.scheme import open_scheme

    contents = check_file(file, None if scheme is None else open_scheme(scheme))
    if as_json:
        oddities = [{"place": oddity.place, "what": oddity.what} for oddity in contents.oddities]
        print_json({"file": str(file), "kind": contents.kind, **contents.counts, "oddities": oddities})
        return
    screen = console(as_json)
    # The list first: it may be long, and the counts should be what is left on the screen.
    for oddity in contents.oddities:
        screen.print(f"  {oddity.place}: {oddity.what}")
    screen.print(f"{file}: {contents.kind}")
    categories: dict[str, dict[str, int]] = contents.counts.get("categories", {})
    for name, count in contents.counts.items():
        if name != "categories":
            screen.print(f"  {name}: {count}")
    if categories:
        table = Table(box=None, pad_edge=False)
        for column in ("category", "questions", "conversations", "with reference", "with checklist"):
            table.add_column(column, justify="left" if column == "category" else "right")
        for name, counts in categories.items():
            table.add_row(name, *[str(value) for value in counts.values()])
        screen.print(table)
    screen.print(f"{len(contents.oddities)} oddities; the file can be used")


@app.command("convert")
def convert(
    format: Annotated[
        Format, typer.Argument(help="mediqa2019, liveqa-med, or llmeval-scores (written by LLMEval-Med's Evaluate.py).")
    ],
    files: Annotated[list[Path], typer.Argument(help="Files to read.")],
    out: options.Out,
    model: Annotated[str, typer.Option(help="llmeval-scores: the model that answered.")] = "model",
    judge: Annotated[str, typer.Option(help="llmeval-scores: the judge that scored.")] = "gpt-4o",
    scheme: options.Scheme = None,
    as_json: options.AsJson = False,
) -> None:
    """Convert files into the project's records."""
    from medjudge.cli.output import console, print_json
    from medjudge.workflows.data import Format as Source
    from medjudge.workflows.data import convert_data

    converted = convert_data(Source(format.value), files, out, model=model, judge=judge, scheme=scheme)
    if as_json:
        print_json(converted.as_json())
    screen = console(as_json)
    for oddity in converted.oddities:
        screen.print(f"  {oddity.place}: {oddity.what}")
    for file, count in converted.written.items():
        screen.print(f"{file}: {count}")
