"""Coverage of 95 % intervals of rankings from pairs, in 1,000 simulated studies of each design.

    python eval/statistics/pair_coverage.py

Strengths and expected win shares of Davidson's model, the coefficient of length, swap consistency, position bias and
the agreement of two raters on pairs, with both kinds of bootstrap interval. The result is
eval/results/pair-coverage.json.
"""

import time
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from eval.lib.study import record
from eval.statistics.interval_coverage import coverage_of, ends_of
from medjudge.statistics.bootstrap import Method, Resampling
from medjudge.statistics.davidson import fit_davidson, outcome_probabilities, ranking, win_shares
from medjudge.statistics.estimates import Estimate
from medjudge.statistics.labels import both_orders, swaps, verdict_agreement

_RESAMPLES = 1000
_TRUTH_FROM = 40_000
"""Questions of the one large study that gives the true values."""
_OF_MODELS = ("strength", "share")
_MEASURES = ("consistency", "shown_first", "agreement", "kappa", "decided")


class PairDesign(NamedTuple):
    """A study: every pair of models is compared on every question, in both orders.

    The strengths are equally spaced. `between_questions` is the standard deviation of each model's strength over
    questions, so that the pairs of a question are not independent; `first` is what being shown first adds to a
    strength; `length` is the true coefficient of the difference of lengths, None where none is fitted.
    """

    questions: int
    models: int = 4
    spread: float = 2.0
    tie: float = -0.5
    between_questions: float = 0.5
    first: float = 0.3
    length: float | None = None


class SimulatedPairs(NamedTuple):
    """Pairs of a study, one row each, shape (n,); verdicts are 1, 0 or -1."""

    first: np.ndarray
    second: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    physician: np.ndarray
    length: np.ndarray
    question: np.ndarray


def simulated_pairs(design: PairDesign, generator: np.random.Generator) -> SimulatedPairs:
    """Draws a study."""
    rows, columns = np.triu_indices(design.models, k=1)
    first, second = np.tile(rows, design.questions), np.tile(columns, design.questions)
    question = np.repeat(np.arange(design.questions), len(rows))
    mean = np.linspace(design.spread / 2, -design.spread / 2, design.models)
    strength = mean + design.between_questions * generator.normal(size=(design.questions, design.models))
    words = generator.normal(size=(design.questions, design.models))
    length = np.tanh(words[question, first] - words[question, second])
    apart = strength[question, first] - strength[question, second] + (design.length or 0.0) * length

    def drawn(difference: np.ndarray) -> np.ndarray:
        chance = outcome_probabilities(difference, np.array(design.tie)).cumsum(axis=0)
        return 1 - (generator.random(len(difference)) > chance[:2]).sum(axis=0)

    forward, backward, physician = drawn(apart + design.first), drawn(apart - design.first), drawn(apart)
    return SimulatedPairs(first, second, forward, backward, physician, length, question)


def pair_coverage(
    studies: int = 1000,
    seed: int = 0,
    methods: tuple[Method, ...] = ("bca",),
    designs: Iterable[PairDesign] | None = None,
) -> dict[str, Any]:
    """Coverage of the intervals, over several designs.

    Args:
        studies: Simulated studies for each design.
        seed: Fixes the draws; each design has its own.
        methods: The kinds of interval, each on the same studies.
        designs: Seven unless given.

    Returns:
        `designs`, a list of rows: the design, the interval, and measure -> coverage and mean width.
    """
    rows = [
        _row(design, studies, method, np.random.default_rng([seed, number]))
        for number, design in enumerate(designs or pair_designs())
        for method in methods
    ]
    return {"confidence": 0.95, "studies": studies, "seed": seed, "resamples": _RESAMPLES, "designs": rows}


def pair_designs() -> Iterator[PairDesign]:
    """From 20 questions on; in the third, one of two models loses 2 of 100 pairs, which leaves its strength open."""
    yield PairDesign(100)
    yield PairDesign(300, between_questions=1.0)
    yield PairDesign(100, models=2)
    yield PairDesign(100, models=3, length=0.6)
    yield PairDesign(50)
    yield PairDesign(20)
    yield PairDesign(100, models=2, spread=1.0)


def _row(design: PairDesign, studies: int, method: Method, generator: np.random.Generator) -> dict[str, Any]:
    truth = _true_values(design, generator)
    ends: dict[str, list[tuple[float, float]]] = {name: [] for name in truth}
    for study in range(studies):
        for name, interval in _intervals(simulated_pairs(design, generator), design, method, study).items():
            ends[name].append(interval)
    found = {name: coverage_of(intervals, truth[name]) for name, intervals in ends.items()}
    groups = {
        "strength": [name for name in truth if name.startswith("strength")],
        "win_share": [name for name in truth if name.startswith("share")],
        **{name: [name] for name in ("length", *_MEASURES) if name in truth},
    }
    return {
        "design": design._asdict(),
        "interval": method,
        **{
            group: {
                "coverage": round(float(np.mean([found[name]["coverage"] for name in names])), 4),
                "lowest": min(found[name]["coverage"] for name in names),
                "mean_width": round(float(np.mean([found[name]["mean_width"] for name in names])), 4),
            }
            for group, names in groups.items()
        },
    }


def _true_values(design: PairDesign, generator: np.random.Generator) -> dict[str, float]:
    """The result of an endless study: strengths differ between questions, which the fitted model averages."""
    pairs = simulated_pairs(design._replace(questions=_TRUTH_FROM), generator)
    length = None if design.length is None else pairs.length
    verdict = both_orders(pairs.forward, pairs.backward)
    fitted = fit_davidson(pairs.first, pairs.second, _one_hot(verdict), design.models, length)
    shares = win_shares(fitted)
    values = {f"strength {model}": float(fitted.strength[model]) for model in range(design.models)}
    values |= {f"share {model}": float(shares[model]) for model in range(design.models)}
    if length is not None:
        values["length"] = float(fitted.covariate)
    return values | {name: _value(estimate) for name, estimate in _agreements(pairs, verdict, "percentile", 1).items()}


def _intervals(pairs: SimulatedPairs, design: PairDesign, method: Method, seed: int) -> dict[str, tuple[float, float]]:
    length = None if design.length is None else pairs.length
    verdict = both_orders(pairs.forward, pairs.backward)
    comparisons = (pairs.first, pairs.second, _one_hot(verdict), design.models, pairs.question, length)
    ranked = ranking(*comparisons, resamples=_RESAMPLES, seed=seed, method=method)
    ends = {f"{name} {model}": ranked[f"{name} {model}"][1:] for name in _OF_MODELS for model in range(design.models)}
    if length is not None:
        ends["length"] = ranked["covariate"][1:]
    for name, estimate in _agreements(pairs, verdict, method, _RESAMPLES, seed).items():
        ends[name] = ends_of(estimate)
    return ends


def _agreements(
    pairs: SimulatedPairs, verdict: np.ndarray, method: Method, resamples: int, seed: int = 0
) -> dict[str, Estimate]:
    how: Resampling = {"resamples": resamples, "seed": seed, "method": method}
    swapped = swaps(pairs.forward, pairs.backward, pairs.question, **how)
    return {**swapped, **verdict_agreement(verdict, pairs.physician, pairs.question, **how)}


def _value(estimate: Estimate) -> float:
    assert estimate["value"] is not None
    return float(estimate["value"])


def _one_hot(verdict: np.ndarray) -> np.ndarray:
    return np.column_stack([verdict == 1, verdict == 0, verdict == -1]).astype(float)


def main() -> None:
    """Simulates and writes the result."""
    start = time.monotonic()
    results = {"command": "python eval/statistics/pair_coverage.py", **pair_coverage(methods=("bca", "percentile"))}
    record("pair-coverage", {**results, "seconds": round(time.monotonic() - start)})


if __name__ == "__main__":
    main()
