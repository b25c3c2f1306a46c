"""Leaderboards over several runs: one per benchmark and judge, because rates of different ones do not compare."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import numpy as np

from medjudge.records import AnswerKey, Question, grouped
from medjudge.report.contents import Contents
from medjudge.report.paired import Difference, ties
from medjudge.validation.records import Study, read_study
from medjudge.validation.status import ValidationState, ValidationStatus
from medjudge.validation.usability import Coverage, ModelUsability, best_first, coverage, score_models, usable_table
from medjudge.validation.validations import statuses_in

_WORST = (  # the worst first
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
        path: Its folder.
        place: Its position among the runs that are reported on.
        key: The leaderboard that the rates belong to; rates of different ones do not compare.
        models: Rates by model, the highest first.
        validation_status: The judge's, overall (`OP`) and by category.
        usable: By model, whether its answer to each of the questions is usable, shape (questions,).
        coverage: The numbers of answers, and of those without a score, by reason.
        truncated: By model, the number of answers that ended at the token limit.
        study: The judge's study in the run, if there is one that still holds.
        notes: The lines that must be printed with its numbers.
    """

    run: str
    path: Path
    place: int
    key: BoardKey
    models: Mapping[str, ModelUsability]
    validation_status: Mapping[str, ValidationStatus]
    questions: Sequence[Question]
    usable: Mapping[str, np.ndarray]
    coverage: Coverage
    truncated: Mapping[str, int]
    study: Study | None
    notes: Sequence[str]

    @property
    def judge(self) -> str:
        return self.key.judge

    def __str__(self) -> str:
        return f"judge {self.judge}, {self.path}"


def judged_runs(runs: Sequence[Contents]) -> list[JudgedRun]:
    """Each run by each of its judges.

    Raises:
        InputError: A study is not of this version.
    """
    return [judged_run(place, run, judge) for place, run in enumerate(runs) for judge in run.judgments]


def judged_run(place: int, run: Contents, judge: str) -> JudgedRun:
    """A run by one of its judges; errors as for `judged_runs`."""
    judgments, keys, models = run.judgments[judge], [answer.key for answer in run.answers], run.models
    card = run.manifest.get("judges", {}).get(judge, {})
    study = read_study(run.run, judge)
    return JudgedRun(
        run.name,
        run.run.path,
        place,
        BoardKey(run.benchmark, run.scheme.sha256, judge, card.get("sha256")),
        best_first(score_models(run.questions, judgments, models, run.scheme, keys)),
        statuses_in(run.run, judge, models),
        run.questions,
        dict(zip(models, usable_table(run.questions, judgments, models), strict=True)),
        coverage(keys, judgments),
        {model: sum(answer.truncated for answer in run.answers if answer.model == model) for model in models},
        None if study is None or study.changed else study,
        run.run.notes(),
    )


class Board(NamedTuple):
    """The models of one benchmark by one judge, the best first.

    `named` maps a model's name on the board to its run and its own name, `models` to its rates, `usable` to whether its
    answer to each of the questions is usable, and `ties` to its difference from the best. `validation_status` has an
    entry for each column.
    """

    judged: list[JudgedRun]
    named: dict[str, tuple[JudgedRun, str]]
    models: dict[str, ModelUsability]
    usable: dict[str, np.ndarray]
    ties: dict[str, Difference]
    validation_status: dict[str, ValidationStatus]
    coverage: Coverage
    conversations: int

    @property
    def judge(self) -> str:
        return self.judged[0].judge

    @property
    def truncated(self) -> dict[str, int]:
        """By model, the number of answers that ended at the token limit."""
        return {name: run.truncated[model] for name, (run, model) in self.named.items()}

    def answers(self, name: str) -> str:
        """The address of a model's answers on the page, as `answers.js` reads it."""
        run, model = self.named[name]
        filters = {"run": run.place, "judge": run.judge, "model": json.dumps(model, ensure_ascii=False)}
        return f"#answers?{urlencode(filters)}"

    def as_json(self) -> dict[str, Any]:
        """One of the leaderboards that `report --json` prints."""
        return {
            "benchmark": self.judged[0].key.benchmark,
            "judge": self.judge,
            "models": {model: rates.as_json() for model, rates in self.models.items()},
            "truncated": self.truncated,
            "validation_status": {
                str(run): {part: status._asdict() for part, status in run.validation_status.items()}
                for run in self.judged
            },
        }


def answer_link(place: int, key: AnswerKey) -> str:
    """The address of an answer of a run within the page, as `answers.js` reads it."""
    return f"#answer/{place}/{quote(key.question_id, safe='')}/{quote(key.model, safe='')}/{key.sample}"


def leaderboards(runs: Sequence[JudgedRun]) -> list[Board]:
    """The leaderboards of some runs, those of a benchmark together; a run without answers is on none."""
    groups = grouped((run for run in runs if run.models), lambda run: run.key)
    benchmarks = list(dict.fromkeys(run.key.benchmark for run in runs))
    return [_board(groups[key]) for key in sorted(groups, key=lambda key: benchmarks.index(key.benchmark))]


def _board(judged: list[JudgedRun]) -> Board:
    runs_of = Counter(model for run in judged for model in run.models)
    # A model of several runs carries its run's name.
    named = {
        f"{run.run}/{model}" if runs_of[model] > 1 else model: (run, model) for run in judged for model in run.models
    }
    models = best_first({name: run.models[model] for name, (run, model) in named.items()})
    named = {name: named[name] for name in models}
    usable = {name: run.usable[model] for name, (run, model) in named.items()}
    questions, counts = judged[0].questions, [run.coverage for run in judged]
    reasons = sum((Counter(count.reasons) for count in counts), Counter[str]())
    return Board(
        judged,
        named,
        models,
        usable,
        ties(questions, usable) if any(rates.overall.rate is not None for rates in models.values()) else {},
        # Where several runs validated the judge against physicians, the worst counts.
        {
            column: min(
                (run.validation_status[column] for run in judged), key=lambda status: _WORST.index(status.state)
            )
            for column in judged[0].validation_status
        },
        Coverage(sum(count.answers for count in counts), sum(count.unscored for count in counts), dict(reasons)),
        conversations=len({question.group for question in questions}),
    )
