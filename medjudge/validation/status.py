"""The validation status of a judge, printed beside every number."""

from collections.abc import Sequence
from enum import Enum
from typing import NamedTuple

from medjudge.judge.study_summary import AgainstKind, CheckKind, CheckState, GateResult, Measures, StudySummary
from medjudge.scheme import LLMEVAL_MED, Scheme


class ValidationState(str, Enum):
    """The trust that a judge's scores have earned; only the scheme's own gate validates."""

    VALIDATED = "validated"
    CUSTOM_GATE = "passed a custom gate"
    FAILED = "failed"
    INCONCLUSIVE = "inconclusive"
    STALE = "stale"
    NEVER_VALIDATED = "never validated"

    __str__ = str.__str__


class ValidationStatus(NamedTuple):
    """The state, and a line that says what it rests on."""

    state: ValidationState
    line: str


class Use(NamedTuple):
    """The material that a judge is used with. A measurement made with anything else is stale.

    Attributes:
        judge_sha256: The judge's identity; empty where only its judgments are known.
        rubrics_sha256: Of the rubrics that it reads; empty where it reads none.
        scheme_sha256: Of the scheme.
        models: The models whose answers it judges.
        command: What measures it again.
        quantization: How its base is quantised for this use only; None where it is as it was trained.
    """

    judge_sha256: str
    rubrics_sha256: str
    scheme_sha256: str
    models: frozenset[str]
    command: str
    quantization: str | None = None


def validation_status(
    studies: Sequence[StudySummary],
    category: str | None = None,
    scheme: str = LLMEVAL_MED.name,
    use: Use | None = None,
) -> ValidationStatus:
    """The status of a judge after its last validation against physicians, overall or in one category.

    Args:
        studies: As `judge.json` lists them, oldest first.
        category: One of the scheme's; None for the whole gate.
        scheme: Its name. A validation on questions of another scheme does not count.
        use: What the judge is used with; None to take the last validation as it is.

    Returns:
        Never validated where no physicians' score was compared, whatever else was. Stale where no validation holds for
        this use.
    """
    of_scheme = [study for study in studies if study.scheme.name == scheme]
    against_physicians = [study for study in of_scheme if study.against_kind == AgainstKind.PHYSICIANS]
    if not against_physicians:
        elsewhere = sorted({study.scheme.name for study in studies if study.scheme.name != scheme})
        others = sorted({study.against for study in of_scheme})
        compared = f"; compared with {', '.join(others)} only" if others else ""
        compared += f"; validated on {', '.join(elsewhere)} only" if elsewhere else ""
        return ValidationStatus(ValidationState.NEVER_VALIDATED, f"never validated against physicians{compared}")
    if use is not None:
        in_use = [study for study in against_physicians if _other_part(study, use) is None]
        reason = _why_stale(against_physicians[-1], in_use, use)
        if reason is not None:
            before = validation_status(studies, category, scheme).line
            return ValidationStatus(ValidationState.STALE, f"stale: {reason}; before that: {before}")
        against_physicians = in_use
    study = against_physicians[-1]
    if study.changed is not None:
        again = f"; run `{use.command}`" if use is not None else ""
        return ValidationStatus(ValidationState.STALE, f"stale: {study.changed}{again}")
    if category is None:
        state = gate_state(study.gate)
        danger = f"{study.danger}; " if study.danger else ""
        line = f"{_gate_line(study, state)}: {danger}{_agreement_line(study.overall, study)}"
        return ValidationStatus(state, line)
    measures = study.by_category.get(category)
    if measures is None:
        line = f"never validated in {category}: no physicians' score"
        return ValidationStatus(ValidationState.NEVER_VALIDATED, line)
    return ValidationStatus(_in_category(study, category), _agreement_line(measures, study))


def validation_statuses(
    studies: Sequence[StudySummary], scheme: Scheme = LLMEVAL_MED, use: Use | None = None
) -> dict[str, ValidationStatus]:
    """The status overall (`OP`) and in each category of the scheme, in the order of its columns."""
    parts = {column: None if column == "OP" else column for column in scheme.columns}
    return {column: validation_status(studies, part, scheme.name, use) for column, part in parts.items()}


def _why_stale(last: StudySummary, in_use: Sequence[StudySummary], use: Use) -> str | None:
    """The reason why no validation with the judge, rubrics and scheme `in_use` suffices; None where one does."""
    again = f"run `{use.command}`"
    if not in_use:
        return f"validated with {_other_part(last, use)}; {again}"
    unmeasured = sorted(use.models - {model for study in in_use for model in study.models})
    if not unmeasured or not all(study.models for study in in_use):  # earlier versions did not record the models
        return None
    more = f" and {len(unmeasured) - 3} more" if len(unmeasured) > 3 else ""
    return f"not validated on answers of {', '.join(unmeasured[:3])}{more}; {again}"


def _other_part(study: StudySummary, use: Use) -> str | None:
    """The part of a study's material that differs from what is in use; None where nothing differs."""
    if use.judge_sha256 and study.judge_sha256 != use.judge_sha256:
        if study.quantization == use.quantization:
            return "other files of this judge"
        return f"its base quantised to {study.quantization}" if study.quantization else "its base not quantised"
    if study.scheme.sha256 != use.scheme_sha256:
        return f"another state of scheme {study.scheme.name}"
    return "other rubrics" if study.rubrics_sha256 != use.rubrics_sha256 else None


def gate_state(gate: GateResult) -> ValidationState:
    """The state that a gate's result gives the judge."""
    return {None: ValidationState.INCONCLUSIVE, False: ValidationState.FAILED, True: _passed(gate)}[gate.passed]


def _passed(gate: GateResult) -> ValidationState:
    return ValidationState.VALIDATED if gate.usual else ValidationState.CUSTOM_GATE


def _in_category(study: StudySummary, category: str) -> ValidationState:
    """The result of the category's own check; inconclusive at best unless the checks of all categories are passed.

    Kappa, coverage, teacher and probes are checked over all categories, so a failure there fails no single one. A
    category without a requirement of its own, where others have one, is inconclusive at best.
    """
    by_category = [check for check in study.gate.checks if check.kind == CheckKind.USABLE_AGREEMENT]
    own = {check.state for check in by_category if check.part == category}
    if CheckState.FAILED in own:
        return ValidationState.FAILED
    of_all = {check.state for check in study.gate.checks if check.kind != CheckKind.USABLE_AGREEMENT}
    missing = bool(by_category) and not own
    return ValidationState.INCONCLUSIVE if missing or (own | of_all) - {CheckState.PASSED} else _passed(study.gate)


def _gate_line(study: StudySummary, state: ValidationState) -> str:
    counts = {state: len(study.gate.in_state(state)) for state in CheckState}
    listed = ", ".join(f"{count} {state}" for state, count in counts.items() if count)
    other_gate = "" if study.gate.usual else "; requirements set by the user, not the default ones"
    result = "passed" if study.gate.passed else state
    return f"gate {result} ({listed}{other_gate})"


def _agreement_line(measures: Measures, study: StudySummary) -> str:
    agreement, kappa = measures["usable_agreement"], measures["cohen_kappa"]["value"]
    low, high = agreement["low"], agreement["high"]
    interval = "" if low is None or high is None else f" ({100 * low:.0f}–{100 * high:.0f})"
    beyond_chance = "undefined" if kappa is None else f"{kappa:.2f}"
    return (
        f"agrees on usable with physicians on {100 * (agreement['value'] or 0):.1f} %{interval} of "
        f"{measures['n']['value']} answers, Cohen's kappa {beyond_chance} ({study.file})"
    )
