"""The validation status of a judge, printed beside every number: validated, failed, inconclusive, never validated."""

from collections.abc import Iterable, Sequence
from enum import Enum
from typing import NamedTuple

from medjudge.judge.study import AgainstKind, CheckKind, CheckState, Measures, StudySummary
from medjudge.scheme import LLMEVAL_MED, Scheme


class ValidationState(str, Enum):
    """How far the scores of a judge may be trusted."""

    VALIDATED = "validated"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    NEVER_VALIDATED = "never validated"

    __str__ = str.__str__


class ValidationStatus(NamedTuple):
    """The state, and a line that says what it rests on."""

    state: ValidationState
    line: str


def validation_status(
    studies: Sequence[StudySummary], category: str | None = None, scheme: str = LLMEVAL_MED.name
) -> ValidationStatus:
    """The status of a judge after its last validation against physicians, overall or in one category.

    Args:
        studies: As `judge.json` lists them, oldest first.
        category: One of the scheme's; None for the whole gate.
        scheme: Its name. A validation on questions of another scheme does not count.

    Returns:
        Never validated where no physicians' score was compared, whatever else was.
    """
    elsewhere = sorted({study.scheme.name for study in studies if study.scheme.name != scheme})
    studies = [study for study in studies if study.scheme.name == scheme]
    against_physicians = [study for study in studies if study.against_kind == AgainstKind.PHYSICIANS]
    if not against_physicians:
        others = sorted({study.against for study in studies})
        compared = f"; compared with {', '.join(others)} only" if others else ""
        compared += f"; validated on {', '.join(elsewhere)} only" if elsewhere else ""
        return ValidationStatus(ValidationState.NEVER_VALIDATED, f"never validated against physicians{compared}")
    study = against_physicians[-1]
    if category is None:
        state = _whole_gate(study)
        return ValidationStatus(state, f"{_gate_line(study, state)}: {_agreement_line(study.overall, study)}")
    measures = study.by_category.get(category)
    if measures is None:
        line = f"never validated in {category}: no physicians' score"
        return ValidationStatus(ValidationState.NEVER_VALIDATED, line)
    return ValidationStatus(_in_category(study, category), _agreement_line(measures, study))


def validation_statuses(studies: Sequence[StudySummary], scheme: Scheme = LLMEVAL_MED) -> dict[str, ValidationStatus]:
    """The status overall (`OP`) and in each category of the scheme."""
    in_category = {name: validation_status(studies, name, scheme.name) for name in scheme.category_ids}
    return {"OP": validation_status(studies, scheme=scheme.name)} | in_category


def _whole_gate(study: StudySummary) -> ValidationState:
    if study.gate.passed is None:
        return ValidationState.INCONCLUSIVE
    return ValidationState.VALIDATED if study.gate.passed else ValidationState.FAILED


def _in_category(study: StudySummary, category: str) -> ValidationState:
    """The worst of the category's own check and those that hold for every category: kappa, coverage, teacher, probes.

    A category without a requirement of its own, where others have one, is inconclusive at best.
    """
    by_category = [check for check in study.gate.checks if check.kind == CheckKind.USABLE_AGREEMENT]
    own = [check.state for check in by_category if check.part == category]
    if by_category and not own:
        own = [CheckState.INCONCLUSIVE]
    of_all = [check for check in study.gate.checks if check.kind != CheckKind.USABLE_AGREEMENT]
    return _worst([*own, *(check.state for check in of_all)])


def _worst(states: Iterable[CheckState]) -> ValidationState:
    present = set(states)
    if CheckState.FAILED in present:
        return ValidationState.FAILED
    return ValidationState.INCONCLUSIVE if CheckState.INCONCLUSIVE in present else ValidationState.VALIDATED


def _gate_line(study: StudySummary, state: ValidationState) -> str:
    counts = {state: len(study.gate.in_state(state)) for state in CheckState}
    listed = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    other_gate = "" if study.gate.usual else "; requirements set by the user, not the default ones"
    return f"gate {'passed' if state == ValidationState.VALIDATED else state} ({listed}{other_gate})"


def _agreement_line(measures: Measures, study: StudySummary) -> str:
    agreement, kappa = measures["usable_agreement"], measures["cohen_kappa"]["value"]
    low, high = agreement["low"], agreement["high"]
    interval = "" if low is None or high is None else f" ({100 * low:.0f}–{100 * high:.0f})"
    beyond_chance = "undefined" if kappa is None else f"{kappa:.2f}"
    return (
        f"agrees on usable with physicians on {100 * (agreement['value'] or 0):.1f} %{interval} of "
        f"{measures['n']['value']} answers, Cohen's kappa {beyond_chance} ({study.file})"
    )
