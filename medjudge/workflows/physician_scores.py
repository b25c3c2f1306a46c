"""Physicians' scores of a run: which belong to it, whether a judge may be measured on them, and which to ask for."""

from collections.abc import Collection, Sequence
from math import ceil
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

from medjudge.errors import InputError, notify
from medjudge.files import write_json_lines
from medjudge.item_records import ItemScore
from medjudge.judge.open import AnyRef
from medjudge.pair_records import PhysicianPair
from medjudge.records import CONSTRUCTED, Judgment, PhysicianScore, Question
from medjudge.rounds import scored_rounds, usable_probability
from medjudge.store import Run

_Record = TypeVar("_Record", Judgment, PhysicianScore, PhysicianPair, ItemScore)


def scores_of_run(run: Run, scores: Sequence[PhysicianScore], file: str) -> list[PhysicianScore]:
    """The scores of answers in the run; constructed levels only where no physician scored any.

    Args:
        file: Where the scores come from, for messages.

    Raises:
        InputError: No score belongs to an answer of the run.
    """
    answers = {answer.key for answer in run.answers()}
    in_run = [score for score in scores if score.answer_key in answers]
    if len(in_run) < len(scores):
        first = next(score for score in scores if score.answer_key not in answers)
        example = f"{first.question_id} / {first.model} / {first.sample}"
        if not in_run:
            raise InputError(
                f"{file}: no score belongs to an answer of {run.path} (such as {example}); compare the ids"
            )
        notify(
            f"{file}: {len(scores) - len(in_run)} scores belong to no answer of {run.path} (such as {example}) and are "
            "left out"
        )
    return [score for score in in_run if score.rater != CONSTRUCTED] or in_run


def require_unseen(judge_ref: AnyRef, scores: Sequence[PhysicianScore], questions: Sequence[Question]) -> None:
    """Refuses scores of questions, or of conversations, that a judge was trained or tuned on.

    Raises:
        InputError: The judge has seen one of them.
    """
    scored = {score.question_id for score in scores}
    overlap = sorted(scored - {score.question_id for score in of_unseen(scores, questions, judge_ref.seen)})
    if overlap:
        raise InputError(
            f"judge {judge_ref.name}: was trained or tuned on {len(overlap)} of these {len(scored)} questions (such as "
            f"{overlap[0]}), so its agreement would mean nothing; give physicians' scores of other questions"
        )


def of_unseen(records: Sequence[_Record], questions: Sequence[Question], seen: Collection[str]) -> list[_Record]:
    """The records of conversations that a judge has not seen: agreement on the others would mean nothing.

    Args:
        seen: The ids of the questions that it was trained, tuned or calibrated on.
    """
    group_of = {question.id: question.group for question in questions}
    seen_groups = {group_of.get(question_id) for question_id in seen} - {None}
    return [record for record in records if group_of.get(record.question_id) not in seen_groups]


def unseen_by(run: Run, judge_ref: AnyRef, records: Sequence[_Record], what: str) -> list[_Record]:
    """As `of_unseen`, with a note on how many of `what` are left out."""
    unseen = of_unseen(records, run.questions(), judge_ref.seen)
    if len(unseen) < len(records):
        notify(
            f"judge {judge_ref.name}: was trained or tuned on the questions of {len(records) - len(unseen)} of "
            f"{len(records)} {what}, which are left out"
        )
    return unseen


class Deferred(NamedTuple):
    """The number of listed answers, their file, and the way in which they were chosen."""

    answers: int
    file: Path
    by: str


def defer(run: Run, judge: str, share: float) -> Deferred:
    """Lists the most uncertain answers of a run for physicians, those nearest to P(usable) one half first.

    Unscored answers come before all others. Answers that physicians scored already are not listed.

    Args:
        share: Of the answers, 0 to 1.

    Raises:
        InputError: The judge gives no probabilities.
    """
    usable = {key: usable_probability(judgments) for key, judgments in scored_rounds(run.judgments(judge)).items()}
    if not np.isfinite(list(usable.values())).all():
        raise InputError(f"--defer-to-physicians: judge {judge} gives no probabilities; use a local judge")
    known = {score.answer_key for score in run.physician_scores()}
    answers = [answer.key for answer in run.answers()]
    waiting = [key for key in answers if key not in known]
    # Rounded, so that 0.3 and 0.7 are a tie.
    waiting.sort(key=lambda key: (key in usable, round(abs(usable.get(key, 0.5) - 0.5), 12)))
    listed = waiting[: ceil(round(share * len(waiting), 9))]
    lines = [
        {**key._asdict(), "usable_probability": round(usable[key], 4) if key in usable else None} for key in listed
    ]
    write_json_lines(run.deferred_file, lines)
    by = "by nearness of P(usable) to one half"
    if already := len(answers) - len(waiting):
        by = f"{by}; {already} that physicians scored already are not among them"
    return Deferred(len(listed), run.deferred_file, by)
