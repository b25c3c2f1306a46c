"""Models compared question by question: which are shown to be worse than the best, and what changed."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from medjudge.records import Question
from medjudge.statistics.bootstrap import Sums, bootstrap, dense_tally
from medjudge.statistics.estimates import FEWEST_FOR_INTERVAL, paired_interval
from medjudge.statistics.measures import divided
from medjudge.validation.other_judges import FEWEST_CONVERSATIONS


class Difference(NamedTuple):
    """The difference of two usability rates, in percentage points, with its 95 % interval if there is one."""

    value: float
    low: float | None
    high: float | None
    tie: bool


def ties(questions: Sequence[Question], usable: Mapping[str, np.ndarray]) -> dict[str, Difference]:
    """Each model's difference from the best one on some questions; empty where there is nothing to compare.

    A tie is a model that is not shown to be worse than the best.

    Args:
        usable: Name -> whether the model's answer to each question is usable, shape (questions,).
    """
    if len(usable) < 2 or not questions:
        return {}
    table = np.array(list(usable.values()))
    best = table[table.mean(axis=1).argmax()]
    return dict(zip(usable, paired_differences(questions, table, best), strict=True))


def paired_differences(questions: Sequence[Question], usable: np.ndarray, others: np.ndarray) -> list[Difference]:
    """The differences of rates from others on the same questions, in points; a tie is one that may be chance.

    One draw of conversations serves all models (bias-corrected and accelerated bootstrap), so that what is easy or hard
    for all cancels out. The intervals hold for each pair alone, not for all pairs at once.

    Args:
        usable: Whether each model's answer to each question is usable, shape (models, questions).
        others: The same of what the models are compared with: one row for all of them, or one each.

    Returns:
        One a model: a tie where the interval reaches 0, or there are fewer than 30 conversations.
    """

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        rises = divided(sums["usable"], sums["questions"]) - divided(sums["others"], sums["questions"])
        return {str(model): rise for model, rise in enumerate(rises)}

    tables = {"usable": usable, "others": np.atleast_2d(others), "questions": np.ones((1, usable.shape[1]))}
    tallies = {name: dense_tally(table.T.astype(float)) for name, table in tables.items()}
    conversation = np.array([question.group for question in questions], dtype=object).astype(str)
    clusters = len(np.unique(conversation))
    differences = []
    for interval in bootstrap(tallies, conversation, statistics).values():
        value, low, high = (100 * float(each) for each in paired_interval(interval, clusters))
        tie = clusters < FEWEST_CONVERSATIONS or low <= 0 <= high
        known = clusters >= FEWEST_FOR_INTERVAL
        differences.append(Difference(value, low if known else None, high if known else None, tie))
    return differences
