"""Changes since an earlier run, by the same judge on the questions that both runs have."""

from typing import NamedTuple

import numpy as np

from medjudge.errors import InputError
from medjudge.records import AnswerKey
from medjudge.report.boards import JudgedRun, answer_link
from medjudge.report.contents import Contents
from medjudge.report.paired import Difference, paired_differences
from medjudge.validation.usability import scores_by_question, usable_table


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
    """Changes since the run `since`, on `questions` questions.

    `left_out` questions are in one of the runs only, or with another text. `judge_changed` where the judge's files are
    others than before, so that a difference may be the judge's. `flips` has the largest changes first.
    """

    since: str
    questions: int
    left_out: int
    judge_changed: bool
    models: list[ModelChange]
    added: list[str]
    removed: list[str]
    flips: list[Flip]


def changes(new: Contents, old: Contents, judged: JudgedRun) -> Changes | None:
    """Compares a run with an earlier one; None where this judge did not judge the earlier one.

    Args:
        judged: The new run as this judge saw it.

    Raises:
        InputError: The runs have no question in common.
    """
    judge = judged.judge
    if judge not in old.judgments:
        return None
    texts = {question.id: question.prompt for question in old.questions}
    common = [question for question in new.questions if texts.get(question.id) == question.prompt]
    if not common:
        raise InputError(
            f"--since {old.run.path}: has no question in common with {new.run.path}; name a run of the same benchmark"
        )
    models = [model for model in new.models if model in old.models]
    before, now = (usable_table(common, run.judgments[judge], models) for run in (old, new))
    levels_before, levels_now = (
        {key: sum(scores) / len(scores) for key, scores in scores_by_question(run.judgments[judge]).items()}
        for run in (old, new)
    )
    flips = [
        Flip(
            question_id,
            model,
            levels_before.get((model, question_id)),
            levels_now.get((model, question_id)),
            answer_link(judged.place, AnswerKey(question_id, model, 0)),
        )
        for model, question_id in ((models[row], common[column].id) for row, column in np.argwhere(before != now))
    ]
    flips.sort(key=lambda flip: -abs((flip.now or 0) - (flip.before or 0)))
    differences = paired_differences(common, now, before) if models else []
    old_sha256, new_sha256 = (run.manifest.get("judges", {}).get(judge, {}).get("sha256") for run in (old, new))
    return Changes(
        since=old.name,
        questions=len(common),
        left_out=len({question.id for question in (*new.questions, *old.questions)}) - len(common),
        judge_changed=old_sha256 != new_sha256,
        models=[
            ModelChange(
                model,
                before=100 * float(before[row].mean()),
                now=100 * float(now[row].mean()),
                difference=differences[row],
                gained=int((now[row] & ~before[row]).sum()),
                lost=int((before[row] & ~now[row]).sum()),
            )
            for row, model in enumerate(models)
        ],
        added=[model for model in new.models if model not in old.models],
        removed=[model for model in old.models if model not in new.models],
        flips=flips,
    )
