"""After `medjudge eval`: where the variance of the scores comes from, written beside them."""

from importlib.util import find_spec

from medjudge.files import write_json
from medjudge.screen import say
from medjudge.store import Run
from medjudge.validation.variance import VarianceStudy, variance_file, variance_study


def write_variance(run: Run, judge: str) -> VarianceStudy | None:
    """Separates the variance of a judge's scores, and writes `variance/JUDGE.json`.

    Returns:
        None where neither samples nor rounds repeat anything, or where statsmodels is missing, which is said.
    """
    judgments = run.judgments(judge)
    repeated = {judgment.sample for judgment in judgments}, {judgment.round for judgment in judgments}
    if all(len(numbers) < 2 for numbers in repeated):
        return None
    if find_spec("statsmodels") is None:
        say("the variance of answers and judge is not separated; pip install 'medjudge[variance]'")
        return None
    study = variance_study(judgments)
    if study is not None:
        write_json(variance_file(run, judge), study.model_dump(mode="json"))
    return study
