"""How much each rater has scored."""

from collections.abc import Sequence
from typing import NamedTuple

from medjudge.annotate.plan import Plan
from medjudge.records import AnswerKey
from medjudge.store import Run


class RaterProgress(NamedTuple):
    """How many answers a rater has to score, and how many of them have a score."""

    answers: int
    scored: int

    @property
    def open(self) -> int:
        return self.answers - self.scored


def progress_by_rater(run: Run, plans: Sequence[Plan]) -> dict[str, RaterProgress]:
    """The progress of each rater of some plans; an answer of two plans counts once."""
    scored = {(score.rater, score.answer_key) for score in run.physician_scores()}
    answers_of: dict[str, set[AnswerKey]] = {}
    for plan in plans:
        keys = {item.id: item.key for item in plan.items}
        for rater, item_ids in plan.by_rater.items():
            answers_of.setdefault(rater, set()).update(keys[item_id] for item_id in item_ids)
    return {
        rater: RaterProgress(len(answers), sum((rater, key) in scored for key in answers))
        for rater, answers in answers_of.items()
    }
