"""Does calibrating the teacher help? Maps from GPT-4's score to people's levels, on conversations they did not see."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medjudge.distill.calibrate import HeldOut, compared, cross_fitted, soft_label
from medjudge.records import Judgment
from medjudge.rounds import expected_of, level_of
from medjudge.store import Run

SEED = 0
TEACHER = "gpt-4"
EVERYWHERE = "all"
"""The one category of a map that does not tell subjects apart."""


class Scored(NamedTuple):
    """Answers that the teacher and people scored; each array has shape (n,), `raw` (n, 5).

    Attributes:
        expected: The teacher's score.
        raw: Its soft labels.
        levels: Its levels.
        people: People's levels.
        subject: The category of the question.
        conversation: What is kept whole in folds and resampled.
    """

    expected: np.ndarray
    raw: np.ndarray
    levels: np.ndarray
    people: np.ndarray
    subject: np.ndarray
    conversation: np.ndarray


def scored_by_both(folder: Path) -> Scored:
    """Reads a run that holds people's scores and the teacher's judgments."""
    run = Run(folder)
    questions = {question.id: question for question in run.questions()}
    people = {score.answer_key: score.level for score in run.physician_scores()}
    judgments: dict[Any, list[Judgment]] = {
        judgment.answer_key: [judgment] for judgment in run.judgments(TEACHER) if judgment.score is not None
    }
    keys = sorted(people.keys() & judgments.keys())
    return Scored(
        expected=np.array([expected_of(judgments[key]) for key in keys]),
        raw=np.array([soft_label(judgments[key]) for key in keys]),
        levels=np.array([level_of(judgments[key]) for key in keys]),
        people=np.array([people[key] for key in keys]),
        subject=np.array([questions[key.question_id].category for key in keys], dtype=object),
        conversation=np.array([questions[key.question_id].group for key in keys], dtype=object),
    )


def none(scored: Scored) -> HeldOut:
    """The teacher as it is, but for a share of the uniform distribution."""
    held_out = shrunk(scored)
    return HeldOut(held_out.before, held_out.before)


def one_map(scored: Scored) -> HeldOut:
    """One map for all subjects."""
    return _crossed(scored, np.full(len(scored.people), EVERYWHERE, dtype=object))


def by_subject(scored: Scored) -> HeldOut:
    """A map for each subject that knows nothing of the others."""
    before, after = np.empty_like(scored.raw), np.empty_like(scored.raw)
    for name in np.unique(scored.subject):
        rows = scored.subject == name
        own = Scored(*(values[rows] for values in scored))
        before[rows], after[rows] = one_map(own)
    return HeldOut(before, after)


def shrunk(scored: Scored) -> HeldOut:
    """A map for each subject, shrunk to that of all by an amount that cross-validation chooses; `distill` does this."""
    return _crossed(scored, scored.subject)


def _crossed(scored: Scored, category: np.ndarray) -> HeldOut:
    return cross_fitted(scored.expected, scored.raw, scored.people, category, scored.conversation, SEED)


MAPS: dict[str, Callable[[Scored], HeldOut]] = {
    "none": none,
    "global": one_map,
    "by subject": by_subject,
    "by subject, shrunk to the global map": shrunk,
}


def calibrations(scored: Scored) -> dict[str, Any]:
    """Each map against none: log loss, agreement and bias of its labels on conversations that it did not see.

    `rates` is the largest error of a subject's usability rate by the labels, in points of a hundred.
    """
    uncalibrated = none(scored).before
    table = {}
    for name, make in MAPS.items():
        held_out = HeldOut(uncalibrated, make(scored).after)
        table[name] = {
            **compared(held_out, scored.levels, scored.people, scored.conversation, SEED),
            "rates": _rate_errors(scored, held_out.after if name != "none" else scored.raw),
        }
    return table


def _rate_errors(scored: Scored, labels: np.ndarray) -> dict[str, float]:
    """The usability rate by soft labels minus that by people, in points of a hundred: mean size and largest."""
    errors = [
        100 * abs(labels[rows, 3:].sum(axis=1).mean() - (scored.people[rows] >= 4).mean())
        for rows in (scored.subject == name for name in np.unique(scored.subject))
    ]
    return {"mean_error": round(float(np.mean(errors)), 2), "largest_error": round(float(np.max(errors)), 2)}
