"""How far a judge's scores may be trusted, in one line beside every number: validated, failed, or never validated."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from medjudge.records import CATEGORIES

State = Literal["validated", "failed", "not shown", "never validated"]
_STATES: dict[bool | None, State] = {True: "validated", False: "failed", None: "not shown"}
_RESULTS: dict[str, State] = {"passed": "validated", "failed": "failed", "not shown": "not shown"}


class Standing(NamedTuple):
    """A state, and the sentence that says on what it rests."""

    state: State
    line: str


def standing(validated_on: Sequence[Mapping[str, Any]], category: str | None = None) -> Standing:
    """What the last validation against physicians says of a judge, overall or in one category.

    Args:
        validated_on: Studies as `judge.json` lists them, oldest first.
        category: One of the five; None for all of them together, which is the whole gate.

    Returns:
        `never validated` where no physician's score was ever compared, whatever else was.
    """
    against_physicians = [one for one in validated_on if one["against"] == "physicians"]
    if not against_physicians:
        others = sorted({one["against"] for one in validated_on})
        compared = f"; compared with {', '.join(others)} only" if others else ""
        return Standing("never validated", f"never validated against physicians{compared}")
    study = against_physicians[-1]
    if category is None:
        state = _STATES[study["gate"]["passed"]]
        return Standing(state, f"{_gate_words(study)}: {_measured(study['overall'], study)}")
    part = study["by_category"].get(category)
    if part is None:
        return Standing("never validated", f"never validated in {category}: no physicians' score")
    check = next((one for one in study["gate"]["checks"] if one["check"].endswith(f", {category}")), None)
    state = _worst([check["result"] if check else "not shown", *_of_all_categories(study)])
    return Standing(state, f"{state}: {_measured(part, study)}")


def states(validated_on: Sequence[Mapping[str, Any]]) -> dict[str, Standing]:
    """The standing overall (`OP`) and in each category."""
    return {"OP": standing(validated_on), **{name: standing(validated_on, name) for name in CATEGORIES}}


def _of_all_categories(study: Mapping[str, Any]) -> list[str]:
    """The results of checks that hold for every category: kappa, coverage, teacher, probes."""
    return [one["result"] for one in study["gate"]["checks"] if not one["check"].startswith("usable agreement, ")]


def _worst(results: Sequence[str]) -> State:
    return next((_RESULTS[one] for one in ("failed", "not shown") if one in results), "validated")


def _gate_words(study: Mapping[str, Any]) -> str:
    checks = study["gate"]["checks"]
    counts = {result: sum(one["result"] == result for one in checks) for result in ("passed", "failed", "not shown")}
    told = ", ".join(f"{count} {result}" for result, count in counts.items() if count)
    state = _STATES[study["gate"]["passed"]]
    others = "" if study["gate"]["usual"] else "; requirements of its user, not the usual ones"
    return f"gate {'passed' if state == 'validated' else state} ({told}{others})"


def _measured(part: Mapping[str, Any], study: Mapping[str, Any]) -> str:
    agreement, kappa = part["usable_agreement"], part["cohen_kappa"]["value"]
    interval = "" if agreement["low"] is None else f" ({100 * agreement['low']:.0f}–{100 * agreement['high']:.0f})"
    beyond = "undefined" if kappa is None else f"{kappa:.2f}"
    return (
        f"agrees on usable with physicians on {100 * agreement['value']:.1f} %{interval} of {part['n']['value']} "
        f"answers, Cohen's kappa {beyond} ({study['file']})"
    )
