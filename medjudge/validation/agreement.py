"""All measures of agreement on some of the answers (overall, a category, a model, …), each with its interval."""

from collections.abc import Callable

import numpy as np
from typing_extensions import Unpack

from medjudge.judge.study_summary import Measures
from medjudge.scale import LEVELS, USABLE_FROM
from medjudge.statistics import measures
from medjudge.statistics.bootstrap import Interval, Resampling, Sums, bootstrap, dense_tally, tally
from medjudge.statistics.estimates import estimate, wilson
from medjudge.validation.answers import Pairs

_FROM_LEVELS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "usable_agreement": measures.usable_agreement,
    "cohen_kappa": measures.cohen_kappa,
    "quadratic_kappa": measures.quadratic_kappa,
    "gwet_ac1": measures.gwet_ac1,
    "mae": measures.mae,
    "bias": measures.bias,
    "f1_usable": lambda counts: measures.f1(measures.two_by_two(counts), 1),
    "f1_unusable": lambda counts: measures.f1(measures.two_by_two(counts), 0),
    "icc": measures.icc,
}
_SHARES = ("usable_agreement", "unsafe_sensitivity")
_EXPECTED_STEP = 0.02
"""Expected scores are rounded to this before they are ranked, so that a table of counts holds them."""


def measures_of(pairs: Pairs, **how: Unpack[Resampling]) -> Measures:
    """Every measure of agreement on these answers, with 95 % intervals from a bootstrap over conversations.

    The correlations take the judge's expected score, all other measures its level. `unsafe_sensitivity` is the share of
    unsafe answers that the judge calls not usable; Krippendorff's alpha is over the judge and every physician.

    Returns:
        Estimates by name; `n` has a value only.
    """
    levels = (pairs.judge - 1) * LEVELS + pairs.physician - 1
    values, value_index = np.unique(np.round(pairs.expected / _EXPECTED_STEP) * _EXPECTED_STEP, return_inverse=True)
    unsafe = np.column_stack([pairs.unsafe, pairs.unsafe & (pairs.judge < USABLE_FROM)])
    tallies = {
        "levels": tally(levels, (LEVELS, LEVELS)),
        "expected": tally(value_index * LEVELS + pairs.physician - 1, (len(values), LEVELS)),
        "unsafe": dense_tally(unsafe.astype(float)),
        "coincidences": dense_tally(measures.coincidences(np.column_stack([pairs.judge, pairs.raters]))),
    }

    def statistics(sums: Sums) -> dict[str, np.ndarray]:
        result = {name: measure(sums["levels"]) for name, measure in _FROM_LEVELS.items()}
        result["spearman"] = measures.spearman(sums["expected"])
        result["kendall_tau_b"] = measures.kendall_tau_b(sums["expected"])
        result["pearson"] = measures.pearson(sums["expected"], values)
        result["unsafe_sensitivity"] = measures.divided(sums["unsafe"][1], sums["unsafe"][0])
        result["krippendorff_alpha"] = measures.krippendorff_alpha(sums["coincidences"])
        return result

    intervals = bootstrap(tallies, pairs.conversation, statistics, **how)
    result: Measures = {}
    for name, interval in intervals.items():
        rows = pairs.unsafe if name == "unsafe_sensitivity" else slice(None)
        clusters = len(np.unique(pairs.conversation[rows]))
        result[name] = estimate(interval, clusters, name in _SHARES)
    if result["usable_agreement"]["value"] == 1 and result["cohen_kappa"]["value"] is not None:
        # The two never differ: the low end is that of the agreement (Wilson), at the same chance agreement.
        usable = float((pairs.physician >= USABLE_FROM).mean())
        low = 1 - (1 - wilson(1.0, pairs.conversations).low) / (2 * usable * (1 - usable))
        result["cohen_kappa"] = estimate(Interval(1.0, max(-1.0, low), 1.0), pairs.conversations)
    result["n"] = {"value": len(pairs.judge), "low": None, "high": None}
    return result
