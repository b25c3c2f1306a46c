"""The ceiling for a judge: how well physicians agree with each other, and whether the judge could replace one."""

from collections.abc import Sequence
from itertools import combinations
from typing import Literal, get_args

import numpy as np
from typing_extensions import Unpack

from medjudge.records import CONSTRUCTED, PhysicianScore, Question, grouped
from medjudge.rounds import by_rater, raters_of
from medjudge.scale import LEVELS
from medjudge.statistics.alt_test import Alignment, AltTest, alt_test
from medjudge.statistics.bootstrap import Resampling, Sums, Tally, dense_tally
from medjudge.statistics.estimates import Estimate, Record, estimates
from medjudge.statistics.measures import (
    cohen_kappa,
    coincidences,
    krippendorff_alpha,
    quadratic_kappa,
    usable_agreement,
)
from medjudge.validation.answers import Pairs

_MEASURES = {"usable_agreement": usable_agreement, "cohen_kappa": cohen_kappa, "quadratic_kappa": quadratic_kappa}


class RaterAgreement(Record):
    """Agreement of raters with each other on the `answers` that two or more of them scored."""

    answers: int
    usable_agreement: Estimate
    cohen_kappa: Estimate
    quadratic_kappa: Estimate
    krippendorff_alpha: Estimate


class PhysicianAgreement(RaterAgreement):
    """The ceiling for a judge, and whether it could take a physician's place: on `usable` and on the `level`."""

    alt_test: dict[Literal["usable", "level"], AltTest]


def among_physicians(pairs: Pairs, raters: list[str], **how: Unpack[Resampling]) -> PhysicianAgreement | None:
    """Agreement of the physicians with each other, and the alternative annotator test of the judge.

    Usable agreement and the kappas are over all pairs of raters, each pair of scores of one answer counted both ways
    round, so that no rater is the first.

    Args:
        raters: The names of the columns of `pairs.raters`.

    Returns:
        None where no answer was scored by two.
    """
    among = agreement_of_raters(pairs.raters, pairs.conversation, **how)
    if among is None:
        return None
    tests = {
        alignment: alt_test(pairs.judge, pairs.raters, pairs.conversation, alignment=alignment, names=raters)
        for alignment in get_args(Alignment)
    }
    return PhysicianAgreement(**among.model_dump(), alt_test=tests)


def agreement_of_physicians(
    questions: Sequence[Question], scores: Sequence[PhysicianScore], **how: Unpack[Resampling]
) -> RaterAgreement | None:
    """Agreement of the physicians with each other, with no judge beside them.

    Returns:
        As `agreement_of_raters`; None where no answer was scored by two physicians.
    """
    group = {question.id: question.group for question in questions}
    known = [score for score in scores if score.rater != CONSTRUCTED and score.question_id in group]
    by_answer = grouped(known, lambda score: score.answer_key)
    conversation = np.array([group[key.question_id] for key in by_answer], dtype=object)
    return agreement_of_raters(by_rater([*by_answer.values()], raters_of(known)), conversation, **how)


def agreement_of_raters(
    raters: np.ndarray, conversation: np.ndarray, **how: Unpack[Resampling]
) -> RaterAgreement | None:
    """Agreement of raters with each other, on the answers that two or more scored.

    Args:
        raters: Levels, shape (n, raters), NaN where one did not score.
        conversation: Of each answer, shape (n,).

    Returns:
        Measures with 95 % intervals; None where no answer was scored by two.
    """
    rows = np.isfinite(raters).sum(axis=1) > 1
    raters, conversation = raters[rows], conversation[rows]
    if len(raters) == 0:
        return None
    tallies = {"pairs": _pairs(raters), "coincidences": dense_tally(coincidences(raters))}

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        result = {name: measure(sums["pairs"]) for name, measure in _MEASURES.items()}
        return {**result, "krippendorff_alpha": krippendorff_alpha(sums["coincidences"])}

    measures = estimates(tallies, conversation, statistics, ("usable_agreement",), **how)
    return RaterAgreement(answers=len(raters), **measures)


def _pairs(levels: np.ndarray) -> Tally:
    tables = np.zeros((len(levels), LEVELS, LEVELS))
    for first, second in combinations(range(levels.shape[1]), 2):
        rows = np.flatnonzero(np.isfinite(levels[:, first]) & np.isfinite(levels[:, second]))
        row, column = levels[rows, first].astype(int) - 1, levels[rows, second].astype(int) - 1
        np.add.at(tables, (rows, row, column), 1)
        np.add.at(tables, (rows, column, row), 1)
    return dense_tally(tables)
