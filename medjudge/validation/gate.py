"""The gate: what a judge must show on physicians' scores before its own scores count as validated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from medjudge.errors import InputError
from medjudge.files import first_problem
from medjudge.records import CATEGORIES, Category

Result = Literal["passed", "failed", "not shown"]
Share = Annotated[float, Field(ge=0, le=1)]

_CATEGORIES: dict[Category, float] = {"MK": 0.888, "MLU": 0.814, "MR": 0.879, "MSE": 0.892, "MTG": 0.577}
_FEWEST_TO_FAIL = 10
"""Conversations below which an interval is too rough even to fail a judge."""


class Gate(BaseModel):
    """The requirements; `configs/eval/gate.yaml` holds these defaults with their reasons. Shares from 0 to 1."""

    model_config = ConfigDict(extra="forbid")
    usable_agreement: dict[Category, Share] = Field(default=_CATEGORIES)
    cohen_kappa: float = Field(default=0.6, ge=-1, le=1)
    coverage: float = Field(default=0.95, ge=0, le=1)
    teacher_margin: float = Field(default=0.05, ge=0, le=1)
    probe_flips: float = Field(default=0.02, ge=0, le=1)
    minimum_scores: int = Field(default=50, ge=1)
    minimum_conversations: int = Field(default=30, ge=1)

    @field_validator("usable_agreement", mode="before")
    @classmethod
    def _over_the_defaults(cls, given: Any) -> Any:
        """A category that a file does not name keeps its requirement."""
        return {**_CATEGORIES, **given} if isinstance(given, dict) else given


class Claim(NamedTuple):
    """One measured value that the gate looks at, with what it rests on."""

    check: str
    measured: Mapping[str, Any]
    n: int
    conversations: int


def read_gate(path: Path) -> Gate:
    """Reads a gate from YAML; what the file leaves out keeps its default.

    Raises:
        InputError: The file is missing, is no YAML mapping, or an entry is not one of the gate's.
    """
    try:
        return Gate.model_validate(yaml.safe_load(path.read_text(encoding="utf-8")) or {})
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}; see configs/eval/gate.yaml") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())[:160]
        raise InputError(f"{path}: cannot be read as YAML ({reason})") from None


def gate_result(study: Mapping[str, Any], gate: Gate) -> dict[str, Any]:
    """Holds a study against the gate.

    Args:
        study: What `agreement_study` assembled, with `teacher` and `probes` where they were asked for.

    Returns:
        `{"passed", "checks": [{"check", "required", "value", "low", "high", "n", "result", "why"}]}`. `passed` is true
        where every check is passed, false where one failed, null where nothing failed but something was not shown.
        `usual` says whether the requirements were the default ones.
    """
    checks = [
        *_categories(study, gate),
        _kappa(study, gate),
        _coverage(study, gate),
        _teacher(study, gate),
        *_probes(study, gate),
    ]
    if study["against"] != "physicians":
        for check in checks:
            if check["result"] == "passed":
                check.update(result="not shown", why=f"measured against {study['against']}, not physicians")
    results = [check["result"] for check in checks]
    passed = False if "failed" in results else None if "not shown" in results else True
    return {"passed": passed, "usual": gate == Gate(), "checks": checks}


def _categories(study: Mapping[str, Any], gate: Gate) -> list[dict[str, Any]]:
    checks = []
    for category in CATEGORIES:
        if category not in gate.usable_agreement:
            continue
        name, required = f"usable agreement, {category}", gate.usable_agreement[category]
        part = study["by_category"].get(category)
        if part is None:
            checks.append(_not_shown(name, required, f"no physicians' score in {category}"))
        else:
            conversations = study["conversations_by_category"][category]
            claim = Claim(name, part["usable_agreement"], part["n"]["value"], conversations)
            checks.append(_beyond_chance(_at_least(claim, required, gate), part["cohen_kappa"]))
    return checks


def _beyond_chance(check: dict[str, Any], kappa: Mapping[str, Any]) -> dict[str, Any]:
    """A judge that knows only how often a category is usable would agree there, too, and by chance alone."""
    if check["result"] == "passed" and (kappa["low"] is None or kappa["low"] <= 0):
        check.update(result="not shown", why="within the category, agreement beyond chance is not shown")
    return check


def _kappa(study: Mapping[str, Any], gate: Gate) -> dict[str, Any]:
    claim = Claim("Cohen's kappa", study["overall"]["cohen_kappa"], study["n"], study["conversations"])
    return _at_least(claim, gate.cohen_kappa, gate)


def _coverage(study: Mapping[str, Any], gate: Gate) -> dict[str, Any]:
    """A judge that leaves the hard answers unscored would agree well on the rest."""
    share = study["coverage"]
    result: Result = "passed" if share >= gate.coverage else "failed"
    why = "" if result == "passed" else "the judge left answers unscored that physicians scored"
    if result == "passed" and study["n"] < gate.minimum_scores:
        result, why = "not shown", f"{study['n']} answers; the gate asks for {gate.minimum_scores}"
    measured = {"value": share, "low": None, "high": None}
    return {"check": "coverage", "required": gate.coverage, **measured, "n": study["n"], "result": result, "why": why}


def _teacher(study: Mapping[str, Any], gate: Gate) -> dict[str, Any]:
    name, required = "usable agreement minus the teacher's", -gate.teacher_margin
    teacher = study.get("teacher")
    if teacher is None:
        return _not_shown(name, required, "no teacher; name a judge of the run with --teacher")
    if teacher["n"] < gate.coverage * study["n"]:
        return _not_shown(name, required, f"the teacher scored {teacher['n']} of the {study['n']} answers only")
    difference = teacher["difference"]["usable_agreement"]
    return _at_least(Claim(name, difference, teacher["n"], teacher["conversations"]), required, gate)


def _probes(study: Mapping[str, Any], gate: Gate) -> list[dict[str, Any]]:
    probes = study.get("probes")
    if probes is None:
        return [_not_shown("flips by probes", gate.probe_flips, "not probed; add --probes")]
    checks = []
    for name, effect in probes["effects"].items():
        claim = Claim(f"flips by probe {name}", effect["flips"], effect["n"], effect["conversations"])
        checks.append(_at_most(claim, gate.probe_flips, gate))
    for name in probes["not_applied"]:
        checks.append(_not_shown(f"flips by probe {name}", gate.probe_flips, "applies to none of the probed answers"))
    return checks


def _at_least(claim: Claim, required: float, gate: Gate) -> dict[str, Any]:
    measured = claim.measured
    above = {key: None if measured[key] is None else measured[key] - required for key in ("value", "low", "high")}
    return _judged(claim, required, above["value"], above["low"], above["high"], gate)


def _at_most(claim: Claim, required: float, gate: Gate) -> dict[str, Any]:
    measured = claim.measured
    below = {key: None if measured[key] is None else required - measured[key] for key in ("value", "low", "high")}
    return _judged(claim, required, below["value"], below["high"], below["low"], gate)


def _judged(
    claim: Claim, required: float, value: float | None, worst: float | None, best: float | None, gate: Gate
) -> dict[str, Any]:
    """A check from how far value, worst and best end of the interval lie on the right side of what is required."""
    enough = claim.n >= gate.minimum_scores and claim.conversations >= gate.minimum_conversations
    result: Result = "not shown"
    why = ""
    if value is None or (worst is None and best is None):
        why = "no interval can be had from these scores"
    elif best is not None and best < 0 and claim.conversations >= _FEWEST_TO_FAIL:
        result = "failed"
    elif not enough:
        why = (
            f"{claim.n} answers in {claim.conversations} conversation{'s' if claim.conversations > 1 else ''}; the "
            f"gate asks for {gate.minimum_scores} in {gate.minimum_conversations}"
        )
    elif value < 0:
        result = "failed"
    elif worst is None or worst < 0:
        why = "the interval reaches past what is required; more scores would tell"
    else:
        result = "passed"
    return {
        "check": claim.check,
        "required": required,
        **{key: claim.measured[key] for key in ("value", "low", "high")},
        "n": claim.n,
        "result": result,
        "why": why,
    }


def _not_shown(check: str, required: float, why: str) -> dict[str, Any]:
    nothing = dict.fromkeys(("value", "low", "high"))
    return {"check": check, "required": required, **nothing, "n": 0, "result": "not shown", "why": why}
