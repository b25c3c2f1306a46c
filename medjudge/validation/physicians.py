"""The ceiling for a judge: how well physicians agree with each other, and whether the judge could replace one."""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from medjudge.judge.alt_test_study import AltTestResult, RaterComparison
from medjudge.judge.study import PhysicianAgreement, RaterAgreement
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
) -> PhysicianAgreement | None:
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
    results = {alignment: alt_test_result(test, raters) for alignment, test in tests.items()}
    return PhysicianAgreement(**among.model_dump(), alt_test=results)


def agreement_of_physicians(
    questions: Sequence[Question], scores: Sequence[PhysicianScore], resamples: int = RESAMPLES, seed: int = 0
) -> RaterAgreement | None:
    """Agreement of the physicians with each other, with no judge beside them.

    Returns:
        As `agreement_of_raters`; None where no answer was scored by two physicians.
    """
    group = {question.id: question.group for question in questions}
    scores_by_answer: dict[AnswerKey, list[PhysicianScore]] = {}
    for score in scores:
        if score.rater != CONSTRUCTED and score.question_id in group:
            scores_by_answer.setdefault(score.answer_key, []).append(score)
    raters = raters_of(score for answer_scores in scores_by_answer.values() for score in answer_scores)
    conversation = np.array([group[key.question_id] for key in scores_by_answer], dtype=object)
    return agreement_of_raters(by_rater([*scores_by_answer.values()], raters), conversation, resamples, seed)


def agreement_of_raters(
    raters: np.ndarray, conversation: np.ndarray, resamples: int = RESAMPLES, seed: int = 0, method: Method = "bca"
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

    intervals = bootstrap(tallies, conversation, statistics, resamples, seed, method)
    clusters = len(np.unique(conversation))
    return RaterAgreement(
        answers=len(raters),
        usable_agreement=estimate(intervals["usable_agreement"], clusters),
        cohen_kappa=estimate(intervals["cohen_kappa"]),
        quadratic_kappa=estimate(intervals["quadratic_kappa"]),
        krippendorff_alpha=estimate(intervals["krippendorff_alpha"]),
    )


def alt_test_result(test: AltTest, raters: list[str]) -> AltTestResult:
    """The test as studies hold it.

    Args:
        raters: The names of the columns that it was computed from.
    """
    comparisons = [
        RaterComparison(
            rater=raters[comparison.rater],
            n=comparison.n,
            rho_judge=_rounded(comparison.rho_judge),
            rho_rater=_rounded(comparison.rho_rater),
            p_value=_rounded(comparison.p_value),
            adjusted_p=_rounded(comparison.adjusted_p),
            won=comparison.won,
        )
        for comparison in test.raters
    ]
    return AltTestResult(
        epsilon=EPSILON,
        omega=_rounded(test.omega),
        rho=_rounded(test.rho),
        passed=test.passed,
        why=test.why,
        raters=comparisons,
    )


def _rounded(value: float | None) -> float | None:
    return None if value is None else rounded(value)


def _pairs(levels: np.ndarray) -> Tally:
    tables = np.zeros((len(levels), LEVELS, LEVELS))
    for first, second in combinations(range(levels.shape[1]), 2):
        rows = np.flatnonzero(np.isfinite(levels[:, first]) & np.isfinite(levels[:, second]))
        row, column = levels[rows, first].astype(int) - 1, levels[rows, second].astype(int) - 1
        np.add.at(tables, (rows, row, column), 1)
        np.add.at(tables, (rows, column, row), 1)
    return dense_tally(tables)
