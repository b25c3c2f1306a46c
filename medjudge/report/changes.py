"""Changes since an earlier run, by the same judge on the questions that both runs have."""

from typing import NamedTuple

import numpy as np

from medjudge.errors import InputError
from medjudge.records import AnswerKey
from medjudge.report.contents import Contents
from medjudge.report.paired import Difference, conversations, mean_levels, paired_difference
from medjudge.report.sections import answer_link
from medjudge.validation.usability import usable_table

_LISTED = 30


class ModelChange(NamedTuple):
    """A model's rates before and now, in percent, their difference, and the questions that became usable or not."""

    model: str
    before: float
    now: float
    difference: Difference
    gained: int
    lost: int


class Flip(NamedTuple):
    """A question on which a model's answer became usable, or no longer is; mean levels, None where unscored."""

    question_id: str
    model: str
    before: float | None
    now: float | None
    link: str


class Changes(NamedTuple):
    """Changes since the run `since`, by `judge`, on `questions` questions.

    `left_out` questions are in one of the runs only, or with another text. `judge_changed` where the judge's files are
    others than before, so that a difference may be the judge's. `flips` lists the largest changes, of `all_flips`.
    """

    since: str
    judge: str
    questions: int
    left_out: int
    judge_changed: bool
    models: list[ModelChange]
    added: list[str]
    removed: list[str]
    flips: list[Flip]
    all_flips: int


def changes(new: Contents, old: Contents, judge: str, run_index: int) -> Changes | None:
    """Compares a run with an earlier one; None where this judge did not judge the earlier one.

    Args:
        run_index: The new run's position on the page, for links to its answers.

    Raises:
        InputError: The runs have no question in common.
    """
    if judge not in old.judgments:
        return None
    texts = {question.id: question.prompt for question in old.questions}
    common = [question for question in new.questions if texts.get(question.id) == question.prompt]
    if not common:
        raise InputError(
            f"--since {old.run.path}: has no question in common with {new.run.path}; name a run of the same benchmark"
        )
    models = [model for model in new.models if model in old.models]
    usable_before, usable = (usable_table(common, run.judgments[judge], models) for run in (old, new))
    before, now = (mean_levels(common, run.judgments[judge], models) for run in (old, new))
    groups = conversations(common)
    flips = []
    for row, model in enumerate(models):
        for column in np.flatnonzero(usable_before[row] != usable[row]):
            link = answer_link(run_index, AnswerKey(common[column].id, model, 0))
            levels = _level(before[row, column]), _level(now[row, column])
            flips.append(Flip(common[column].id, model, *levels, link))
    flips.sort(key=lambda flip: -abs((flip.now or 0) - (flip.before or 0)))
    return Changes(
        since=old.name,
        judge=judge,
        questions=len(common),
        left_out=len({question.id for question in (*new.questions, *old.questions)}) - len(common),
        judge_changed=_sha256(new, judge) != _sha256(old, judge),
        models=[
            ModelChange(
                model,
                before=100 * float(usable_before[row].mean()),
                now=100 * float(usable[row].mean()),
                difference=paired_difference(usable[row], usable_before[row], groups),
                gained=int((usable[row] & ~usable_before[row]).sum()),
                lost=int((~usable[row] & usable_before[row]).sum()),
            )
            for row, model in enumerate(models)
        ],
        added=[model for model in new.models if model not in old.models],
        removed=[model for model in old.models if model not in new.models],
        flips=flips[:_LISTED],
        all_flips=len(flips),
    )


def _level(mean: float) -> float | None:
    return None if np.isnan(mean) else float(mean)


def _sha256(run: Contents, judge: str) -> str | None:
    sha256: str | None = run.manifest.get("judges", {}).get(judge, {}).get("sha256")
    return sha256
