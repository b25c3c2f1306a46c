"""`medjudge distill`: judgments, physicians' scores and synthetic answers -> a training set."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any, Optional

from medjudge.cli import options
from medjudge.cli.options import flags, option
from medjudge.errors import InputError

if TYPE_CHECKING:
    from medjudge.workflows.distill import DistilledSet

_CONFIG = "gemma3-270m-lora"
"""The recipe's own on a CPU; the module that names it takes seconds to import."""


@dataclass(kw_only=True)
class Distill:
    """The options of `medjudge distill`."""

    runs: options.RunFolders
    out: options.Out
    teacher: Optional[list[str]] = option(
        None, "JUDGE", "Judge whose judgments teach. Repeatable. Default: all but local judges."
    )
    physicians: Optional[list[Path]] = option(
        None,
        "FILE",
        "Physicians' scores (.jsonl, .csv, .tsv, .xlsx). Repeatable. Default: the runs' own.",
    )
    calibration: bool = option(
        True,
        None,
        "Map a teacher's scores to the physicians' levels first, where that helps on held-out scores.",
        name="--calibration/--no-calibration",
    )
    synthetic: int = option(0, "N", "Add N synthetic answers, made from references at levels 5 to 1.", min=0)
    weight: Optional[list[str]] = option(
        None,
        "SOURCE=W",
        "Weight of a source's lines. Default: physician 3; constructed, teacher 1; synthetic 0.5, because faults made "
        "by rule are cruder than real ones and should not outvote them. Repeatable.",
    )
    keep_out: Optional[list[Path]] = option(
        None,
        "FOLDER|FILE",
        "Run folder, or file with question ids, that a judge will be validated on: no line is made of its questions, "
        "of the same texts, or of their conversations. Repeatable.",
    )
    hold_out: float = option(
        0.0,
        "SHARE",
        "Hold out this share of the conversations that physicians scored, as a run folder OUT/held-out to validate a "
        "judge in.",
        min=0.0,
        max=0.9,
    )
    people_last: bool = option(
        False,
        None,
        "Write the files of two stages too: teacher-first.jsonl, then people-last.jsonl, where 30% of the lines are "
        "the teacher's again.",
    )
    validation_share: float = option(0.1, "SHARE", "Share of the conversations held out.", min=0.01, max=0.9)
    scheme: options.Scheme = None
    encoding: options.Encoding = None
    seed: options.Seed = 0
    quiet: options.Quiet = False
    as_json: options.AsJson = False


@flags
def distill(options: Distill) -> None:
    """Make a training set from scores.

    A physician's score outranks the teacher's; conversations stay on one side of the split.
    """
    from medjudge.cli.output import console
    from medjudge.workflows.distill import DistillOptions, distill_training_set

    distilled = distill_training_set(
        options.runs,
        options.out,
        options=DistillOptions(
            validation_share=options.validation_share,
            seed=options.seed,
            calibrate=options.calibration,
            weights=_weights(options.weight or []),
            synthetic=options.synthetic,
            teachers=options.teacher,
            physicians=options.physicians,
            keep_out=options.keep_out or [],
            scheme=options.scheme,
            people_last=options.people_last,
            hold_out=options.hold_out,
        ),
    )
    screen = console(options.as_json, distilled.summary)
    for line in _summary_lines(distilled.summary):
        screen.print(line)
    screen.print(str(distilled.summary_file))
    for line in _next_commands(distilled, options.people_last):
        screen.print(line)


def _weights(entries: list[str]) -> dict[str, float]:
    from medjudge.distill.training_set import WEIGHTS

    weights = dict(WEIGHTS)
    for entry in entries:
        source, _, value = entry.partition("=")
        try:
            weights[source] = float(value)
        except ValueError:
            weights[source] = 0.0
        if source not in WEIGHTS or not 0 < weights[source] < float("inf"):
            raise InputError(f"--weight {entry}: SOURCE=W with {', '.join(WEIGHTS)} and a number above 0 is expected")
    return weights


def _next_commands(distilled: "DistilledSet", people_last: bool) -> Iterator[str]:
    """The training that comes next, with the config that the recipe takes by default on a CPU."""
    from medjudge.workflows.distill import FIRST_FILE, LAST_FILE

    validation = quote(str(distilled.validation_file))
    train = f"medjudge train --config {_CONFIG} --validation-file {validation} --train-file"
    if people_last:
        first, last = (quote(str(distilled.folder / name)) for name in (FIRST_FILE, LAST_FILE))
        yield f"Next: {train} {first} --output-dir judges/teacher-first"
        yield (
            f"then: {train} {last} --start-from judges/teacher-first --output-dir judges/people-last "
            "--learning_rate 5e-5"
        )
    else:
        yield f"Next: {train} {quote(str(distilled.train_file))}"


def _summary_lines(summary: dict[str, Any]) -> Iterator[str]:
    """The lines for people, about a dozen."""
    for name in ("train", "validation"):
        side = summary[name]
        sources = ", ".join(f"{n:,} {source}" for source, n in side["sources"].items())
        levels = " / ".join(f"{n:,}" for n in side["levels"].values())
        size = f"{side['answers']:,} answers to {side['questions']:,} questions"
        yield f"{name}: {size} ({sources}); levels 1-5: {levels}"
    if stages := summary["people_last"]:
        yield (
            f"people last: {stages['first']:,} answers first, then {stages['people']:,} of people's with "
            f"{stages['replayed']:,} of the teacher's replayed"
        )
    checks, both = summary["checks"], summary["teacher_against_physicians"]
    if (kept_out := checks["kept_out"])["questions"]:
        yield (
            f"kept out: {kept_out['questions']:,} questions with {kept_out['answers']:,} answers, such as "
            f"{kept_out['ids'][0]} ({kept_out['by_id']:,} by id, the others for their text or conversation)"
        )
    if both["answers"]:
        yield (
            f"teacher and physicians both scored {both['answers']:,} answers and differ in level on "
            f"{both['other_level']:,}; usable by the teacher only {both['usable_by_teacher_only']:,}, by the "
            f"physicians only {both['usable_by_physicians_only']:,}"
        )
    for name, report in summary["calibration"]["teachers"].items():
        yield _calibration_line(name, report)
    duplicates, levels = checks["duplicates"], summary["train"]["levels"].values()
    lengths = ", ".join(f"{name} {value:.2f}" for name, value in checks["length"].items() if value is not None)
    yield (
        f"checks: near-duplicates across the split: {duplicates['questions']['near']:,} questions, "
        f"{duplicates['answers']['near']:,} answers, {duplicates['removed']['answers']:,} exact ones removed from "
        f"train; largest level {max(levels) / sum(levels):.0%}; rank correlation of length and level: {lengths or '-'}"
    )
    yield from (f"warning: {warning}" for warning in checks["warnings"])


def _calibration_line(teacher: str, report: dict[str, Any]) -> str:
    scored = ""
    if "answers" in report:
        scored = f"{report['answers']:,} answers in {report['conversations']:,} conversations"
    if report["applied"]:
        line = f"teacher {teacher}: calibrated on {scored}"
    else:
        line = f"teacher {teacher}: copied as it is ({': '.join(filter(None, (report['why'], scored)))})"
    if (held_out := report.get("held_out")) is None:
        return line

    def shown(value: float | None, form: str) -> str:
        return "-" if value is None else format(value, form)

    forms = {"log_loss": ".2f", "usable_agreement": ".1%", "bias": "+.2f", "quadratic_kappa": ".2f"}
    changed = {
        name: " to ".join(shown(held_out[name][side]["value"], form) for side in ("before", "after"))
        for name, form in forms.items()
    }
    value, low, high = (shown(held_out["log_loss"]["difference"][part], "+.2f") for part in ("value", "low", "high"))
    return (
        f"{line}; on unseen conversations log loss {changed['log_loss']} (difference {value}, {low} to {high}), usable "
        f"agreement {changed['usable_agreement']}, bias {changed['bias']}, quadratic kappa {changed['quadratic_kappa']}"
    )
