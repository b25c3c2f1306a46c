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


class _Claim(NamedTuple):
    """One measured value that the gate looks at, and the number of answers and conversations behind it."""

    kind: CheckKind
    part: str | None
    estimate: Estimate
    n: int
    conversations: int


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
    checks = [
        *_categories(study, gate),
        _kappa(study, gate),
        _coverage(study, gate),
        _teacher(study, gate),
        *_probes(study, gate),
    ]
    if study.against_kind != AgainstKind.PHYSICIANS:
        why = f"measured against {study.against}, not physicians"
        checks = [_downgraded(check, why) for check in checks]
    states = {check.state for check in checks}
    passed = False if CheckState.FAILED in states else None if CheckState.INCONCLUSIVE in states else True
    return GateResult(passed=passed, usual=gate == study.scheme.gate, checks=checks)


def probe_requirement(gate: Gate, probe: str) -> float | None:
    """The largest share of answers that a probe may flip; None where the gate does not look at the probe."""
    return gate.probe_flips_of.get(probe, None if probe in OUTSIDE_GATE else gate.probe_flips)


def _title(kind: CheckKind, part: str | None) -> str:
    """The name of a check, for people."""
    return {
        CheckKind.USABLE_AGREEMENT: f"usable agreement, {part}",
        CheckKind.COHEN_KAPPA: "Cohen's kappa",
        CheckKind.COVERAGE: "coverage",
        CheckKind.TEACHER_MARGIN: "usable agreement minus the teacher's",
        CheckKind.PROBE_FLIPS: f"flips by probe {part}" if part else "flips by probes",
    }[kind]


def _downgraded(check: GateCheck, why: str) -> GateCheck:
    """A check that would pass, but for a reason that makes it inconclusive."""
    if check.state != CheckState.PASSED:
        return check
    return check.model_copy(update={"state": CheckState.INCONCLUSIVE, "why": why})


def _categories(study: Study, gate: Gate) -> Iterator[GateCheck]:
    kind = CheckKind.USABLE_AGREEMENT
    for category in study.scheme.categories:
        if category not in gate.usable_agreement:
            continue
        required = gate.usable_agreement[category]
        measures = study.by_category.get(category)
        if measures is None:
            yield _no_data(kind, category, required, "no physicians' score")
            continue
        n, conversations = int(measures["n"]["value"] or 0), study.conversations_by_category[category]
        check = _decided(_Claim(kind, category, measures["usable_agreement"], n, conversations), required, gate)
        # A judge that knows only how often a category is usable would agree there, too, and by chance alone.
        kappa_low = measures["cohen_kappa"]["low"]
        by_chance = kappa_low is None or kappa_low <= 0
        yield _downgraded(check, "within the category, agreement may be by chance") if by_chance else check


def _kappa(study: Study, gate: Gate) -> GateCheck:
    kappa = study.overall["cohen_kappa"]
    claim = _Claim(CheckKind.COHEN_KAPPA, None, kappa, study.n, study.conversations)
    return _decided(claim, gate.cohen_kappa, gate)


def _coverage(study: Study, gate: Gate) -> GateCheck:
    """A judge that leaves the hard answers unscored would agree well on the rest."""
    state, why = CheckState.PASSED, ""
    if study.coverage < gate.coverage:
        state, why = CheckState.FAILED, "the judge left answers unscored that physicians scored"
    elif study.n < gate.minimum_scores:
        state, why = CheckState.INCONCLUSIVE, f"{study.n} answers; the gate requires {gate.minimum_scores}"
    estimate = Estimate(value=study.coverage, low=None, high=None)
    claim = _Claim(CheckKind.COVERAGE, None, estimate, study.n, study.conversations)
    return _check(claim, gate.coverage, state, why)


def _teacher(study: Study, gate: Gate) -> GateCheck:
    kind, required, teacher = CheckKind.TEACHER_MARGIN, -gate.teacher_margin, study.teacher
    if teacher is None:
        return _no_data(kind, None, required, "no teacher; name a judge of the run with --teacher")
    if teacher.n < gate.coverage * study.n:
        return _no_data(kind, None, required, f"the teacher scored only {teacher.n} of the {study.n} answers")
    claim = _Claim(kind, None, teacher.difference["usable_agreement"], teacher.n, teacher.conversations)
    return _decided(claim, required, gate)


def _probes(study: Study, gate: Gate) -> Iterator[GateCheck]:
    kind = CheckKind.PROBE_FLIPS
    if study.probes is None:
        yield _no_data(kind, None, gate.probe_flips, "not probed; add --probes")
        return
    for probe, effect in study.probes.effects.items():
        if (required := probe_requirement(gate, probe)) is not None:
            claim = _Claim(kind, probe, effect.flips, effect.n, effect.conversations)
            yield _decided(claim, required, gate, at_most=True)
    for probe in study.probes.not_applied:
        if (required := probe_requirement(gate, probe)) is not None:
            yield _no_data(kind, probe, required, "applies to none of the probed answers")


def _decided(claim: _Claim, required: float, gate: Gate, at_most: bool = False) -> GateCheck:
    """A check from how far value, worst and best end of the interval lie on the right side of the requirement."""

    def beyond(end: float | None) -> float | None:
        return None if end is None else (required - end if at_most else end - required)

    value, low, high = map(beyond, (claim.estimate["value"], claim.estimate["low"], claim.estimate["high"]))
    worst, best = (high, low) if at_most else (low, high)
    enough = claim.n >= gate.minimum_scores and claim.conversations >= gate.minimum_conversations
    state, why = CheckState.INCONCLUSIVE, ""
    if value is None or (worst is None and best is None):
        why = "these scores allow no interval"
    elif best is not None and best < 0 and claim.conversations >= _FEWEST_TO_FAIL:
        state = CheckState.FAILED
    elif not enough:
        why = (
            f"{claim.n} answers in {claim.conversations} conversation{'s' if claim.conversations > 1 else ''}; the "
            f"gate requires {gate.minimum_scores} in {gate.minimum_conversations}"
        )
    elif value < 0:
        state = CheckState.FAILED
    elif worst is None or worst < 0:
        why = "the interval includes values beyond the requirement; more scores would narrow it"
    else:
        state = CheckState.PASSED
    return _check(claim, required, state, why)


def _no_data(kind: CheckKind, part: str | None, required: float, why: str) -> GateCheck:
    nothing = Estimate(value=None, low=None, high=None)
    return _check(_Claim(kind, part, nothing, 0, 0), required, CheckState.INCONCLUSIVE, why)


def _check(claim: _Claim, required: float, state: CheckState, why: str) -> GateCheck:
    return GateCheck(
        kind=claim.kind,
        part=claim.part,
        check=_title(claim.kind, claim.part),
        required=required,
        **claim.estimate,
        n=claim.n,
        state=state,
        why=why,
    )
