"""The section on validations in a judge's README, and the judge card that a validation writes."""

from collections.abc import Sequence
from pathlib import Path

from medjudge.judge.card import write_readme
from medjudge.judge.folder import JudgeCard
from medjudge.judge.study import GateCheck, Study, StudySummary
from medjudge.statistics.estimates import Estimate, estimate_text
from medjudge.validation.status import validation_status

_MEASURES = ("usable_agreement", "cohen_kappa", "quadratic_kappa", "spearman")


def write_into_card(folder: Path, card: JudgeCard, study: Study) -> None:
    """Adds a study to a judge folder, in place of an earlier one on the same file of scores and as quantised a base."""
    same = (study.sha256, study.quantization)
    others = [summary for summary in card.validated_on if (summary.sha256, summary.quantization) != same]
    updated = card.model_copy(update={"validated_on": [*others, study.summary()]})
    write_readme(folder, updated, validation_lines(updated.validated_on))
    updated.write(folder)


def validation_lines(studies: Sequence[StudySummary]) -> list[str]:
    """The lines on one or more studies, oldest first: status, a table of agreement, gates, weaknesses and limits."""
    rows = [
        "| with | scores | n | usable agreement | Cohen's kappa | quadratic kappa | Spearman |",
        "|---|---|---|---|---|---|---|",
    ]
    for study in studies:
        cells = [estimate_text(study.overall[name]) for name in _MEASURES]
        rows.append(f"| {study.against}{_quantised(study)} | {study.file} | {study.n} | {' | '.join(cells)} |")
    details = [line for study in studies for line in _details(study)]
    # Of the judge as it was trained. On a base that is quantised for one use it is another judge.
    as_trained = [study for study in studies if study.quantization is None]
    status = validation_status(as_trained, scheme=studies[-1].scheme.name)
    return [f"Validation status: {status.line}.", "", *rows, *details]


def _quantised(study: StudySummary) -> str:
    return f", on a base quantised to {study.quantization}" if study.quantization else ""


def _details(study: StudySummary) -> list[str]:
    return [
        "",
        f"### {study.file}, {study.against}{_quantised(study)}",
        "",
        "| check | required | measured | n | result |",
        "|---|---|---|---|---|",
        *[_check_row(check) for check in study.gate.checks],
        "",
        *[f"- Weak: {weakness}." for weakness in study.weaknesses],
        *[f"- Inconclusive: {sentence}" for sentence in study.cannot_conclude],
    ]


def _check_row(check: GateCheck) -> str:
    measured = estimate_text(Estimate(value=check.value, low=check.low, high=check.high))
    result = f"{check.state}: {check.why}" if check.why else check.state
    return f"| {check.check} | {check.required:g} | {measured} | {check.n} | {result} |"
