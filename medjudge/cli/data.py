"""`medjudge data`: looks at a file before it is used, and brings other formats in."""

from enum import Enum
from pathlib import Path
from typing import Annotated, Any

import typer

from medjudge.cli import options
from medjudge.errors import InputError

app = typer.Typer(help="Check a file, or bring other formats in.", no_args_is_help=True, rich_markup_mode="rich")


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
    """Count what a file holds and list every oddity with its place."""
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
    from medjudge.judge.api import file_name
    from medjudge.scheme import LLMEVAL_MED, open_scheme
    from medjudge.store import Run, check_questions, write_records

    if not model.strip() or not file_name(judge).strip():
        raise InputError("--model and --judge: a name is needed, not an empty text")
    judge = file_name(judge)
    run = Run(out)
    if run.questions_file.exists():
        raise InputError(f"--out {out}: holds {run.questions_file.name} already; remove it, or choose another folder")
    oddities: list[Any] = []
    if format is not Format.llmeval_scores:
        from medjudge.benchmark.expert_sets import SCHEME, read_liveqa_med, read_mediqa2019

        if format is Format.liveqa_med and len(files) != 2:
            raise InputError("liveqa-med: name two files, the XML of the reference answers and the judged answers")
        experts = read_mediqa2019(files) if format is Format.mediqa2019 else read_liveqa_med(*files)
        belongs_to = open_scheme(scheme or SCHEME)
        questions = experts.questions
        parts: dict[Path, Any] = {run.physicians_file: experts.scores, run.answers_file: experts.answers}
    else:
        from medjudge.benchmark.llmeval_med import read_llmeval_scores

        belongs_to = LLMEVAL_MED if scheme is None else open_scheme(scheme)
        scores = read_llmeval_scores(files, model, judge, belongs_to)
        oddities = [oddity for oddity in scores.oddities if "score" in oddity.what]
        questions = scores.questions
        parts = {run.judgments_file(judge): scores.judgments, run.answers_file: scores.answers}
    check_questions(questions, belongs_to)
    for path, records in parts.items():
        write_records(path, records)
    run.write_questions(questions, belongs_to)
    counts = {str(path): len(records) for path, records in parts.items()} | {str(run.questions_file): len(questions)}
    if as_json:
        listed = [{"place": oddity.place, "what": oddity.what} for oddity in oddities]
        print_json({"written": counts, "oddities": listed})
    screen = console(as_json)
    for oddity in oddities:
        screen.print(f"  {oddity.place}: {oddity.what}")
    for name, count in counts.items():
        screen.print(f"{name}: {count}")
