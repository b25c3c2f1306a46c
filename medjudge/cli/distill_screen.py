"""What `medjudge distill` says of a training set, from its summary."""

from collections.abc import Iterator
from typing import Any


def said(summary: dict[str, Any]) -> Iterator[str]:
    """The lines for people, about a dozen."""
    for side in ("train", "validation"):
        part = summary[side]
        sources = ", ".join(f"{n:,} {source}" for source, n in part["sources"].items())
        levels = " / ".join(f"{n:,}" for n in part["levels"].values())
        size = f"{part['answers']:,} answers to {part['questions']:,} questions"
        yield f"{side}: {size} ({sources}); levels 1-5: {levels}"
    yield from _kept_out(summary["checks"]["kept_out"])
    yield from _raters(summary["raters"])
    yield from _teachers(summary)
    yield _checks(summary["checks"])
    yield from (f"warning: {one}" for one in summary["checks"]["warnings"])


def _kept_out(kept: dict[str, Any]) -> Iterator[str]:
    if kept["questions"]:
        yield (
            f"kept out: {kept['questions']:,} questions with {kept['answers']:,} answers, such as {kept['ids'][0]} "
            f"({kept['by_id']:,} by id, the others for their text or conversation)"
        )


def _raters(found: dict[str, Any]) -> Iterator[str]:
    if not found["several"]:
        return
    if not found["fitted"]:
        yield f"raters: {found['several']} answers have several scores, too few to tell the raters apart; plain means"
        return
    raters = sorted(found["raters"].items(), key=lambda item: -item[1]["n"])
    shown = [f"{name} {one['bias']:+.1f} and {one['reliability']:.0%} (n {one['n']:,})" for name, one in raters[:4]]
    more = f", and {len(raters) - 4} more" if len(raters) > 4 else ""
    yield f"raters, bias in levels and chance to give the level behind all scores: {', '.join(shown)}{more}"


def _teachers(summary: dict[str, Any]) -> Iterator[str]:
    both = summary["teacher_against_physicians"]
    if both["answers"]:
        yield (
            f"teacher and physicians both scored {both['answers']:,} answers and differ in level on "
            f"{both['other_level']:,}; usable by the teacher only {both['usable_by_teacher_only']:,}, by the "
            f"physicians only {both['usable_by_physicians_only']:,}"
        )
    for name, one in summary["calibration"]["teachers"].items():
        scored = f"{one['answers']:,} answers in {one['conversations']:,} conversations" if "answers" in one else ""
        how = "calibrated" if one["applied"] else "copied as it is"
        on = f" on {scored}" if one["applied"] else f" ({one['why']}{f': {scored}' if scored else ''})"
        yield f"teacher {name}: {how}{on}{_held_out(one['held_out']) if 'held_out' in one else ''}"
    changed = summary["calibration"]["changed"]
    if any(one["applied"] for one in summary["calibration"]["teachers"].values()):
        parts = [
            f"{name} {part['usable_before']:,} to {part['usable_after']:,} (expected {part['usable_expected']:,.0f})"
            for name, part in changed["by_category"].items()
        ]
        yield (
            f"calibration changed {changed['other_level']:,} of the teacher's {changed['answers']:,} levels; usable of "
            f"{changed['answers']:,}: {changed['usable_before']:,} to {changed['usable_after']:,} (expected "
            f"{changed['usable_expected']:,.0f}); {', '.join(parts)}"
        )


def _held_out(held_out: dict[str, dict[str, dict[str, float | None]]]) -> str:
    loss = held_out["log_loss"]["difference"]
    sides = {name: [one[side]["value"] for side in ("before", "after")] for name, one in held_out.items()}
    parts = [
        f"log loss {_pair(sides['log_loss'], '.2f')} (difference {_number(loss['value'], '+.2f')}, "
        f"{_number(loss['low'], '+.2f')} to {_number(loss['high'], '+.2f')})",
        f"usable agreement {_pair(sides['usable_agreement'], '.1%')}",
        f"bias {_pair(sides['bias'], '+.2f')}",
        f"quadratic kappa {_pair(sides['quadratic_kappa'], '.2f')}",
    ]
    return f"; on unseen conversations {', '.join(parts)}"


def _checks(checks: dict[str, Any]) -> str:
    duplicates, balance = checks["duplicates"], checks["balance"]["train"]
    lengths = [
        f"{name} {one['usable_by_length']:.0%} ({one['usable_by_majority']:.0%})"
        for name, one in checks["length"]["by_language"].items()
    ]
    return (
        f"checks: near-duplicates across the split: {duplicates['questions']['near']:,} questions, "
        f"{duplicates['answers']['near']:,} answers, {duplicates['removed']['answers']:,} exact ones removed from "
        f"train; largest level {balance['largest_share']:.0%}; length alone (the majority alone) agrees at usable on "
        f"{', '.join(lengths)}"
    )


def _pair(values: list[float | None], form: str) -> str:
    return " to ".join(_number(value, form) for value in values)


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
