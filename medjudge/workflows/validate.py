"""What `medjudge validate` does on a run folder: judge, compare, probe, leave out, hold against the gate."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import numpy as np

from medjudge.errors import InputError
from medjudge.files import write_json
from medjudge.judge.open import JudgeRef, resolve_judge
from medjudge.judge.study import LeaveOutStudy, ProbeEffect, ProbeStudy, Study
from medjudge.probes.probes import FLUENT_WRONG, PROBES, probed
from medjudge.records import CONSTRUCTED, Answer, AnswerKey, Judgment, PhysicianScore
from medjudge.scale import consensus
from medjudge.store import Run, write_records
from medjudge.train.features import read_training_lines
from medjudge.train.leave_out import train_folds
from medjudge.validation.leave_out import leave_out_rows
from medjudge.validation.probe_effect import probe_effect
from medjudge.validation.study import Settings, agreement_study, with_parts
from medjudge.workflows.judge import JudgeOptions, identity, judge_answers, load
from medjudge.workflows.run_folder import record_spending


class LeaveOut(NamedTuple):
    """Which part each fold never sees, and from what the folds are trained."""

    by: Literal["model", "category"]
    config: Path
    training_set: Path


class Wanted(NamedTuple):
    """What a validation looks at beyond agreement, and how."""

    settings: Settings = Settings()
    against: str | None = None
    teacher: str | None = None
    probe_answers: int = 0
    leave_out: LeaveOut | None = None


def validate_judge(
    run: Run,
    chosen: JudgeRef,
    scores: Sequence[PhysicianScore],
    options: JudgeOptions,
    wanted: Wanted = Wanted(),
    file: str = "physician_scores.jsonl",
    sha256: str = "",
) -> Study:
    """Judges the answers that physicians scored, compares, and writes `agreement/JUDGE.json`.

    Args:
        file: The name of the file that the scores came from, for the record.
        sha256: Its hash; empty where the scores are of another judge.

    Raises:
        InputError: The judge was trained on one of these questions, or nothing can be compared.
    """
    group_of = {question.id: question.group for question in run.questions()}
    scores = of_this_run(run, scores, file)
    require_unseen(chosen, scores, group_of)
    if chosen.imported:
        judgments = run.judgments(chosen.name)
    else:
        judgments = judge_answers(run, chosen, options, {score.answer_key for score in scores})
    # What the judge was trained on says nothing of the rest: its probabilities there are too good.
    seen = {group_of[one] for one in chosen.seen if one in group_of}
    judgments = [one for one in judgments if group_of[one.question_id] not in seen]
    teacher = run.judgments(wanted.teacher) if wanted.teacher else []
    study = agreement_study(
        chosen.name, run.questions(), judgments, scores, wanted.against, teacher, wanted.settings, run.scheme()
    )
    probes = _probes(run, chosen, scores, judgments, options, wanted) if wanted.probe_answers else None
    leave_out = _leave_out(run, scores, options, wanted.leave_out, wanted.settings) if wanted.leave_out else None
    study = with_parts(study, wanted.settings.gate or run.scheme().gate, probes, leave_out)
    source = {"file": file, "sha256": sha256, "judge_sha256": identity(chosen, options, run.scheme())}
    study = study.model_copy(update=source)
    write_json(run.agreement_file(chosen.name, wanted.against), study.model_dump(mode="json"))
    return study


def of_this_run(run: Run, scores: Sequence[PhysicianScore], file: str) -> list[PhysicianScore]:
    """The scores whose answers are here; constructed levels only where no physician scored any."""
    answers = {answer.key for answer in run.answers()}
    here = [score for score in scores if score.answer_key in answers]
    if len(here) < len(scores):
        first = next(score for score in scores if score.answer_key not in answers)
        told = f"{first.question_id} / {first.model} / {first.sample}"
        if not here:
            raise InputError(f"{file}: no score belongs to an answer of {run.path} (such as {told}); compare the ids")
        print(
            f"{file}: {len(scores) - len(here)} scores belong to no answer of {run.path} (such as {told}) and are left "
            "out",
            file=sys.stderr,
        )
    return [score for score in here if score.rater != CONSTRUCTED] or here


def require_unseen(chosen: JudgeRef, scores: Sequence[PhysicianScore], group_of: dict[str, str]) -> None:
    """Refuses questions, and conversations, that a judge was trained or tuned on."""
    seen_groups = {group_of[question_id] for question_id in chosen.seen if question_id in group_of}
    asked = {score.question_id for score in scores}
    overlap = sorted(one for one in asked if one in chosen.seen or group_of.get(one) in seen_groups)
    if overlap:
        raise InputError(
            f"judge {chosen.name}: was trained or tuned on {len(overlap)} of these {len(asked)} questions (such as "
            f"{overlap[0]}), so that its agreement would mean nothing; give physicians' scores of other questions"
        )


def _probes(
    run: Run,
    chosen: JudgeRef,
    scores: Sequence[PhysicianScore],
    judgments: Sequence[Judgment],
    options: JudgeOptions,
    wanted: Wanted,
) -> ProbeStudy:
    """Judges changed answers, each probe in a run folder of its own under `probes/`, where they can be looked at."""
    levels: dict[AnswerKey, list[int]] = {}
    for score in scores:
        levels.setdefault(score.answer_key, []).append(score.level)
    questions = {question.id: question for question in run.questions()}
    candidates = [answer for answer in run.answers() if answer.key in levels and answer.question_id in questions]
    order = np.random.default_rng(wanted.settings.seed).permutation(len(candidates))
    answers = [candidates[place] for place in order[: wanted.probe_answers]]
    conversations = {question.id: question.group for question in questions.values()}
    judge, scheme = load(chosen, options, run), run.scheme()
    effects: dict[str, ProbeEffect] = {}
    not_applied = []
    for probe in PROBES:
        attempts = (
            probed(questions[one.question_id], one, probe, wanted.settings.seed, consensus(levels[one.key]), scheme)
            for one in answers
        )
        changed = {new.key: new for new in attempts if new is not None}
        if not changed:
            not_applied.append(probe)
            continue
        place = Run(run.path / "probes" / probe)
        with place.lock():
            place.write_questions(questions.values(), scheme)
            _replace_answers(place, changed)
            after = judge_answers(place, chosen, options, set(changed), judge)
        effects[probe] = probe_effect(
            [one for one in judgments if one.answer_key in changed],
            [one for one in after if one.answer_key in changed],
            conversations,
            only_rises=probe == FLUENT_WRONG,
            resamples=wanted.settings.resamples,
            seed=wanted.settings.seed,
        )
    record_spending(run, options.limit.prices)
    return ProbeStudy(answers=len(answers), effects=effects, not_applied=not_applied)


def _replace_answers(place: Run, changed: Mapping[AnswerKey, Answer]) -> None:
    """Puts probed answers in place; every judge's judgments of other texts that stood there before are dropped."""
    there = {answer.key: answer for answer in place.answers()}
    stale = {key for key, answer in changed.items() if key in there and there[key].text != answer.text}
    for judge in place.judges() if stale else ():
        kept = [one for one in place.judgments(judge) if one.answer_key not in stale]
        write_records(place.judgments_file(judge), kept)
    write_records(place.answers_file, {**there, **changed}.values())


def _leave_out(
    run: Run, scores: Sequence[PhysicianScore], options: JudgeOptions, wanted: LeaveOut, settings: Settings
) -> LeaveOutStudy:
    """Trains the folds, judges with each what it never saw, and compares it with the judge that saw everything."""
    questions = run.questions()
    category = {question.id: question.category for question in questions}
    group_of = {question.id: question.group for question in questions}
    values: dict[str, set[AnswerKey]] = {}
    for score in scores:
        if score.question_id in category:
            value = score.model if wanted.by == "model" else category[score.question_id]
            values.setdefault(value, set()).add(score.answer_key)
    if len(values) < 2:
        raise InputError(f"--leave-out {wanted.by}: physicians scored answers of one {wanted.by} only; two are needed")
    train, validation = (wanted.training_set / f"{name}.jsonl" for name in ("train", "validation"))
    taught = frozenset(line.question.id for file in (train, validation) for line in read_training_lines(file))
    require_unseen(JudgeRef(str(wanted.training_set), seen=taught), scores, group_of)
    # A run of its own, so that the judges of the folds are not listed among those of the run.
    place = Run(run.path / "leave-out")
    trained = train_folds(
        wanted.config,
        train,
        validation,
        wanted.by,
        sorted(values),
        place.path / "judges",
        ("--use_cpu", "true") if options.device == "cpu" else (),
    )

    def judged(folder: Path, keys: set[AnswerKey]) -> list[Judgment]:
        chosen = resolve_judge(str(folder))
        require_unseen(chosen, scores, group_of)
        return judge_answers(place, chosen, options, keys)

    with place.lock():
        place.write_questions(questions, run.scheme())
        write_records(place.answers_file, run.answers())
        seen = judged(trained.everything, set().union(*values.values()))
        unseen = {value: judged(trained.without[value], keys) for value, keys in sorted(values.items())}
    rows = leave_out_rows(wanted.by, questions, unseen, seen, scores, settings.resamples, settings.seed)
    rows = [row.model_copy(update={"removed": trained.removed.get(row.left_out or "")}) for row in rows]
    return LeaveOutStudy(by=wanted.by, config=wanted.config.name, rows=rows)
