"""Leaderboards over several runs: one per benchmark and judge, because rates of different ones do not compare."""

import json
from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple
from urllib.parse import urlencode

import numpy as np

from medjudge.files import file_sha256
from medjudge.report.contents import Contents, distinct_model_names, distinct_run_names
from medjudge.report.paired import Difference, Duel, duels, mean_levels, ties
from medjudge.scheme import Scheme
from medjudge.store import Run
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


def board_key(run: Run, judge: str) -> BoardKey:
    """The leaderboard that a run's rates by a judge belong to."""
    card = run.manifest().get("judges", {}).get(judge, {})
    return BoardKey(file_sha256(run.questions_file), run.scheme().sha256, judge, card.get("sha256"))


class Board(NamedTuple):
    """The models of one benchmark by one judge, the best first.

    `runs` are positions in the list of runs. `models` maps a name to its rates, `answers` the same name to the
    address of its answers on the page, and `ties` to its difference from the best; `duels` holds every model
    against every other. `validation_status` has an entry for each column. `truncated` counts the answers of each
    model that ended at the token limit. `subcategories` are pairs of category and name.
    """

    benchmark: str
    scheme: Scheme
    judge: str
    runs: list[int]
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
            positions.setdefault(board_key(run.run, judge), []).append(position)
    benchmarks = list(dict.fromkeys(run.benchmark for run in runs))
    keys = sorted(positions, key=lambda key: benchmarks.index(key.benchmark))
    return [_board(runs, positions[key], key.judge) for key in keys]


def _board(all_runs: Sequence[Contents], positions: Sequence[int], judge: str) -> Board:
    runs = [all_runs[position] for position in positions]
    questions, scheme = runs[0].questions, runs[0].scheme
    models: dict[str, ModelUsability] = {}
    usable: dict[str, np.ndarray] = {}
    answers: dict[str, str] = {}
    levels: dict[str, np.ndarray] = {}
    truncated: dict[str, int] = {}
    counts: list[Coverage] = []
    names = distinct_model_names(distinct_run_names([run.run for run in runs]), [run.models for run in runs])
    for position, run, names_of_run in zip(positions, runs, names, strict=True):
        judgments = run.judgments[judge]
        keys = [answer.key for answer in run.answers]
        rates = score_models(questions, judgments, run.models, scheme, keys)
        table = usable_table(questions, judgments, run.models)
        means = mean_levels(questions, judgments, run.models)
        for model, name, row, mean in zip(run.models, names_of_run, table, means, strict=True):
            models[name], usable[name], levels[name] = rates[model], row, mean
            truncated[name] = sum(answer.truncated for answer in run.answers if answer.model == model)
            answers[name] = _answers_of(position, judge, model)
        counts.append(coverage(keys, judgments))
    ordered = best_first(models)
    with_rates = any(rates.overall.rate is not None for rates in ordered.values())
    return Board(
        benchmark=runs[0].benchmark,
        scheme=scheme,
        judge=judge,
        runs=list(positions),
        models=ordered,
        answers=answers,
        ties=ties(questions, {name: usable[name] for name in ordered}) if with_rates else {},
        duels=duels({name: levels[name] for name in ordered}),
        validation_status=_worst([statuses_in(run.run, judge, run.models) for run in runs]),
        coverage=_together(counts),
        truncated=truncated,
        questions=len(questions),
        conversations=len({question.group for question in questions}),
        subcategories=_subcategories(ordered),
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


def _worst(by_run: Sequence[dict[str, ValidationStatus]]) -> dict[str, ValidationStatus]:
    """The status of one judge in several runs: where several validated it against physicians, the worst counts."""

    def rank(status: ValidationStatus) -> int:
        return _WORST_FIRST.index(status.state)

    return {column: min((statuses[column] for statuses in by_run), key=rank) for column in by_run[0]}


def _subcategories(models: dict[str, ModelUsability]) -> list[tuple[str, str]]:
    first = next(iter(models.values()), None)
    by_category = {} if first is None else first.subcategories
    return [(category, name) for category, names in by_category.items() for name in names]
