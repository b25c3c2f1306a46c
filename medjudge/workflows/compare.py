"""The comparison station: a judge compares two models' answers at a time, in both orders, and the models are ranked."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Any, Literal, NamedTuple, TypeGuard

import numpy as np

from medjudge.errors import InputError
from medjudge.files import write_json
from medjudge.judge.open import (
    AnyRef,
    ApiRef,
    ImportedRef,
    JudgeOptions,
    JudgeRef,
    PanelRef,
    check_servers,
    resolve_judge_or_panel,
)
from medjudge.judge.pairs import (
    VERDICTS,
    PairAssignment,
    comparison_file,
    pair_judgments,
    pair_prompts_sha256,
    pairs_file,
    physician_pairs,
    physician_pairs_file,
)
from medjudge.models.hardware import choose_device
from medjudge.pair_records import PairJudgment, PairKey
from medjudge.records import AnswerKey, earlier_turns
from medjudge.screen import say
from medjudge.statistics.davidson import most_informative
from medjudge.statistics.labels import both_orders
from medjudge.store import Run
from medjudge.validation.comparison import (
    PairSettings,
    PairStudy,
    PhysicianPairStudy,
    pair_study,
    possible_pairs,
    read_pair_study,
)
from medjudge.workflows.judge import judge_answers
from medjudge.workflows.label_station import LabelStation
from medjudge.workflows.panel import check_panel, judge_panel
from medjudge.workflows.physician_scores import seen_by, unseen_by

_LISTED = 20
"""The most missing answers that a message lists."""
_AT_ONCE = 16
"""Pairs between two looks at what is most informative next."""


class CompareOptions(NamedTuple):
    """The things to compare, and the method.

    Attributes:
        models: The models; all of the run unless given.
        budget: The most pairs that the run holds of this judge afterwards, the most informative ones; None for all.
        settings: Length control, resamples and seed.
        judging: How the judge is run.
        offline: Refuses a judge on a server that is not this machine.
    """

    models: tuple[str, ...] = ()
    budget: int | None = None
    settings: PairSettings = PairSettings()
    judging: JudgeOptions = JudgeOptions()
    offline: bool = False


@dataclass(frozen=True)
class Comparison:
    """A comparison of models by one judge.

    Attributes:
        run: The run.
        study: What `pairs/JUDGE.json` holds.
        new: How many pairs this call judged.
        spent_usd: What all requests of the run cost so far; None without a price.
    """

    run: Run
    study: PairStudy
    new: int
    spent_usd: float | None = None

    @property
    def complete(self) -> bool:
        """True if every pair that was looked at has a verdict."""
        return not self.study.unjudged

    def as_json(self) -> dict[str, Any]:
        """The object that `compare --json` prints."""
        return {**self.study.model_dump(mode="json"), "new": self.new, "spent_usd": self.spent_usd}


def compare(
    run: Run | Path | str, judge: AnyRef | str = "local", options: CompareOptions = CompareOptions()
) -> Comparison:
    """Compares the models of a run by pairs of answers, and writes `pairs/JUDGE.json`.

    API judges and generative judges compare two answers in one prompt, in both orders; every pair is on disk before the
    next one is made, and the same call goes on where it stopped. All other judges score single answers: their pairs
    come from the two distributions.

    Args:
        run: A run folder with questions and answers.
        judge: `local`, `built-in`, `similarity`, a judge folder, `openai:MODEL`, a panel, or the name of judgments in
            the run.

    Raises:
        InputError: There are fewer than two models, one that is not in the run, a pair with one answer missing, a
            budget below 1, or the judge cannot be used.
        UnfinishedError: A server did not answer, or the limit on costs is reached; the same call goes on.
    """
    run = run if isinstance(run, Run) else Run.existing(Path(run))
    if options.budget is not None and options.budget < 1:
        raise InputError(f"--budget {options.budget}: the most pairs to judge, at least 1; omit it for all")
    choose_device(options.judging.device)
    models = models_to_compare(run, options.models)
    require_both_answers(run, models)
    judge_ref = resolve_judge_or_panel(judge, run) if isinstance(judge, str) else judge
    check_panel(run, judge_ref, options.judging)
    check_servers(judge_ref, options.judging, options.offline)
    with run.lock():
        if compares(judge_ref):
            new = _judge_pairs(run, judge_ref, models, options)
        elif options.budget is not None:
            raise InputError(
                f"--budget {options.budget}: judge {judge_ref.name} scores single answers, and every pair comes from "
                "these scores; omit it"
            )
        else:
            say(
                f"judge {judge_ref.name} ({judge_ref.kind}) has no prompt for pairs: a pair comes from its scores of "
                "the two single answers, P(A > B) from both distributions, and the order of the answers cannot matter"
            )
            possible = possible_pairs(run.questions(), run.answers(), models)
            answers = {key for pair in possible for key in pair.answers}
            if isinstance(judge_ref, PanelRef):
                judge_panel(run, judge_ref, options.judging, answers)
            elif not isinstance(judge_ref, ImportedRef):
                judge_answers(run, judge_ref, options.judging, answers)
            new = 0
        study = write_pair_study(run, judge_ref, models, options.settings)
        spent = run.manifest().get("spending") or {}
    return Comparison(run, study, new, spent.get("usd"))


def compares(judge_ref: AnyRef) -> TypeGuard[JudgeRef]:
    """True if a judge has a prompt for pairs: an API judge and a generative one do."""
    return judge_ref.kind in ("api", "generative")


def write_pair_study(run: Run, judge_ref: AnyRef, models: Sequence[str], settings: PairSettings) -> PairStudy:
    """Computes a comparison from the records of a run and writes `pairs/JUDGE.json`.

    Raises:
        InputError: No pair has a verdict.
    """
    # Agreement on what a judge has seen would mean nothing. The run's manifest knows of judges that are not here.
    seen = judge_ref.seen | seen_by(run, judge_ref.name)
    by_physicians = unseen_by(run, judge_ref.name, seen, physician_pairs(run), "physicians' pairs")
    compared = compares(judge_ref) or (isinstance(judge_ref, ImportedRef) and pair_judgments(run, judge_ref.name))
    how: Literal["pairs", "pointwise"] = "pairs" if compared else "pointwise"
    study = pair_study(run, judge_ref.name, how, models, by_physicians, settings)
    write_json(comparison_file(run, judge_ref.name), study.model_dump(mode="json"))
    return study


def physicians_pairs(run: Run, judge_ref: AnyRef) -> PhysicianPairStudy | None:
    """The judge's pairs against physicians', where both compared answers of the run; computed and written anew."""
    compared = physician_pairs(run)
    if not compared:
        return None
    before = read_pair_study(run, judge_ref.name)
    if before is None:
        say(
            f"{physician_pairs_file(run)}: {len(compared)} pairs; `medjudge compare {quote(str(run.path))} --judge "
            f"{judge_ref.name}` lets this judge compare them, too"
        )
        return None
    present = {answer.model for answer in run.answers()}
    models = [model for model in before.compared if model in present]
    return write_pair_study(run, judge_ref, models, PairSettings(before.length_controlled)).physicians


def models_to_compare(run: Run, named: Sequence[str]) -> list[str]:
    """The models to compare, in the order of the run's answers.

    Raises:
        InputError: A name is not in the run, or there are fewer than two.
    """
    models = list(dict.fromkeys(answer.model for answer in run.answers()))
    if unknown := [name for name in dict.fromkeys(named) if name not in models]:
        raise InputError(
            f"--models {','.join(unknown)}: no answers in {run.path}; its models are {', '.join(models) or 'none'}"
        )
    chosen = [model for model in models if not named or model in named]
    if len(chosen) < 2:
        if named:
            raise InputError(f"--models {','.join(named)}: name two models or more, or omit it for all of the run")
        raise InputError(
            f"{run.path}: has answers of {len(models)} model{'s' if len(models) != 1 else ''}, and a comparison needs "
            "two; `medjudge answer` adds another one"
        )
    return chosen


def require_both_answers(run: Run, models: Sequence[str]) -> None:
    """Refuses a run in which a model lacks an answer that another one has.

    Raises:
        InputError: With all that is missing.
    """
    answered = {answer.key for answer in run.answers() if answer.model in models}
    places = sorted({(key.question_id, key.sample) for key in answered})
    missing = [
        f"question {question_id}, sample {sample}: no answer of {model}"
        for question_id, sample in places
        for model in models
        if AnswerKey(question_id, model, sample) not in answered
    ]
    if not missing:
        return
    fix = "answer them with `medjudge answer`, or leave a model out with --models; nothing was judged"
    if len(missing) == 1:
        raise InputError(f"{run.answers_file}, {missing[0]}; {fix}")
    more = [f"and {len(missing) - _LISTED} more"] if len(missing) > _LISTED else []
    head = f"{run.answers_file}: {len(missing)} answers are missing in pairs; {fix}"
    raise InputError("\n  ".join([head, *missing[:_LISTED], *more]))


def _judge_pairs(run: Run, judge_ref: JudgeRef, models: Sequence[str], options: CompareOptions) -> int:
    """Judges what is not judged yet, and returns how many pairs are new."""
    station = LabelStation(
        run,
        judge_ref,
        options.judging,
        pairs_file(run, judge_ref.name),
        PairJudgment,
        pair_prompts_sha256("reason-first" if isinstance(judge_ref, ApiRef) else "score-first", run.scheme()),
    )
    done = {(pair.pair_key, pair.first): pair for pair in station.begin()}
    questions = {question.id: question for question in run.questions()}
    answers = {answer.key: answer for answer in run.answers()}
    earlier, scheme = earlier_turns(list(questions.values())), run.scheme()

    def work_of(keys: Sequence[PairKey]) -> list[PairAssignment]:
        work = []
        for key in keys:
            first, second = [answers[answer] for answer in key.answers]
            both = PairAssignment(questions[key.question_id], earlier[key.question_id], first, second, scheme)
            work += [one for one in (both, both.swapped()) if (key, one.first.model) not in done]
        return work

    possible = possible_pairs(questions.values(), answers.values(), models)
    begun = {key for key, _ in done}
    total = len(possible) if options.budget is None else min(options.budget, len(possible))
    started = [key for key in possible if key in begun]
    # A pair that was begun is finished first: half of it is paid for.
    waiting = [key for key in started if work_of([key])]
    fresh = [key for key in possible if key not in begun]
    wanted = max(0, total - len(started))
    to_go = len(waiting) + min(wanted, len(fresh))
    if done and to_go:
        say(f"{len(started) - len(waiting)} pairs by {judge_ref.name} exist; {to_go} to go")
    if not to_go:
        return 0

    def batches() -> Iterator[list[PairAssignment]]:
        yield work_of(waiting)
        if options.budget is None:
            yield work_of(fresh)
            return
        left, open_pairs = wanted, fresh
        while left and open_pairs:
            chosen = _next(open_pairs, done, models, min(left, _AT_ONCE), options.settings.seed)
            yield work_of(chosen)
            open_pairs, left = [key for key in open_pairs if key not in set(chosen)], left - len(chosen)

    bar = (2 * to_go, "comparing", "order")
    for judgment in station.judged(batches(), bar, "{made} judgments of pairs were made and are"):
        done[judgment.pair_key, judgment.first] = judgment
    return len({key for key, _ in done} - begun) + len(waiting)


def _next(
    fresh: Sequence[PairKey],
    done: dict[tuple[PairKey, str], PairJudgment],
    models: Sequence[str],
    number: int,
    seed: int,
) -> list[PairKey]:
    """The most informative pairs next; of equal ones those of a question that was compared least, drawn by the seed."""
    index = {model: place for place, model in enumerate(models)}
    judged: list[tuple[int, int, int]] = []
    used: dict[str, int] = {}
    for (key, shown_first), judgment in done.items():
        if shown_first != key.models[0] or not set(key.models) <= index.keys():
            continue
        used[key.question_id] = used.get(key.question_id, 0) + 1
        other = done.get((key, key.models[1]))
        if other is None or judgment.preferred is None or other.preferred is None:
            continue
        forward, backward = VERDICTS[judgment.preferred], -VERDICTS[other.preferred]
        verdict = int(both_orders(np.array([forward]), np.array([backward]))[0])
        judged.append((index[key.models[0]], index[key.models[1]], verdict))
    order = sorted(fresh, key=lambda key: (used.get(key.question_id, 0), _draw(seed, key)))
    known = np.array(judged, dtype=int).reshape(-1, 3)
    outcomes = np.column_stack([known[:, 2] == 1, known[:, 2] == 0, known[:, 2] == -1]).astype(float)
    opened = np.array([[index[model] for model in key.models] for key in order]).T
    chosen = most_informative(known[:, 0], known[:, 1], outcomes, opened[0], opened[1], len(models), number)
    return [order[place] for place in chosen]


def _draw(seed: int, key: PairKey) -> str:
    return sha256("\x1f".join(map(str, (seed, key.question_id, *key.models, key.sample))).encode()).hexdigest()
