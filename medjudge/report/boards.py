"""Leaderboards over several runs: one a benchmark and judge, because rates of different ones do not compare."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from medjudge.files import file_sha256
from medjudge.report.contents import Contents, models_apart, names_apart
from medjudge.report.leaderboard import coverage, score_models, usable_table
from medjudge.report.ties import Difference, ties
from medjudge.scheme import Scheme
from medjudge.store import Run
from medjudge.validation.status import ValidationState, ValidationStatus, validation_statuses
from medjudge.validation.validations import validations

_WORST_FIRST = (
    ValidationState.FAILED,
    ValidationState.INCONCLUSIVE,
    ValidationState.VALIDATED,
    ValidationState.NEVER_VALIDATED,
)


class Board(NamedTuple):
    """The models of one benchmark by one judge, the best first.

    `runs` are positions in the list of runs. `models` maps a name to the rates of `score_models`, and `ties` the same
    name to its difference from the best. `validation_status` has an entry for each column; `subcategories` are pairs of
    category and name.
    """

    benchmark: str
    scheme: Scheme
    judge: str
    runs: list[int]
    models: dict[str, Any]
    ties: dict[str, Difference]
    validation_status: dict[str, ValidationStatus]
    coverage: dict[str, int]
    questions: int
    conversations: int
    subcategories: list[tuple[str, str]]


class BoardKey(NamedTuple):
    """What two runs must share to be on one leaderboard: questions and scheme, the judge and what it is made from."""

    benchmark: str
    scheme_sha256: str
    judge: str
    judge_sha256: str | None


def board_key(run: Run, judge: str) -> BoardKey:
    """The leaderboard that a run's rates by a judge belong to."""
    card = run.manifest().get("judges", {}).get(judge, {})
    return BoardKey(file_sha256(run.questions_file), run.scheme().sha256, judge, card.get("sha256"))


def leaderboards(runs: Sequence[Contents]) -> list[Board]:
    """All leaderboards of some runs; those of one benchmark stand together, the last judge used first."""
    places: dict[BoardKey, list[int]] = {}
    for place, one in enumerate(runs):
        for judge in one.judgments:
            key = BoardKey(one.benchmark, one.scheme.sha256, judge, one.judge_sha256(judge))
            places.setdefault(key, []).append(place)
    benchmarks = list(dict.fromkeys(one.benchmark for one in runs))
    keys = sorted(places, key=lambda key: benchmarks.index(key.benchmark))
    return [_board(runs, places[key], key.judge) for key in keys]


def _board(runs: Sequence[Contents], places: Sequence[int], judge: str) -> Board:
    here = [runs[place] for place in places]
    questions, scheme = here[0].questions, here[0].scheme
    models: dict[str, Any] = {}
    usable: dict[str, np.ndarray] = {}
    counted = {"answers": 0, "unscored": 0}
    names = models_apart(names_apart([one.run for one in here]), [one.models for one in here])
    for one, called in zip(here, names, strict=True):
        judgments = one.judgments[judge]
        rates = score_models(questions, judgments, one.models, scheme)["models"]
        table = usable_table(questions, judgments, one.models)
        for model, name, row in zip(one.models, called, table, strict=True):
            models[name], usable[name] = rates[model], row
        for count, number in coverage([answer.key for answer in one.answers], judgments).items():
            counted[count] += number
    ordered = dict(sorted(models.items(), key=lambda item: -item[1]["OP"]["rate"]))
    return Board(
        benchmark=here[0].benchmark,
        scheme=scheme,
        judge=judge,
        runs=list(places),
        models=ordered,
        ties=ties(questions, {name: usable[name] for name in ordered}),
        validation_status=_worst([validation_statuses(validations(one.run, judge), scheme) for one in here]),
        coverage=counted,
        questions=len(questions),
        conversations=len({question.group for question in questions}),
        subcategories=_subcategories(ordered),
    )


def _worst(by_run: Sequence[dict[str, ValidationStatus]]) -> dict[str, ValidationStatus]:
    """The status of one judge in several runs: where several validated it against physicians, the worst counts."""

    def rank(status: ValidationStatus) -> int:
        return _WORST_FIRST.index(status.state)

    return {column: min((statuses[column] for statuses in by_run), key=rank) for column in by_run[0]}


def _subcategories(models: dict[str, Any]) -> list[tuple[str, str]]:
    first: dict[str, Any] = next(iter(models.values()), {"subcategories": {}})
    return [(category, name) for category, names in first["subcategories"].items() for name in names]
