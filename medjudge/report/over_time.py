"""Runs of one benchmark by one judge over time: the rates of each model, and what changed from run to run."""

from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from medjudge.report.changes import Changes, ModelChange
from medjudge.report.run_list import Benchmark, JudgedRates, ListedRun, oldest_first
from medjudge.validation.usability import Rate


class Point(NamedTuple):
    """A model's rate in a run, and what changed since the run before; `change` is None where nothing is to compare.

    `judge_changed` as in `Changes`.
    """

    run: str
    date: datetime
    rate: Rate
    since: str = ""
    change: ModelChange | None = None
    judge_changed: bool = False


class Comparison(NamedTuple):
    """The runs of one benchmark by one judge, the oldest first; at least one of the models is in two of them."""

    benchmark: Benchmark
    judge: str
    runs: list[ListedRun]

    @property
    def key(self) -> str:
        """Names the comparison in an address."""
        return sha256("\0".join([*self.benchmark, self.judge]).encode()).hexdigest()[:12]

    @property
    def models(self) -> list[str]:
        """The models that are in two runs or more, in the order of the last run's rates."""
        rates = [rated.rates for rated in map(self.rated, reversed(self.runs))]
        names = dict.fromkeys(name for models in rates for name in models)
        return [name for name in names if sum(name in models for models in rates) > 1]

    def rated(self, run: ListedRun) -> JudgedRates:
        """A run's rates by the judge of the comparison."""
        return next(rated for rated in run.judged if rated.judge == self.judge)


def comparisons(runs: Sequence[ListedRun]) -> list[Comparison]:
    """The groups of runs that can be compared, the one with the newest run first."""
    groups: dict[tuple[Benchmark, str], list[ListedRun]] = {}
    for run in reversed(oldest_first(runs)):
        for rated in run.judged:
            groups.setdefault((run.benchmark, rated.judge), []).append(run)
    found = [Comparison(benchmark, judge, members[::-1]) for (benchmark, judge), members in groups.items()]
    return [comparison for comparison in found if comparison.models]


def histories(comparison: Comparison, changed: Callable[[str, str, str], Changes | None]) -> dict[str, list[Point]]:
    """Each model's rates in the runs that have it, the oldest first.

    Args:
        changed: Compares a run with an earlier one, by their names and the judge's, as `changes` does.

    Raises:
        InputError: As for `changes`.
    """
    points: dict[str, list[Point]] = {model: [] for model in comparison.models}
    for run in comparison.runs:
        for model, rate in comparison.rated(run).rates.items():
            if model in points:
                before = points[model][-1].run if points[model] else ""
                # None where the earlier run has lost the judge's file meanwhile.
                found = changed(run.name, before, comparison.judge) if before else None
                change = next((one for one in found.models if one.model == model), None) if found else None
                points[model].append(
                    Point(run.name, run.date, rate, before, change, found is not None and found.judge_changed)
                )
    return points
