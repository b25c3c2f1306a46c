"""Leaderboards over several runs: one per benchmark and judge, because rates of different ones do not compare."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np

from medjudge.records import Question
from medjudge.report.contents import Contents, distinct_model_names, distinct_run_names
from medjudge.report.paired import Difference, Duel, duels, mean_levels, ties
from medjudge.scheme import Scheme
from medjudge.validation.records import Study
from medjudge.validation.status import ValidationState, ValidationStatus
from medjudge.validation.usability import Coverage, ModelUsability, best_first, coverage, score_models, usable_table
from medjudge.validation.validations import statuses_in

_WORST_FIRST = (
    ValidationState.FAILED,
    ValidationState.STALE,
    ValidationState.INCONCLUSIVE,
    ValidationState.CUSTOM_GATE,
    ValidationState.VALIDATED,
    ValidationState.NEVER_VALIDATED,
)


class BoardKey(NamedTuple):
    """The common ground of runs on a leaderboard: questions, scheme, the judge and the files that it is made from."""

    benchmark: str
    scheme_sha256: str
    judge: str
    judge_sha256: str | None


class JudgedRun(NamedTuple):
    """A run as one judge saw it.

    Attributes:
        run: The run's name; no two of some boards have the same.
        key: The leaderboard that the rates belong to; rates of different ones do not compare.
        models: Rates by model, the highest first.
        validation_status: The judge's, overall (`OP`) and by category.
        usable: By model, whether its answer to each of the questions is usable, shape (questions,).
        coverage: The numbers of answers, and of those without a score, by reason.
        truncated: By model, the number of answers that ended at the token limit.
        study: The judge's study in the run, if it is known.
        notes: The lines that must be printed with its numbers.
    """

    run: str
    key: BoardKey
    models: Mapping[str, ModelUsability]
    validation_status: Mapping[str, ValidationStatus]
    questions: Sequence[Question]
    usable: Mapping[str, np.ndarray]
    coverage: Coverage = Coverage(0, 0)
    truncated: Mapping[str, int] = {}
    study: Study | None = None
    notes: Sequence[str] = ()

    @property
    def judge(self) -> str:
        return self.key.judge


def judged_run(name: str, run: Contents, judge: str) -> JudgedRun:
    """A run by one of its judges; the study is not read."""
    judgments, keys, models = run.judgments[judge], [answer.key for answer in run.answers], run.models
    return JudgedRun(
        name,
        _key(run, judge),
        best_first(score_models(run.questions, judgments, models, run.scheme, keys)),
        statuses_in(run.run, judge, models),
        run.questions,
        dict(zip(models, usable_table(run.questions, judgments, models), strict=True)),
        coverage(keys, judgments),
        {model: sum(answer.truncated for answer in run.answers if answer.model == model) for model in models},
        notes=run.run.notes(),
    )


def _key(run: Contents, judge: str) -> BoardKey:
    card = run.manifest.get("judges", {}).get(judge, {})
    return BoardKey(run.benchmark, run.scheme.sha256, judge, card.get("sha256"))


def grouped(runs: Sequence[JudgedRun]) -> list[list[JudgedRun]]:
    """The runs that share a leaderboard."""
    groups: dict[BoardKey, list[JudgedRun]] = {}
    for run in runs:
        groups.setdefault(run.key, []).append(run)
    return list(groups.values())


def named_models(group: Sequence[JudgedRun], names: Sequence[str]) -> dict[str, tuple[JudgedRun, str]]:
    """The run and own name of each model of one leaderboard, by the name that it has there.

    Args:
        names: The runs' names.
    """
    named = distinct_model_names(names, [list(run.models) for run in group])
    return {
        name: (run, model)
        for run, names_of_run in zip(group, named, strict=True)
        for name, model in zip(names_of_run, run.models, strict=True)
    }


class Board(NamedTuple):
    """The models of one benchmark by one judge, the best first.

    `runs` are positions in the list of runs, and `judged` these runs. `models` maps a name to its rates, `answers` the
    same name to the address of its answers on the page, and `ties` to its difference from the best; `duels` holds every
    model against every other. `validation_status` has an entry for each column. `truncated` counts the answers of each
    model that ended at the token limit. `subcategories` are pairs of category and name.
    """

    benchmark: str
    scheme: Scheme
    judge: str
    runs: list[int]
    judged: list[JudgedRun]
    models: dict[str, ModelUsability]
    answers: dict[str, str]
    ties: dict[str, Difference]
    duels: dict[str, dict[str, Duel]]
    validation_status: dict[str, ValidationStatus]
    coverage: Coverage
    truncated: dict[str, int]
    questions: int
    conversations: int
    subcategories: list[tuple[str, str]]


def leaderboards(runs: Sequence[Contents]) -> list[Board]:
    """All leaderboards of some runs, grouped by benchmark, the last judge used first."""
    positions: dict[BoardKey, list[int]] = {}
    for position, run in enumerate(runs):
        for judge in run.judgments:
            positions.setdefault(_key(run, judge), []).append(position)
    benchmarks = list(dict.fromkeys(run.benchmark for run in runs))
    keys = sorted(positions, key=lambda key: benchmarks.index(key.benchmark))
    names = distinct_run_names([run.run for run in runs])
    return [_board(runs, names, positions[key], key.judge) for key in keys]


def _board(all_runs: Sequence[Contents], names: Sequence[str], positions: Sequence[int], judge: str) -> Board:
    runs = [all_runs[position] for position in positions]
    questions, scheme = runs[0].questions, runs[0].scheme
    judged = [judged_run(names[position], all_runs[position], judge) for position in positions]
    named = named_models(judged, distinct_run_names([run.run for run in runs]))
    levels: dict[tuple[str, str], np.ndarray] = {}
    answers: dict[tuple[str, str], str] = {}
    for position, run, shown in zip(positions, runs, judged, strict=True):
        means = mean_levels(questions, run.judgments[judge], run.models)
        for model, mean in zip(run.models, means, strict=True):
            levels[shown.run, model], answers[shown.run, model] = mean, _answers_of(position, judge, model)
    models = best_first({name: run.models[model] for name, (run, model) in named.items()})
    named = {name: named[name] for name in models}
    with_rates = any(rates.overall.rate is not None for rates in models.values())
    return Board(
        benchmark=runs[0].benchmark,
        scheme=scheme,
        judge=judge,
        runs=list(positions),
        judged=judged,
        models=models,
        answers={name: answers[run.run, model] for name, (run, model) in named.items()},
        ties=ties(questions, {name: run.usable[model] for name, (run, model) in named.items()}) if with_rates else {},
        duels=duels({name: levels[run.run, model] for name, (run, model) in named.items()}),
        validation_status=_worst([run.validation_status for run in judged]),
        coverage=_together([run.coverage for run in judged]),
        truncated={name: run.truncated[model] for name, (run, model) in named.items()},
        questions=len(questions),
        conversations=len({question.group for question in questions}),
        subcategories=_subcategories(models),
    )


def _answers_of(position: int, judge: str, model: str) -> str:
    """The address of a model's answers on the page, as `answers.js` reads it."""
    filters = {"run": position, "judge": judge, "model": json.dumps(model, ensure_ascii=False)}
    return f"#answers?{urlencode(filters)}"


def _together(counts: Sequence[Coverage]) -> Coverage:
    reasons: Counter[str] = Counter()
    for count in counts:
        reasons.update(count.reasons)
    return Coverage(sum(count.answers for count in counts), sum(count.unscored for count in counts), dict(reasons))


def _worst(by_run: Sequence[Mapping[str, ValidationStatus]]) -> dict[str, ValidationStatus]:
    """The status of one judge in several runs: where several validated it against physicians, the worst counts."""

    def rank(status: ValidationStatus) -> int:
        return _WORST_FIRST.index(status.state)

    return {column: min((statuses[column] for statuses in by_run), key=rank) for column in by_run[0]}


def _subcategories(models: dict[str, ModelUsability]) -> list[tuple[str, str]]:
    first = next(iter(models.values()), None)
    by_category = {} if first is None else first.subcategories
    return [(category, name) for category, names in by_category.items() for name in names]
