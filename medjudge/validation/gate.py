"""The acceptance gate: what a judge must reach on physicians' scores before its own scores count as validated."""

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from pydantic import ValidationError

from medjudge.errors import InputError
from medjudge.files import first_problem, read_yaml
from medjudge.judge.study_summary import AgainstKind, CheckKind, CheckState, GateCheck, GateResult
from medjudge.probes.probes import OUTSIDE_GATE, PROBES
from medjudge.scheme import LLMEVAL_MED, Gate, Scheme
from medjudge.shipped import shipped
from medjudge.statistics.estimates import Estimate
from medjudge.validation.records import Study

_FEWEST_TO_FAIL = 10
"""Conversations below which an interval is too rough even to fail a judge."""
_NOTHING = Estimate(value=None, low=None, high=None)


class _Claim(NamedTuple):
    """A requirement of the gate, with the value measured for it and the answers and conversations behind that.

    `missing` says why nothing was measured, `doubt` why the value cannot pass whatever it is.
    """

    kind: CheckKind
    part: str | None
    required: float
    estimate: Estimate = _NOTHING
    n: int = 0
    conversations: int = 0
    missing: str = ""
    doubt: str = ""


def read_gate(path: Path, scheme: Scheme = LLMEVAL_MED) -> Gate:
    """Reads a gate from YAML, or from the section `gate` of a project file.

    What is left out there keeps the scheme's requirement.

    Raises:
        InputError: The file is missing, is no YAML mapping, or an entry is not one of the gate's.
    """
    fields = read_yaml(path)
    if isinstance(fields, dict) and isinstance(fields.get("gate"), dict):  # a project file
        fields = fields["gate"]
    if not isinstance(fields, dict):
        raise InputError(
            f"{path}: a mapping of requirements is expected, such as `coverage: 0.95`; see "
            f"{shipped('configs/eval/gate.yaml')}"
        )
    try:
        own = Gate.model_validate(fields)
    except ValidationError as error:
        raise InputError(f"{path}: {first_problem(error)}; see {shipped('configs/eval/gate.yaml')}") from None
    for category in own.usable_agreement:
        if category not in scheme.category_ids:
            raise InputError(
                f"{path}: usable_agreement.{category}: scheme {scheme.name} has no such category; there are "
                f"{', '.join(scheme.category_ids)}"
            )
    for probe in own.probe_flips_of:
        if probe not in PROBES:
            raise InputError(f"{path}: probe_flips_of.{probe}: no such probe; there are {', '.join(PROBES)}")
    changed = {name: getattr(own, name) for name in own.model_fields_set}
    changed["usable_agreement"] = {**scheme.gate.usable_agreement, **own.usable_agreement}
    return scheme.gate.model_copy(update=changed)


def gate_result(study: Study, gate: Gate) -> GateResult:
    """Checks a study against the gate.

    A check passes where the whole 95 % interval lies on the right side of the requirement, fails where the value lies
    on the wrong side and the scores suffice (or the whole interval does), and is inconclusive otherwise. Only scores by
    physicians can pass a check.

    Args:
        study: Its own `gate` is not looked at.
    """
    checks = [_check(claim, study, gate) for claim in _claims(study, gate)]
    states = {check.state for check in checks}
    passed = False if CheckState.FAILED in states else None if CheckState.INCONCLUSIVE in states else True
    return GateResult(passed=passed, usual=gate == study.scheme.gate, checks=checks)


def probe_requirement(gate: Gate, probe: str) -> float | None:
    """The largest share of answers that a probe may flip; None where the gate does not look at the probe."""
    return gate.probe_flips_of.get(probe, None if probe in OUTSIDE_GATE else gate.probe_flips)


def _claims(study: Study, gate: Gate) -> Iterator[_Claim]:
    """Everything that the gate looks at, in the order of its checks."""
    kind = CheckKind.USABLE_AGREEMENT
    for category in study.scheme.categories:
        if category not in gate.usable_agreement:
            continue
        required, measures = gate.usable_agreement[category], study.by_category.get(category)
        if measures is None:
            yield _Claim(kind, category, required, missing="no physicians' score")
            continue
        n, conversations = int(measures["n"]["value"] or 0), study.conversations_by_category[category]
        # A judge that knows only how often a category is usable would agree there, too, and by chance alone.
        doubt = "" if (measures["cohen_kappa"]["low"] or 0) > 0 else "within the category, agreement may be by chance"
        yield _Claim(kind, category, required, measures["usable_agreement"], n, conversations, doubt=doubt)
    of_all = (study.n, study.conversations)
    yield _Claim(CheckKind.COHEN_KAPPA, None, gate.cohen_kappa, study.overall["cohen_kappa"], *of_all)
    coverage = Estimate(value=study.coverage, low=None, high=None)
    yield _Claim(CheckKind.COVERAGE, None, gate.coverage, coverage, *of_all)
    yield _teacher(study, gate)
    yield from _probes(study, gate)


def _teacher(study: Study, gate: Gate) -> _Claim:
    kind, required, teacher = CheckKind.TEACHER_MARGIN, -gate.teacher_margin, study.teacher
    if teacher is None:
        return _Claim(kind, None, required, missing="no teacher; name a judge of the run with --teacher")
    if teacher.n < gate.coverage * study.n:
        missing = f"the teacher scored only {teacher.n} of the {study.n} answers"
        return _Claim(kind, None, required, missing=missing)
    return _Claim(kind, None, required, teacher.difference["usable_agreement"], teacher.n, teacher.conversations)


def _probes(study: Study, gate: Gate) -> Iterator[_Claim]:
    kind = CheckKind.PROBE_FLIPS
    if study.probes is None:
        yield _Claim(kind, None, gate.probe_flips, missing="not probed; add --probes")
        return
    for probe, effect in study.probes.effects.items():
        if (required := probe_requirement(gate, probe)) is not None:
            yield _Claim(kind, probe, required, effect.flips, effect.n, effect.conversations)
    for probe in study.probes.not_applied:
        if (required := probe_requirement(gate, probe)) is not None:
            yield _Claim(kind, probe, required, missing="applies to none of the probed answers")


def _check(claim: _Claim, study: Study, gate: Gate) -> GateCheck:
    state, why = CheckState.INCONCLUSIVE, claim.missing
    if not why:
        state, why = _covered(claim, gate) if claim.kind == CheckKind.COVERAGE else _decided(claim, gate)
    by_physicians = study.against_kind == AgainstKind.PHYSICIANS
    doubt = claim.doubt or ("" if by_physicians else f"measured against {study.against}, not physicians")
    if state == CheckState.PASSED and doubt:
        state, why = CheckState.INCONCLUSIVE, doubt
    title = {
        CheckKind.USABLE_AGREEMENT: f"usable agreement, {claim.part}",
        CheckKind.COHEN_KAPPA: "Cohen's kappa",
        CheckKind.COVERAGE: "coverage",
        CheckKind.TEACHER_MARGIN: "usable agreement minus the teacher's",
        CheckKind.PROBE_FLIPS: f"flips by probe {claim.part}" if claim.part else "flips by probes",
    }[claim.kind]
    named = {"kind": claim.kind, "part": claim.part, "check": title, "required": claim.required}
    return GateCheck(**named, **claim.estimate, n=claim.n, state=state, why=why)


def _covered(claim: _Claim, gate: Gate) -> tuple[CheckState, str]:
    """A judge that leaves the hard answers unscored would agree well on the rest."""
    if (claim.estimate["value"] or 0) < claim.required:
        return CheckState.FAILED, "the judge left answers unscored that physicians scored"
    if claim.n < gate.minimum_scores:
        return CheckState.INCONCLUSIVE, f"{claim.n} answers; the gate requires {gate.minimum_scores}"
    return CheckState.PASSED, ""


def _decided(claim: _Claim, gate: Gate) -> tuple[CheckState, str]:
    """The state of a check by the side of its requirement on which value, worst and best end of the interval lie."""
    value, worst, best = claim.estimate["value"], claim.estimate["low"], claim.estimate["high"]
    sign = 1
    if claim.kind == CheckKind.PROBE_FLIPS:  # at most so many
        worst, best, sign = best, worst, -1
    value, worst, best = (None if end is None else sign * (end - claim.required) for end in (value, worst, best))
    enough = claim.n >= gate.minimum_scores and claim.conversations >= gate.minimum_conversations
    if value is None or (worst is None and best is None):
        return CheckState.INCONCLUSIVE, "these scores allow no interval"
    if best is not None and best < 0 and claim.conversations >= _FEWEST_TO_FAIL:
        return CheckState.FAILED, ""
    if not enough:
        return CheckState.INCONCLUSIVE, (
            f"{claim.n} answers in {claim.conversations} conversation{'s' if claim.conversations > 1 else ''}; the "
            f"gate requires {gate.minimum_scores} in {gate.minimum_conversations}"
        )
    if value < 0:
        return CheckState.FAILED, ""
    if worst is None or worst < 0:
        why = "the interval includes values beyond the requirement; more scores would narrow it"
        return CheckState.INCONCLUSIVE, why
    return CheckState.PASSED, ""
