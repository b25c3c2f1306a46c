"""Adjudication: a third physician sees the scores of two who differ, without names, and records the agreed one."""

from collections.abc import Sequence
from hashlib import sha256

from medjudge.annotate.plan import Item, Plan, rater_problem
from medjudge.errors import InputError
from medjudge.records import CONSTRUCTED, AnswerKey, PhysicianScore, grouped
from medjudge.scale import USABLE_FROM
from medjudge.store import Run

_FAR_APART = 2
"""Levels between two scores that are no longer a matter of taste."""


def disputed(scores: Sequence[PhysicianScore]) -> dict[AnswerKey, list[PhysicianScore]]:
    """The answers on which physicians differ by two levels or more, or across usable, each with their scores."""
    of_physicians = (score for score in scores if score.rater != CONSTRUCTED)
    differ = {}
    for key, of_answer in grouped(of_physicians, lambda score: score.answer_key).items():
        levels = [score.level for score in of_answer]
        low, high = min(levels), max(levels)
        if high - low >= _FAR_APART or low < USABLE_FROM <= high:
            differ[key] = of_answer
    return differ


def open_disputes(run: Run) -> int:
    """The number of disputed answers of a run that nobody has adjudicated."""
    settled = {score.answer_key for score in run.adjudicated()}
    return len(disputed(run.physician_scores()).keys() - settled)


def adjudication_plan(run: Run, rater: str) -> Plan:
    """The plan of a third physician: the disputed answers that this one did not score and nobody else adjudicated.

    Raises:
        InputError: There is none, or the rater's name cannot be one.
    """
    if problem := rater_problem(rater):
        raise InputError(f"--rater '{rater}' {problem}")
    in_run = {answer.key for answer in run.answers()}
    disputes = {key: scores for key, scores in disputed(run.physician_scores()).items() if key in in_run}
    others = {score.answer_key for score in run.adjudicated() if score.rater != rater}
    keys = [
        key for key, scores in disputes.items() if key not in others and rater not in {score.rater for score in scores}
    ]
    if not keys:
        raise InputError(
            f"--adjudicate: no answer of {run.path} for {rater}; {len(disputes)} are disputed, and a third physician "
            "adjudicates those that nobody else has adjudicated and this one did not score"
        )
    names = [sha256("\n".join(map(str, ("adjudicate", *key))).encode()).hexdigest()[:12] for key in keys]
    items = [Item(id=name, **key._asdict()) for name, key in zip(names, keys, strict=True)]
    return Plan(seed=0, which="random", items=items, by_rater={rater: names})
