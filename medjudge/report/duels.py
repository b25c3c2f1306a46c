"""Two models question by question: on how many the one scores higher, on how many both score the same."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from medjudge.records import Judgment, Question


class Duel(NamedTuple):
    """Questions on which a model's mean level is above, equal to and below another's; both must have a score."""

    wins: int
    ties: int
    losses: int


def mean_levels(questions: Sequence[Question], judgments: Sequence[Judgment], models: Sequence[str]) -> np.ndarray:
    """The mean level over samples and rounds, shape (models, questions); NaN where nothing has a score.

    Args:
        judgments: Of one judge.
    """
    column = {question.id: place for place, question in enumerate(questions)}
    row = {model: place for place, model in enumerate(models)}
    sums, counts = np.zeros((len(models), len(questions))), np.zeros((len(models), len(questions)))
    for judgment in judgments:
        if judgment.score is not None and judgment.question_id in column and judgment.model in row:
            place = row[judgment.model], column[judgment.question_id]
            sums[place] += judgment.score
            counts[place] += 1
    with np.errstate(invalid="ignore"):
        return np.where(counts > 0, sums / counts, np.nan)


def duels(levels: Mapping[str, np.ndarray]) -> dict[str, dict[str, Duel]]:
    """Every model against every other.

    Args:
        levels: Model -> its mean level on each question, shape (questions,); NaN where it has none.

    Returns:
        Model -> other model -> the counts, seen from the former.
    """
    return {
        model: {other: _duel(own, theirs) for other, theirs in levels.items() if other != model}
        for model, own in levels.items()
    }


def _duel(own: np.ndarray, theirs: np.ndarray) -> Duel:
    # A comparison with NaN is false. Means of the same levels are the same floats up to rounding.
    same = np.isclose(own, theirs)
    return Duel(int((~same & (own > theirs)).sum()), int(same.sum()), int((~same & (own < theirs)).sum()))
