"""`medjudge distill`: judgments, physicians' scores and synthetic answers -> a training set."""

from pathlib import Path
from shlex import quote
from typing import Annotated, Optional

import typer

from medjudge.cli import options
from medjudge.errors import InputError


def distill(
    runs: options.RunFolders,
    out: options.Out,
    teacher: Annotated[
        Optional[list[str]],
        typer.Option(metavar="JUDGE", help="Judge whose judgments teach. Repeatable. Default: all but local judges."),
    ] = None,
    physicians: Annotated[
        Optional[list[Path]],
        typer.Option(
            metavar="FILE",
            help="Physicians' scores (.jsonl, .csv, .xlsx, Label Studio .json). Repeatable. Default: the runs' own.",
        ),
    ] = None,
    calibration: Annotated[
        bool,
        typer.Option(
            "--calibration/--no-calibration",
            help="Map a teacher's scores to the physicians' levels first, where that helps on held-out scores.",
        ),
    ] = True,
    synthetic: Annotated[
        int, typer.Option(metavar="N", min=0, help="Add N synthetic answers, made from references at levels 5 to 1.")
    ] = 0,
    weight: Annotated[
        Optional[list[str]],
        typer.Option(
            metavar="SOURCE=W",
            help="Weight of a source's lines. Default: physician 3; constructed, teacher 1; synthetic 0.5, because "
            "faults made by rule are cruder than real ones and should not outvote them. Repeatable.",
        ),
    ] = None,
    keep_out: Annotated[
        Optional[list[Path]],
        typer.Option(
            metavar="FOLDER|FILE",
            help="Run folder, or file with question ids, that a judge will be validated on: no line is made of its "
            "questions, of the same texts, or of their conversations. Repeatable.",
        ),
    ] = None,
    hold_out: Annotated[
        float,
        typer.Option(
            metavar="SHARE",
            min=0.0,
            max=0.9,
            help="Hold out this share of the conversations that physicians scored, as a run folder OUT/held-out to "
            "validate a judge in.",
        ),
    ] = 0.0,
    people_last: Annotated[
        bool,
        typer.Option(
            "--people-last",
            help="Write the files of two stages too: teacher-first.jsonl, then people-last.jsonl, where 30% of the "
            "lines are the teacher's again.",
        ),
    ] = False,
    validation_share: Annotated[
        float, typer.Option(metavar="SHARE", min=0.01, max=0.9, help="Share of the conversations held out.")
    ] = 0.1,
    scheme: options.Scheme = None,
    encoding: options.Encoding = None,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
    as_json: options.AsJson = False,
) -> None:
    """Make a training set from scores.

    A physician's score outranks the teacher's; conversations stay on one side of the split.
    """
    from medjudge.cli.distill_screen import summary_lines
    from medjudge.cli.output import console, print_json
    from medjudge.workflows.distill import DistillOptions, distill_training_set

    distilled = distill_training_set(
        runs,
        out,
        options=DistillOptions(
            validation_share=validation_share,
            seed=seed,
            calibrate=calibration,
            weights=_weights(weight or []),
            synthetic=synthetic,
            teachers=teacher,
            physicians=physicians,
            keep_out=keep_out or [],
            scheme=scheme,
            people_last=people_last,
            hold_out=hold_out,
        ),
    )
    if as_json:
        print_json(distilled.summary)
    screen = console(as_json)
    for line in summary_lines(distilled.summary):
        screen.print(line)
    screen.print(str(distilled.summary_file))
    english = all(line.question.language == "en" for line in distilled.train)
    config = "minilm-ordinal" if english else "e5-ordinal"
    train = f"medjudge train --config {config} --validation-file {quote(str(distilled.validation_file))} --train-file"
    if people_last:
        screen.print(f"Next: {train} {quote(str(distilled.first_file))} --output-dir judges/teacher-first")
        screen.print(
            f"then: {train} {quote(str(distilled.last_file))} --start-from judges/teacher-first "
            "--output-dir judges/people-last --learning_rate 5e-5"
        )
    else:
        screen.print(f"Next: {train} {quote(str(distilled.train_file))}")


def _weights(entries: list[str]) -> dict[str, float]:
    from medjudge.distill.training_set import WEIGHTS

    weights = dict(WEIGHTS)
    for entry in entries:
        source, _, value = entry.partition("=")
        try:
            number = float(value)
        except ValueError:
            number = 0.0
        if source not in WEIGHTS or not 0 < number < float("inf"):
            raise InputError(f"--weight {entry}: SOURCE=W with {', '.join(WEIGHTS)} and a number above 0 is expected")
        weights[source] = number
    return weights
