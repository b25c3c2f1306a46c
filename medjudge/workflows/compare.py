"""The comparison station: a judge compares two models' answers at a time, in both orders, and the models are ranked."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shlex import quote
from typing import Any, Literal, NamedTuple, TypeGuard

from medjudge.errors import InputError
from medjudge.files import write_json
from medjudge.judge.open import (
    AnyRef,
    ApiRef,
    ImportedRef,
    JudgeOptions,
    JudgeRef,
    check_servers,
    resolve_judge_or_panel,
)
from medjudge.judge.pairs import (
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
from medjudge.store import Run
from medjudge.validation.comparison import (
    PairStudy,
    PhysicianPairStudy,
    pair_study,
    possible_pairs,
    read_pair_study,
)
from medjudge.workflows.label_station import LabelStation
from medjudge.workflows.panel import check_panel, judged_by
from medjudge.workflows.physician_scores import unseen_by


class CompareOptions(NamedTuple):
    """The things to compare, and the method.

    Attributes:
        models: The models; all of the run unless given.
        budget: The most pairs that the run holds of this judge afterwards, drawn by the seed; None for all.
        length_control: Ranks as if all answers were of equal length.
        seed: Of the draw of pairs and of the bootstrap.
        judging: How the judge is run.
        offline: Refuses a judge on a server that is not this machine.
    """

    models: tuple[str, ...] = ()
    budget: int | None = None
    length_control: bool = False
    seed: int = 0
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
            judged_by(run, judge_ref, options.judging, answers)
            new = 0
        study = write_pair_study(run, judge_ref, models, options.length_control, options.seed)
        spent = run.manifest().get("spending") or {}
    return Comparison(run, study, new, spent.get("usd"))


def compares(judge_ref: AnyRef) -> TypeGuard[JudgeRef]:
    """True if a judge has a prompt for pairs: an API judge and a generative one do."""
    return judge_ref.kind in ("api", "generative")


def write_pair_study(
    run: Run, judge_ref: AnyRef, models: Sequence[str], length_control: bool, seed: int = 0
) -> PairStudy:
    """Computes a comparison from the records of a run and writes `pairs/JUDGE.json`.

    Raises:
        InputError: No pair has a verdict.
    """
    by_physicians = unseen_by(run, judge_ref, physician_pairs(run), "physicians' pairs")
    compared = compares(judge_ref) or (isinstance(judge_ref, ImportedRef) and pair_judgments(run, judge_ref.name))
    how: Literal["pairs", "pointwise"] = "pairs" if compared else "pointwise"
    study = pair_study(run, judge_ref.name, how, models, by_physicians, length_control, seed)
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
    return write_pair_study(run, judge_ref, models, before.length_controlled).physicians


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
        InputError: With the number of missing answers and the first of them.
    """
    answered = {answer.key for answer in run.answers() if answer.model in models}
    places = sorted({(key.question_id, key.sample) for key in answered})
    missing = [
        f"question {question_id}, sample {sample}: no answer of {model}"
        for question_id, sample in places
        for model in models
        if AnswerKey(question_id, model, sample) not in answered
    ]
    if missing:
        raise InputError(
            f"{run.answers_file}: answers are missing in pairs ({len(missing)}), the first: {missing[0]}; answer them "
            "with `medjudge answer`, or leave a model out with --models; nothing was judged"
        )


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
    done = {(pair.pair_key, pair.first) for pair in station.begin()}
    begun = {key for key, _ in done}
    questions = {question.id: question for question in run.questions()}
    answers = {answer.key: answer for answer in run.answers()}
    earlier, scheme = earlier_turns(list(questions.values())), run.scheme()
    possible = possible_pairs(questions.values(), answers.values(), models)
    # A pair that was begun is finished first: half of it is paid for.
    started, fresh = [key for key in possible if key in begun], [key for key in possible if key not in begun]
    if options.budget is not None:
        drawn = [key for key in _spread(possible, options.seed) if key not in begun]
        fresh = drawn[: max(0, options.budget - len(started))]
    work: list[PairAssignment] = []
    for key in [*started, *fresh]:
        first, second = [answers[answer] for answer in key.answers]
        both = PairAssignment(questions[key.question_id], earlier[key.question_id], first, second, scheme)
        work += [one for one in (both, both.swapped()) if (key, one.first.model) not in done]
    if not work:
        return 0
    if done:
        say(f"{len(done)} judgments of pairs by {judge_ref.name} exist; {len(work)} to go")
    station.judge(work, "comparing", "order", "{made} judgments of pairs were made and are")
    return len({each.key for each in work})


def _spread(pairs: Sequence[PairKey], seed: int) -> list[PairKey]:
    """The pairs in an order drawn by the seed in which every two models meet equally often."""
    drawn = sorted(pairs, key=lambda key: sha256("\x1f".join(map(str, (seed, *key))).encode()).digest())
    met: Counter[tuple[str, str]] = Counter()
    turn = {}
    for key in drawn:
        turn[key] = met[key.models]
        met[key.models] += 1
    return sorted(drawn, key=lambda key: turn[key])
