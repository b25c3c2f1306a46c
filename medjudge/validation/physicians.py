"""The ceiling: how well physicians agree with each other, and whether the judge could take one's place."""

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np

from medjudge.records import CONSTRUCTED, AnswerKey, PhysicianScore, Question
from medjudge.rounds import by_rater, raters_of
from medjudge.scale import LEVELS
from medjudge.statistics.alt_test import Alignment, AltTest, alt_test
from medjudge.statistics.bootstrap import RESAMPLES, Method, Sums, Tally, bootstrap, dense_tally
from medjudge.statistics.estimates import estimate, rounded
from medjudge.statistics.krippendorff import coincidences, krippendorff_alpha
from medjudge.statistics.measures import cohen_kappa, quadratic_kappa, usable_agreement
from medjudge.validation.pairs import Pairs

EPSILON = 0.2
"""What a judge may lose against a physician for being cheaper; the paper's value for expert annotators."""
_ALIGNMENTS: tuple[Alignment, ...] = ("usable", "level")
_MEASURES = {"usable_agreement": usable_agreement, "cohen_kappa": cohen_kappa, "quadratic_kappa": quadratic_kappa}


def among_physicians(
    pairs: Pairs, raters: list[str], resamples: int = RESAMPLES, seed: int = 0, method: Method = "bca"
) -> dict[str, Any] | None:
    """Agreement of the physicians with each other, and the alternative annotator test of the judge.

    Usable agreement and the kappas are over all pairs of raters, each pair of scores of one answer counted both ways
    round, so that no rater is the first.

    Args:
        raters: The names of the columns of `pairs.raters`.

    Returns:
        None where no answer was scored by two.
    """
    both = pairs.only(np.isfinite(pairs.raters).sum(axis=1) > 1)
    among = agreement_of_raters(both.raters, both.conversation, resamples, seed, method)
    if among is None:
        return None
    tests = {
        alignment: alt_test(both.judge, both.raters, both.conversation, EPSILON, alignment) for alignment in _ALIGNMENTS
    }
    return {**among, "alt_test": {alignment: _shown(test, raters) for alignment, test in tests.items()}}


def agreement_of_physicians(
    questions: Sequence[Question], scores: Sequence[PhysicianScore], resamples: int = RESAMPLES, seed: int = 0
) -> dict[str, Any] | None:
    """Agreement of the physicians with each other, with no judge beside them.

    Returns:
        As `agreement_of_raters`; None where no answer was scored by two physicians.
    """
    group = {question.id: question.group for question in questions}
    given: dict[AnswerKey, list[PhysicianScore]] = {}
    for score in scores:
        if score.rater != CONSTRUCTED and score.question_id in group:
            given.setdefault(score.answer_key, []).append(score)
    raters = raters_of(score for some in given.values() for score in some)
    conversation = np.array([group[key.question_id] for key in given], dtype=object)
    return agreement_of_raters(by_rater([*given.values()], raters), conversation, resamples, seed)


def agreement_of_raters(
    raters: np.ndarray, conversation: np.ndarray, resamples: int = RESAMPLES, seed: int = 0, method: Method = "bca"
) -> dict[str, Any] | None:
    """Agreement of raters with each other, on the answers that two or more scored.

    Args:
        raters: Levels, shape (n, raters), NaN where one did not score.
        conversation: Of each answer, shape (n,).

    Returns:
        The number of answers, and measures with 95 % intervals; None where no answer was scored by two.
    """
    rows = np.isfinite(raters).sum(axis=1) > 1
    raters, conversation = raters[rows], conversation[rows]
    if len(raters) == 0:
        return None
    tallies = {"pairs": _pairs(raters), "coincidences": dense_tally(coincidences(raters))}

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        result = {name: measure(sums["pairs"]) for name, measure in _MEASURES.items()}
        return {**result, "krippendorff_alpha": krippendorff_alpha(sums["coincidences"])}

    intervals = bootstrap(tallies, conversation, statistics, resamples, seed, method)
    clusters = len(np.unique(conversation))
    return {
        "answers": len(raters),
        **{
            name: estimate(interval, clusters if name == "usable_agreement" else None)
            for name, interval in intervals.items()
        },
    }


def _shown(test: AltTest, raters: list[str]) -> dict[str, Any]:
    against = [
        {
            "rater": raters[one.rater],
            "n": one.n,
            "rho_judge": _rounded(one.rho_judge),
            "rho_rater": _rounded(one.rho_rater),
            "p_value": _rounded(one.p_value),
            "adjusted_p": _rounded(one.adjusted_p),
            "won": one.won,
        }
        for one in test.raters
    ]
    totals = {"omega": _rounded(test.omega), "rho": _rounded(test.rho), "passed": test.passed, "why": test.why}
    return {"epsilon": EPSILON, **totals, "raters": against}


def _rounded(value: float | None) -> float | None:
    return None if value is None else rounded(value)


def _pairs(levels: np.ndarray) -> Tally:
    tables = np.zeros((len(levels), LEVELS, LEVELS))
    for first, second in combinations(range(levels.shape[1]), 2):
        rows = np.flatnonzero(np.isfinite(levels[:, first]) & np.isfinite(levels[:, second]))
        one, other = levels[rows, first].astype(int) - 1, levels[rows, second].astype(int) - 1
        np.add.at(tables, (rows, one, other), 1)
        np.add.at(tables, (rows, other, one), 1)
    return dense_tally(tables)
