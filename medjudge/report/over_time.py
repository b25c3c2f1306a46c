"""Runs of one benchmark by one judge over time: the rates of each model, and what changed from run to run."""

from collections.abc import Callable, Sequence
from datetime import datetime
from hashlib import sha256
from typing import NamedTuple

from medjudge.report.changes import Changes, ModelChange
from medjudge.report.run_list import Benchmark, JudgedRates, ListedRun, oldest_first
from medjudge.validation.usability import Rate


class Step(NamedTuple):
    """What changed for a model from one run to the next one that has it; `judge_changed` as in `Changes`."""

    since: str
    change: ModelChange
    judge_changed: bool


class Point(NamedTuple):
    """A model's rate in a run, and the step that leads to it; None for the first."""

    run: str
    date: datetime
    rate: Rate
    step: Step | None


class ModelHistory(NamedTuple):
    """The rates of a model, the oldest first."""

    model: str
    points: list[Point]

    @property
    def last_step(self) -> Step | None:
        """What changed with its last run."""
        return self.points[-1].step


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


def histories(comparison: Comparison, changed: Callable[[str, str, str], Changes | None]) -> list[ModelHistory]:
    """Each model's rates in the runs that have it, and what changed from one to the next.

    Args:
        changed: Compares a run with an earlier one, by their names and the judge's, as `changes` does.

    Raises:
        InputError: As for `changes`.
    """
    return [ModelHistory(model, _points(comparison, model, changed)) for model in comparison.models]


def _points(comparison: Comparison, model: str, changed: Callable[[str, str, str], Changes | None]) -> list[Point]:
    points: list[Point] = []
    for run in comparison.runs:
        rate = comparison.rated(run).rates.get(model)
        if rate is not None:
            step = _step(changed(run.name, points[-1].run, comparison.judge), model) if points else None
            points.append(Point(run.name, run.date, rate, step))
    return points


def _step(changed: Changes | None, model: str) -> Step | None:
    if changed is None:  # the earlier run has lost the judge's file meanwhile
        return None
    change = next((one for one in changed.models if one.model == model), None)
    return None if change is None else Step(changed.since, change, changed.judge_changed)
