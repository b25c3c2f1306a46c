"""Coverage of 95 % intervals, in 1,000 simulated studies of each design.

    python eval/statistics/interval_coverage.py

Agreement, Cohen's kappa, AC1 and quadratic kappa with both kinds of bootstrap interval, and prediction-powered
usability rates. The result is eval/results/interval-coverage.json.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple, TypeVar

import numpy as np

from eval.lib.study import record
from medjudge.scale import LEVELS
from medjudge.statistics.bootstrap import Method, Sums, bootstrap, tally
from medjudge.statistics.estimates import Estimate, estimate
from medjudge.statistics.measures import cohen_kappa, confusion, gwet_ac1, quadratic_kappa, usable_agreement
from medjudge.statistics.prediction_powered import physicians_only_rate, prediction_powered_rate

_Design = TypeVar("_Design")


def over_designs(
    designs: Iterable[_Design], studies: int, seed: int, row: Callable[[_Design, np.random.Generator], dict[str, Any]]
) -> dict[str, Any]:
    """The result file's part of a simulation: a row for each design, each with its own draws."""
    rows = [row(design, np.random.default_rng([seed, number])) for number, design in enumerate(designs)]
    return {"confidence": 0.95, "studies": studies, "seed": seed, "designs": rows}


def ends_of(found: Estimate) -> tuple[float, float]:
    """The ends of an interval. No interval promises nothing: it counts as all of -1 to 1."""
    low, high = found["low"], found["high"]
    return -1.0 if low is None else low, 1.0 if high is None else high


def coverage_of(intervals: Sequence[tuple[float, float]], truth: float) -> dict[str, float]:
    """The share of intervals that hold the true value, and their mean width."""
    low, high = np.array(intervals).T
    covered = float(np.mean((low <= truth) & (truth <= high)))
    return {"coverage": round(covered, 4), "mean_width": round(float(np.mean(high - low)), 4)}


class Design(NamedTuple):
    """A study: some conversations scored by physicians, all judged.

    `correlation` is that of two answers of a conversation in being usable. `shared_errors` is the share of answers
    whose luck with the judge is drawn once for the whole conversation. `share_scored` is the share of a scored
    conversation's answers that physicians score, drawn answer by answer.
    """

    conversations_scored: int
    usable: float = 0.85
    judge_finds_usable: float = 0.9  # the judge's P(right) on a usable answer
    judge_finds_unusable: float = 0.9
    conversations: int = 700
    most_answers: int = 1  # conversations have 1 to this many answers, all as likely
    correlation: float = 0.0
    shared_errors: float = 0.0
    share_scored: float = 1.0


class SimulatedStudy(NamedTuple):
    """Answers of a study, one row each, shape (answers,)."""

    usable_by_judge: np.ndarray  # 0 or 1
    usable_by_physicians: np.ndarray  # 0 or 1, NaN where none scored
    conversation: np.ndarray


def simulated_study(design: Design, generator: np.random.Generator) -> SimulatedStudy:
    """Draws a study."""
    sizes = generator.integers(1, design.most_answers + 1, design.conversations)
    conversation = np.repeat(np.arange(design.conversations), sizes)
    rate = np.full(design.conversations, design.usable)
    if design.correlation:
        spread = 1 / design.correlation - 1  # of a beta-binomial with that correlation
        rate = generator.beta(design.usable * spread, (1 - design.usable) * spread, design.conversations)
    usable = generator.random(len(conversation)) < rate[conversation]
    shared = generator.random(len(conversation)) < design.shared_errors
    luck = np.where(shared, generator.random(design.conversations)[conversation], generator.random(len(conversation)))
    right = luck < np.where(usable, design.judge_finds_usable, design.judge_finds_unusable)
    chosen = generator.permutation(design.conversations) < design.conversations_scored
    scored = chosen[conversation] & (generator.random(len(conversation)) < design.share_scored)
    return SimulatedStudy(
        np.where(right, usable, ~usable).astype(float), np.where(scored, usable, np.nan), conversation
    )


def ppi_coverage(studies: int = 1000, seed: int = 0, designs: Iterable[Design] | None = None) -> dict[str, Any]:
    """Coverage of the 95 % intervals of prediction-powered rates, over many designs.

    Args:
        studies: Simulated studies for each design.
        seed: Fixes the draws; each design has its own.
        designs: 78 of many kinds unless given.

    Returns:
        `designs`, a list of rows: the design, coverage and mean width, and both for the physicians' scores alone.
    """
    return over_designs(designs or _ppi_designs(), studies, seed, lambda design, draw: _ppi_row(design, studies, draw))


def _ppi_designs() -> Iterator[Design]:
    conversations: dict[str, Any] = {"most_answers": 5, "correlation": 0.3, "shared_errors": 0.5}
    structures: list[dict[str, Any]] = [{}, conversations, {**conversations, "share_scored": 0.5}]
    judges = ((0.8, 0.8), (0.9, 0.9), (0.95, 0.95), (0.98, 0.6))  # the last one is lenient
    for scored, usable, judge, structure in product((50, 100, 300), (0.5, 0.85), judges, structures):
        yield Design(scored, usable, *judge, **structure)
    # Beyond what the method promises: few conversations, or each nearly a single answer repeated.
    yield Design(20)
    yield Design(20, **conversations)
    for scored in (20, 50, 100, 300):
        yield Design(scored, most_answers=7, correlation=0.6, shared_errors=1.0)


def _ppi_row(design: Design, studies: int, generator: np.random.Generator) -> dict[str, Any]:
    rates, alone = [], []
    for _ in range(studies):
        judge, physicians, conversation = simulated_study(design, generator)
        rates.append(prediction_powered_rate(judge, physicians, conversation))
        alone.append(physicians_only_rate(physicians, conversation))
    both, physicians_only = (coverage_of([(r.low, r.high) for r in each], design.usable) for each in (rates, alone))
    return {
        "design": design._asdict(),
        **both,
        "physicians_only_coverage": physicians_only["coverage"],
        "physicians_only_width": physicians_only["mean_width"],
    }


class AgreementDesign(NamedTuple):
    """A study of agreement: every answer has a level from the judge and from physicians.

    `correlation` is that of two answers of a conversation, in being usable and in being judged right.
    """

    conversations: int
    answers: int = 1  # in each conversation
    usable: float = 0.5
    judge_right: float = 0.85  # P(judge and physicians agree on usable)
    correlation: float = 0.0


MEASURES = {
    "usable_agreement": usable_agreement,
    "cohen_kappa": cohen_kappa,
    "gwet_ac1": gwet_ac1,
    "quadratic_kappa": quadratic_kappa,
}
_TRUTH_FROM = 200_000
"""Conversations of the one large study that gives the true values."""
_RESAMPLES = 1000


def simulated_levels(design: AgreementDesign, generator: np.random.Generator) -> tuple[np.ndarray, ...]:
    """Draws the judge's levels, the physicians' levels and the conversation of each answer."""
    conversation = np.repeat(np.arange(design.conversations), design.answers)
    n = len(conversation)

    def share(mean: float) -> np.ndarray:
        if not design.correlation:
            return np.full(n, mean)
        spread = 1 / design.correlation - 1
        return generator.beta(mean * spread, (1 - mean) * spread, design.conversations)[conversation]

    usable, right = generator.random(n) < share(design.usable), generator.random(n) < share(design.judge_right)
    called = np.where(right, usable, ~usable)
    physician, judge = _levels(usable, generator), _levels(called, generator)
    # Of two that agree on usable, three in five give the same level, the others any that fits.
    return np.where(right & (generator.random(n) < 0.6), physician, judge), physician, conversation


def agreement_coverage(
    studies: int = 1000,
    seed: int = 0,
    methods: tuple[Method, ...] = ("bca",),
    designs: Iterable[AgreementDesign] | None = None,
) -> dict[str, Any]:
    """Coverage of the 95 % intervals of agreement, over several designs.

    Args:
        studies: Simulated studies for each design.
        seed: Fixes the draws; each design has its own.
        methods: The kinds of interval, each on the same studies.
        designs: Seven unless given.

    Returns:
        `designs`, a list of rows: the design, the interval, and measure -> true value, coverage and mean width.
    """
    rows = []
    for number, design in enumerate(designs or agreement_designs()):
        for method in methods:
            rows.append(_agreement_row(design, studies, method, np.random.default_rng([seed, number])))
    return {"confidence": 0.95, "studies": studies, "seed": seed, "resamples": _RESAMPLES, "designs": rows}


def agreement_designs() -> Iterator[AgreementDesign]:
    """Designs with as many conversations as the gate asks for first, then those with fewer."""
    yield AgreementDesign(100)
    yield AgreementDesign(100, usable=0.85, judge_right=0.9)
    yield AgreementDesign(100, answers=3, correlation=0.3)
    yield AgreementDesign(200, answers=3, usable=0.85, judge_right=0.93, correlation=0.2)
    yield AgreementDesign(300, usable=0.7)
    # Fewer than the gate asks for, or just as many.
    yield AgreementDesign(30)
    yield AgreementDesign(30, answers=3, correlation=0.3)


def _agreement_row(
    design: AgreementDesign, studies: int, method: Method, generator: np.random.Generator
) -> dict[str, Any]:
    judge, physician, _ = simulated_levels(design._replace(conversations=_TRUTH_FROM), generator)
    truth = {name: float(measure(confusion(judge, physician))) for name, measure in MEASURES.items()}
    ends: dict[str, list[tuple[float, float]]] = {name: [] for name in MEASURES}
    for study in range(studies):
        judge, physician, conversation = simulated_levels(design, generator)
        counted = {"levels": tally((judge - 1) * LEVELS + physician - 1, (LEVELS, LEVELS))}
        for name, interval in bootstrap(counted, conversation, _all_measures, _RESAMPLES, study, method).items():
            ends[name].append(ends_of(estimate(interval, design.conversations, name == "usable_agreement")))
    return {
        "design": design._asdict(),
        "interval": method,
        **{
            name: {"true": round(truth[name], 4), **coverage_of(intervals, truth[name])}
            for name, intervals in ends.items()
        },
    }


def _all_measures(sums: Sums) -> dict[str, np.ndarray]:
    return {name: measure(sums["levels"]) for name, measure in MEASURES.items()}


def _levels(usable: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return np.where(usable, generator.integers(4, 6, len(usable)), generator.integers(1, 4, len(usable)))


def main() -> None:
    """Simulates and writes the result."""
    start = time.monotonic()
    results = {
        "command": "python eval/statistics/interval_coverage.py",
        "agreement": agreement_coverage(methods=("bca", "percentile")),
        "prediction_powered": ppi_coverage(),
    }
    record("interval-coverage", {**results, "seconds": round(time.monotonic() - start)})


if __name__ == "__main__":
    main()
