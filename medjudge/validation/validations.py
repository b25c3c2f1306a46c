"""The studies that say how far a judge's scores in a run may be trusted."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from shlex import quote

from pydantic import ValidationError

from medjudge.errors import InputError
from medjudge.files import first_problem
from medjudge.judge.card import write_readme
from medjudge.judge.folder import JudgeCard
from medjudge.judge.study_summary import GateCheck, StudySummary
from medjudge.models.quantization import Quantization, quantization_name
from medjudge.statistics.estimates import Estimate, estimate_text
from medjudge.store import Run
from medjudge.validation.records import Study, read_study
from medjudge.validation.status import Use, ValidationStatus, validation_status, validation_statuses

_IN_CARD = ("usable_agreement", "cohen_kappa", "quadratic_kappa", "spearman")


def validations(run: Run, judge: str) -> list[StudySummary]:
    """The studies of a judge, oldest first: those of its card when it judged this run, then the one of this run.

    Raises:
        InputError: `run.json` or the study's file does not hold studies of this version.
    """
    recorded = run.manifest().get("judges", {}).get(judge, {}).get("validated_on", [])
    try:
        studies = [StudySummary.model_validate(entry) for entry in recorded]
    except ValidationError as error:
        raise InputError(
            f"{run.manifest_file}: judges.{judge}.validated_on: {first_problem(error)}; run `medjudge eval --run "
            f"{run.path}` again"
        ) from None
    study = read_study(run, judge)
    return studies if study is None else [*studies, study.summary()]


def statuses_in(run: Run, judge: str, models: Iterable[str] | None = None) -> dict[str, ValidationStatus]:
    """A judge's validation status for the answers of a run, overall (`OP`) and in each category.

    Args:
        models: The models that answered, for who has read the answers already.

    Raises:
        InputError: As for `validations`.
    """
    return validation_statuses(validations(run, judge), run.scheme(), use_in(run, judge, models))


def use_in(run: Run, judge: str, models: Iterable[str] | None = None) -> Use:
    """The material that a judge was used with in a run; `models` as for `statuses_in`."""
    entry = run.manifest().get("judges", {}).get(judge, {})
    return Use(
        entry.get("sha256", ""),
        entry.get("rubrics_sha256", ""),
        run.scheme().sha256,
        frozenset((answer.model for answer in run.answers()) if models is None else models),
        validate_command(run, judge),
        entry.get("quantization"),
    )


def validate_command(run: Run, judge: str, quantization: Quantization | None = None) -> str:
    """The command that validates a judge on the answers of a run, on a base that is quantised for this use or not."""
    quantised = "" if quantization is None else f" --judge-quantization {quantization_name(quantization)}"
    return f"medjudge validate {quote(str(run.path))} --judge {quote(judge)}{quantised} --physicians FILE"


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
        cells = [estimate_text(study.overall[name]) for name in _IN_CARD]
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
        *([f"- Dangerous direction: {study.danger}."] if study.danger else []),
        *[f"- Weak: {weakness}." for weakness in study.weaknesses],
        *[f"- Inconclusive: {sentence}" for sentence in study.cannot_conclude],
    ]


def _check_row(check: GateCheck) -> str:
    measured = estimate_text(Estimate(value=check.value, low=check.low, high=check.high))
    result = f"{check.state}: {check.why}" if check.why else check.state
    return f"| {check.check} | {check.required:g} | {measured} | {check.n} | {result} |"
