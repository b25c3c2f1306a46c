"""The alternative annotator test: could the judge replace one of the physicians?"""

from collections.abc import Sequence
from typing import Literal

import numpy as np
from scipy.stats import false_discovery_control
from scipy.stats import t as student

from medjudge.scale import USABLE_FROM
from medjudge.statistics.estimates import Record, Rounded

Alignment = Literal["usable", "level"]

EPSILON = 0.2
"""The loss against a physician that a judge is allowed for being cheaper; the paper's value for expert annotators."""
FALSE_DISCOVERY_RATE = 0.05
FEWEST_ANSWERS = 30


class RaterTest(Record):
    """The judge against one physician, both compared with the remaining physicians of each answer.

    `n` counts the physician's answers that another physician scored too. `rho_judge` is the share of them on which the
    judge is at least as close to the remaining physicians as this one is, `rho_rater` the reverse; both None if n is
    0. `p_value`, `adjusted_p` and `won` are None if there are too few answers to decide.
    """

    rater: str
    n: int
    rho_judge: Rounded | None = None
    rho_rater: Rounded | None = None
    p_value: Rounded | None = None
    adjusted_p: Rounded | None = None
    won: bool | None = None


class AltTest(Record):
    """The results for each physician, and the overall result.

    `omega` (winning rate), `rho` (average advantage probability) and `passed` are None if the test is inconclusive.
    `why` says what prevents a conclusion or weakens it; None if nothing does.
    """

    epsilon: float
    omega: Rounded | None = None
    rho: Rounded | None = None
    passed: bool | None = None
    why: str | None
    raters: list[RaterTest]


def alt_test(
    judge: np.ndarray,
    physicians: np.ndarray,
    clusters: np.ndarray,
    epsilon: float = EPSILON,
    alignment: Alignment = "usable",
    names: Sequence[str] = (),
) -> AltTest:
    """The alternative annotator test (Calderon, Reichart and Dror, 2025, arXiv 2501.10970).

    Each physician is left out in turn. The judge wins against this physician if rho_judge > rho_rater - epsilon by a
    one-sided paired t-test, with the Benjamini-Yekutieli procedure over the physicians at a false discovery rate of
    0.05. It passes if it wins against at least half of them. Two things differ from the paper: the standard error is
    robust to clusters (identical if every conversation has one answer), and fewer than two physicians with 30 answers
    each are inconclusive. As in the authors' code, omega and rho are over the physicians that could be decided.

    Passing only means that the judge is as good as these physicians, less epsilon. If they agree little, or nearly all
    answers are usable, a guessing judge passes too: read the result beside the physicians' agreement.

    Args:
        judge: The judge's levels, shape (n,); for `level` also expected levels.
        physicians: Levels, NaN if a physician did not score, shape (n, raters).
        clusters: The conversation of each answer, shape (n,).
        epsilon: What the judge's lower cost is worth, as a share of answers; the paper recommends 0.2 for experts.
        alignment: `usable` is the share of remaining physicians with the same usable label (the paper's ACC), `level`
            minus the root mean squared difference to their levels (its -RMSE).
        names: Of the physicians; their numbers from 0 unless given.
    """
    _, cluster = np.unique(clusters.astype(str), return_inverse=True)

    def against(rater: int, name: str) -> RaterTest:
        others = np.delete(physicians, rater, axis=1)
        rows = np.isfinite(physicians[:, rater]) & np.isfinite(others).any(axis=1)
        n = int(rows.sum())
        if n == 0:
            return RaterTest(rater=name, n=0)
        of_judge = _aligned(judge[rows], others[rows], alignment)
        of_rater = _aligned(physicians[rows, rater], others[rows], alignment)
        judge_ahead, rater_ahead = (of_judge >= of_rater).astype(int), (of_rater >= of_judge).astype(int)
        p_value = _below(rater_ahead - judge_ahead, cluster[rows], epsilon) if n >= FEWEST_ANSWERS else None
        ahead = float(judge_ahead.mean()), float(rater_ahead.mean())
        return RaterTest(rater=name, n=n, rho_judge=ahead[0], rho_rater=ahead[1], p_value=p_value)

    tests = [against(rater, name) for rater, name in enumerate(names or map(str, range(physicians.shape[1])))]
    p_values = {place: test.p_value for place, test in enumerate(tests) if test.p_value is not None}
    if p_values:
        adjusted = false_discovery_control([*p_values.values()], method="by").tolist()
        for place, p in zip(p_values, adjusted, strict=True):
            tests[place] = tests[place].model_copy(update={"adjusted_p": p, "won": p <= FALSE_DISCOVERY_RATE})
    return _concluded(epsilon, tests)


def _aligned(levels: np.ndarray, others: np.ndarray, alignment: Alignment) -> np.ndarray:
    """The closeness of each level to those of the remaining physicians, (n,) and (n, raters - 1) -> (n,)."""
    if alignment == "level":
        return -np.sqrt(np.nanmean((levels[:, None] - others) ** 2, axis=1))
    same = (levels[:, None] >= USABLE_FROM) == (others >= USABLE_FROM)
    return np.nanmean(np.where(np.isnan(others), np.nan, same), axis=1)


def _below(difference: np.ndarray, cluster: np.ndarray, epsilon: float) -> float | None:
    """The p-value of H0: mean difference >= epsilon, by a t-test whose standard error is robust to clusters.

    The differences are -1, 0 or 1. None if all answers are of one conversation; 0 or 1 if nothing varies between them.
    """
    n, number = len(difference), len(np.unique(cluster))
    if number < 2:
        return None
    mean = float(difference.mean())
    answers, total = np.bincount(cluster), np.bincount(cluster, weights=difference)
    # n times the sums of residuals: integers, so that "nothing varies" is exactly 0.
    residuals = n * total - answers * difference.sum()
    standard_error = float(np.sqrt(number / (number - 1) * (residuals**2).sum())) / n**2
    if standard_error == 0:
        return 0.0 if mean < epsilon else 1.0
    return float(student.cdf((mean - epsilon) / standard_error, number - 1))


def _concluded(epsilon: float, tests: list[RaterTest]) -> AltTest:
    decided = [test for test in tests if test.won is not None]
    undecided = [test for test in tests if test.won is None]
    notes = []
    if len(tests) < 2:
        notes.append(f"the test needs at least two physicians, and there is {len(tests) or 'none'}")
    elif undecided:
        counts = ", ".join(str(test.n) for test in undecided)
        notes.append(
            f"{len(undecided)} of {len(tests)} physicians cannot be decided: each needs {FEWEST_ANSWERS} answers, from "
            f"more than one conversation, that another physician scored too (they have {counts})"
        )
    if len(decided) < 2:
        return AltTest(epsilon=epsilon, why="; ".join(notes), raters=tests)
    if len(decided) == 2:
        notes.append("with two physicians the test is less reliable; the paper recommends at least three")
    omega = float(np.mean([test.won for test in decided]))
    rho = float(np.mean([test.rho_judge for test in decided if test.rho_judge is not None]))
    why = "; ".join(notes) or None
    return AltTest(epsilon=epsilon, omega=omega, rho=rho, passed=omega >= 0.5, why=why, raters=tests)
