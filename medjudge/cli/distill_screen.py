"""The lines that `medjudge distill` prints of a training set, from its summary."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from medjudge.statistics.estimates import Estimate


def summary_lines(summary: dict[str, Any]) -> Iterator[str]:
    """The lines for people, about a dozen."""
    for name, side in (("train", summary["train"]), ("validation", summary["validation"])):
        sources = ", ".join(f"{n:,} {source}" for source, n in side["sources"].items())
        levels = " / ".join(f"{n:,}" for n in side["levels"].values())
        size = f"{side['answers']:,} answers to {side['questions']:,} questions"
        yield f"{name}: {size} ({sources}); levels 1-5: {levels}"
    if stages := summary["people_last"]:
        yield (
            f"people last: {stages['first']:,} answers first, then {stages['people']:,} of people's with "
            f"{stages['replayed']:,} of the teacher's replayed"
        )
    yield from _kept_out(summary["checks"]["kept_out"])
    yield from _teachers(summary)
    yield _checks(summary["checks"])
    yield from (f"warning: {warning}" for warning in summary["checks"]["warnings"])


def _kept_out(kept_out: dict[str, Any]) -> Iterator[str]:
    if kept_out["questions"]:
        yield (
            f"kept out: {kept_out['questions']:,} questions with {kept_out['answers']:,} answers, such as "
            f"{kept_out['ids'][0]} ({kept_out['by_id']:,} by id, the others for their text or conversation)"
        )


def _teachers(summary: dict[str, Any]) -> Iterator[str]:
    both = summary["teacher_against_physicians"]
    if both["answers"]:
        yield (
            f"teacher and physicians both scored {both['answers']:,} answers and differ in level on "
            f"{both['other_level']:,}; usable by the teacher only {both['usable_by_teacher_only']:,}, by the "
            f"physicians only {both['usable_by_physicians_only']:,}"
        )
    for name, report in summary["calibration"]["teachers"].items():
        scored = ""
        if "answers" in report:
            scored = f"{report['answers']:,} answers in {report['conversations']:,} conversations"
        how = "calibrated" if report["applied"] else "copied as it is"
        on = f" on {scored}" if report["applied"] else f" ({report['why']}{f': {scored}' if scored else ''})"
        yield f"teacher {name}: {how}{on}{_held_out(report['held_out']) if 'held_out' in report else ''}"


def _held_out(held_out: dict[str, dict[str, Estimate]]) -> str:
    loss = held_out["log_loss"]["difference"]
    sides = {name: [estimates[side]["value"] for side in ("before", "after")] for name, estimates in held_out.items()}
    measures = [
        f"log loss {_pair(sides['log_loss'], '.2f')} (difference {_number(loss['value'], '+.2f')}, "
        f"{_number(loss['low'], '+.2f')} to {_number(loss['high'], '+.2f')})",
        f"usable agreement {_pair(sides['usable_agreement'], '.1%')}",
        f"bias {_pair(sides['bias'], '+.2f')}",
        f"quadratic kappa {_pair(sides['quadratic_kappa'], '.2f')}",
    ]
    return f"; on unseen conversations {', '.join(measures)}"


def _checks(checks: dict[str, Any]) -> str:
    duplicates, balance = checks["duplicates"], checks["balance"]["train"]
    lengths = [
        f"{name} {report['usable_by_length']:.0%} ({report['usable_by_majority']:.0%})"
        for name, report in checks["length"]["by_language"].items()
    ]
    return (
        f"checks: near-duplicates across the split: {duplicates['questions']['near']:,} questions, "
        f"{duplicates['answers']['near']:,} answers, {duplicates['removed']['answers']:,} exact ones removed from "
        f"train; largest level {balance['largest_share']:.0%}; length alone (the majority alone) agrees at usable on "
        f"{', '.join(lengths)}"
    )


def _pair(values: Sequence[float | None], form: str) -> str:
    return " to ".join(_number(value, form) for value in values)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
