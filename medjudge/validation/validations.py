"""The studies that say how far a judge's scores in a run may be trusted."""

from pydantic import ValidationError

from medjudge.errors import InputError
from medjudge.files import first_problem
from medjudge.judge.study import StudySummary, read_study
from medjudge.store import Run


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
