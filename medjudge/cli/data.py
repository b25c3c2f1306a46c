"""`medjudge data`: checks a file before it is used, and converts other formats."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, Optional

import typer

from medjudge.cli import options

if TYPE_CHECKING:
    from medjudge.benchmark.published import Oddity

MOST_LINES, MOST_PLACES = 20, 3
"""The most oddities that are shown, and the most places of one of them."""

app = typer.Typer(help="Check a file, or convert other formats.", no_args_is_help=True, rich_markup_mode="rich")


Format = Literal[
    "mediqa2019",
    "liveqa-med",
    "llmeval-scores",
    "llmeval2",
    "healthbench",
    "healthbench-meta",
    "kqa",
    "morqa",
    "oncqa",
    "red-teaming",
    "halluqa",
    "evouna",
    "disc-medllm",
    "liveqa-2479",
]
"""Formats that `convert` reads."""


@app.command("check")
def check(
    file: Annotated[Path, typer.Argument(help="LLMEval-Med's dataset.json, or records: .jsonl, .json, .csv, .xlsx.")],
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    everything: Annotated[bool, typer.Option("--all", help="List every oddity on a line of its own.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Count what a file holds, and list its oddities with their places."""
    from collections import Counter

    from medjudge.annotate.scores import read_physician_scores
    from medjudge.benchmark.files import check_file
    from medjudge.cli.output import console, plain_table, print_json
    from medjudge.scheme import open_scheme

    contents = check_file(file, None if scheme is None else open_scheme(scheme), read_physician_scores)
    if as_json:
        oddities = [{"place": oddity.place, "what": oddity.what, "means": oddity.means} for oddity in contents.oddities]
        print_json({"file": str(file), "kind": contents.kind, **contents.counts, "oddities": oddities})
        return
    screen = console(as_json)
    # The list first: it may be long, and the counts should be what is left on the screen.
    own = [oddity._replace(place=oddity.place.removeprefix(f"{file}, ")) for oddity in contents.oddities]
    for line in oddity_lines(own, everything):
        screen.print(f"  {line}")
    screen.print(f"{file}: {contents.kind}")
    categories: dict[str, dict[str, int]] = contents.counts.get("categories", {})
    for name, count in contents.counts.items():
        if name == "example_ids":
            screen.print(f"  example ids: {', '.join(count)}")
        elif name == "checklists":
            total = sum(count.values())
            screen.print(f"  checklists split into items: {count['split_into_items']} of {total}")
        elif name != "categories":
            screen.print(f"  {name}: {count}")
    if categories:
        columns = ("questions", "conversations", "with reference", "with checklist", "with items")
        table = plain_table("category", columns)
        for name, counts in categories.items():
            table.add_row(name, *[str(value) for value in counts.values()])
        screen.print(table)
    screen.print(f"{len(contents.oddities)} oddities; the file can be used")
    # The consequences for judging.
    for meaning, count in Counter(oddity.means for oddity in own if oddity.means).most_common():
        screen.print(f"  {count:,}: {meaning}")


@app.command("template")
def template(
    benchmark: Annotated[str, typer.Argument(metavar="BENCHMARK", help="As for `medjudge eval --benchmark`.")],
    format: Annotated[
        Literal["jsonl", "csv", "xlsx"], typer.Option(metavar="jsonl|csv|xlsx", help="Format of the file.")
    ] = "jsonl",
    out: Annotated[
        Optional[Path], typer.Option(metavar="FILE", help="The file. Default: stdout, which xlsx cannot take.")
    ] = None,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
) -> None:
    """Write id, prompt and an empty answer for each question, to fill in for `medjudge eval --answers`."""
    import sys

    from medjudge.errors import InputError
    from medjudge.files import replacing
    from medjudge.workflows.data import answer_template

    if out is None and format == "xlsx":
        raise InputError("--format xlsx: needs --out FILE; a workbook is not written to stdout")
    data, count = answer_template(benchmark, format, scheme)
    if out is None:
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
        return
    with replacing(out) as file:
        file.write(data)
    print(f"{out}: {count} questions")


@app.command("convert")
def convert(
    format: Annotated[
        Format,
        typer.Argument(
            help="mediqa2019, liveqa-med, llmeval2 (people's file or folder, then GPT-4's), healthbench, "
            "healthbench-meta, kqa, morqa (MEDIQA-EVAL too), oncqa, red-teaming, halluqa (Apache-2.0; labels by GPT-4, "
            "know its terms), evouna (Apache-2.0), disc-medllm (Apache-2.0; labels by GPT-4, know its terms) or "
            "liveqa-2479 (CC BY 4.0): published sets. llmeval-scores: written by LLMEval-Med's Evaluate.py. The page "
            "Data formats says how each maps to levels.",
        ),
    ],
    files: Annotated[list[Path], typer.Argument(help="Files to read; of some sets, folders of them.")],
    out: options.Out,
    model: Annotated[str, typer.Option(metavar="NAME", help="llmeval-scores: the model that answered.")] = "model",
    judge: Annotated[str, typer.Option(metavar="NAME", help="llmeval-scores: the judge that scored.")] = "gpt-4o",
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    everything: Annotated[bool, typer.Option("--all", help="List every oddity on a line of its own.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Convert files into the project's records."""
    from medjudge.cli.output import console
    from medjudge.workflows.data import convert_data

    converted = convert_data(format, files, out, model=model, judge=judge, scheme=scheme)
    screen = console(as_json, converted.as_json())
    for line in oddity_lines(converted.oddities, everything):
        screen.print(f"  {line}")
    for file, count in converted.written.items():
        screen.print(f"{file}: {count}")


def oddity_lines(oddities: Sequence["Oddity"], everything: bool) -> Iterator[str]:
    """A line for each oddity, or at most `MOST_LINES` with the same ones together.

    Args:
        everything: Whether each oddity has a line of its own.
    """
    if everything:
        yield from (f"{oddity.place}: {oddity.what}" for oddity in oddities)
        return
    places: dict[str, list[str]] = {}
    for oddity in oddities:
        places.setdefault(oddity.what, []).append(oddity.place)
    for what, where in list(places.items())[:MOST_LINES]:
        more = f", and {len(where) - MOST_PLACES:,} more" if len(where) > MOST_PLACES else ""
        yield f"{', '.join(where[:MOST_PLACES])}{more}: {what}"
    if len(places) > MOST_LINES:
        yield f"and {len(places) - MOST_LINES:,} more kinds; --all lists everything"
