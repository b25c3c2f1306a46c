"""`medjudge eval --escalate-to`: a local judge first, an API judge for what it leaves open, people for the rest."""

import json
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from medjudge.chat_api.spending import Limit, Spending
from medjudge.errors import InputError
from medjudge.files import write_whole
from medjudge.judge.open import AnyRef, ApiRef, FolderRef, JudgeOptions, PanelRef, check_servers, resolve_judge
from medjudge.judge.panel import CascadeRecord, Stage
from medjudge.records import AnswerKey, Judgment
from medjudge.rounds import mean_probabilities, scored_rounds
from medjudge.scale import LEVELS, USABLE_FROM
from medjudge.scheme import Scheme
from medjudge.screen import say
from medjudge.statistics.conformal import Conformal, most_uncertain, usable_sets
from medjudge.store import Run, write_records
from medjudge.validation.status import measured_in_use
from medjudge.validation.study_file import read_study
from medjudge.validation.validations import conformal_of, use_in, validations
from medjudge.workflows.judge import judge_answers, use_of


class Escalation(NamedTuple):
    """Whom open answers go to, and how often the local judge may be wrong about what it settles."""

    to: str
    error_rate: float = 0.1


class Cascade(NamedTuple):
    """A local judge with the thresholds of its conformal sets, and the API judge behind it.

    Attributes:
        name: Of the cascade's judgments.
        local: The first judge.
        api: The second judge.
        conformal: Which of usable and unusable the local judge rules out.
    """

    name: str
    local: FolderRef
    api: ApiRef
    conformal: Conformal


class _Verdicts(NamedTuple):
    """The scored judgments of each answer, and the answers on which they leave usable or unusable open."""

    rounds: dict[AnswerKey, list[Judgment]]
    open: list[AnswerKey]


def open_cascade(
    judge_ref: AnyRef, escalation: Escalation, options: JudgeOptions, offline: bool, run: Run, scheme: Scheme
) -> Cascade:
    """Checks everything that a cascade needs before anything is judged.

    Args:
        run: Where the judgments will go; it need not exist.
        scheme: Of the questions.

    Raises:
        InputError: The first judge is no local one, the second none behind an API, or the first was not validated at
            this error rate.
    """
    to, rate = escalation
    if isinstance(judge_ref, PanelRef):
        raise InputError(f"--escalate-to: judge {judge_ref.name} is a panel; give a local judge as --judge")
    if not isinstance(judge_ref, FolderRef):
        raise InputError(f"--escalate-to: judge {judge_ref.name} is behind an API; give a local judge as --judge")
    api = resolve_judge(to)
    if not isinstance(api, ApiRef):
        raise InputError(f"--escalate-to {to}: is a local judge; name one behind an API, as openai:MODEL")
    if api.name == judge_ref.name:
        raise InputError(f"--escalate-to {to}: the judge folder has the same name; rename the folder")
    check_servers(api, options, offline, "--escalate-to")
    use = use_of(judge_ref, options, scheme, run, ())
    study = read_study(run, judge_ref.name)
    studies = measured_in_use([*judge_ref.card.validated_on, *([study.summary()] if study is not None else [])], use)
    conformal, any_rate = conformal_of(studies, rate), conformal_of(studies)
    if conformal is None:
        why = "there is no validation against physicians with conformal scores"
        if any_rate is not None:
            why = f"its conformal scores are for an error rate of {any_rate.error_rate:g}, not {rate:g}"
        raise InputError(
            f"--escalate-to: what judge {judge_ref.name} leaves open is unknown: {why}; run `{use.command} "
            f"--error-rate {rate:g}` first"
        )
    return Cascade(f"{judge_ref.name}+{api.name}", judge_ref, api, conformal)


def escalate(run: Run, cascade: Cascade, options: JudgeOptions) -> CascadeRecord:
    """Sends what the local judge left open to the API judge, and lists for people what stays open.

    The cascade's judgments are written under its name; the `judge` of each says who scored the answer.

    Raises:
        InputError: The run holds judgments of another judge of the API judge's name.
        UnfinishedError: A server did not answer, or the limit on costs is reached; the same call goes on.
    """
    answers = [answer for answer in run.answers() if answer.text.strip()]
    by_local = run.judgments(cascade.local.name)
    local = _open_to_local([answer.key for answer in answers], by_local, cascade.conformal)
    say(f"{len(answers) - len(local.open)} of {len(answers)} answers settled by {cascade.local.name}")
    by_api = []
    if local.open:
        by_api = judge_answers(run, cascade.api, options, set(local.open))
    api = _open_to_api(local.open, by_api)
    again = {judgment.answer_key for judgment in by_api if judgment.retryable} - api.rounds.keys()
    for_people = [key for key in api.open if key not in again]
    probabilities = {key: mean_probabilities(rounds) for key, rounds in local.rounds.items()}
    lines = [deferred_line(key, probabilities.get(key), cascade.conformal) for key in for_people]
    write_whole(run.deferred_file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))
    judgments = _together(by_local, by_api, set(local.open))
    write_records(run.judgments_file(cascade.name), judgments)
    stages = [
        Stage(
            judge=cascade.local.name,
            judged=len(answers),
            settled=len(answers) - len(local.open),
            seconds=_entry(run, cascade.local.name).get("seconds", 0.0),
            usd=0.0,
        ),
        _api_stage(run, cascade.api, len(local.open), len(local.open) - len(api.open), options.limit),
    ]
    record = CascadeRecord(
        error_rate=cascade.conformal.error_rate,
        stages=stages,
        for_people=len(for_people),
        asked_again=len(again),
        file=run.deferred_file.name,
    )
    _record(run, cascade, options, record, len(judgments))
    return record


def _open_to_local(keys: list[AnswerKey], judgments: list[Judgment], conformal: Conformal) -> _Verdicts:
    """An answer is open where its conformal set does not hold exactly one label, or where it has no probabilities."""
    rounds = scored_rounds(judgments)
    probabilities = {key: mean_probabilities(of_answer) for key, of_answer in rounds.items()}
    settled = {
        key
        for key, row in probabilities.items()
        if np.isfinite(row).all() and usable_sets(conformal, row[None]).sum() == 1
    }
    return _Verdicts(rounds, [key for key in keys if key not in settled])


def _open_to_api(keys: list[AnswerKey], judgments: list[Judgment]) -> _Verdicts:
    """An answer is open where it has no score, or where rounds differ on usable: this judge gives no probabilities."""
    rounds = scored_rounds(judgments)
    open_keys = []
    for key in keys:
        verdicts = {(judgment.score or 0) >= USABLE_FROM for judgment in rounds.get(key, ())}
        if len(verdicts) != 1:
            open_keys.append(key)
    return _Verdicts(rounds, open_keys)


def _together(by_local: list[Judgment], by_api: list[Judgment], escalated: set[AnswerKey]) -> list[Judgment]:
    """The judgments of the judge that each answer was left to."""
    return [
        *(judgment for judgment in by_local if judgment.answer_key not in escalated),
        *(judgment for judgment in by_api if judgment.answer_key in escalated),
    ]


def _api_stage(run: Run, api: ApiRef, judged: int, settled: int, limit: Limit) -> Stage:
    spent = Spending(run, Limit(None, limit.prices)).of_model(api.model)
    return Stage(
        judge=api.name,
        judged=judged,
        settled=settled,
        seconds=_entry(run, api.name).get("seconds", 0.0),
        usd=spent.usd,
        tokens_in=spent.tokens_in,
        tokens_out=spent.tokens_out,
    )


def _entry(run: Run, judge: str) -> dict[str, Any]:
    entry: dict[str, Any] = run.manifest().get("judges", {}).get(judge, {})
    return entry


def _record(run: Run, cascade: Cascade, options: JudgeOptions, record: CascadeRecord, judgments: int) -> None:
    """Writes the cascade into `run.json`, as the judge that judged last."""
    scheme = run.scheme()
    parts = [judge_ref.identity(options, scheme) for judge_ref in (cascade.local, cascade.api)]
    judges = run.manifest().get("judges", {})
    judges[cascade.name] = {
        "kind": "cascade",
        "base_model": None,
        "sha256": sha256(json.dumps([*parts, cascade.conformal.usable_threshold]).encode()).hexdigest(),
        "judgments": judgments,
        "seconds": sum(stage.seconds for stage in record.stages),
        "seen_question_ids": sorted(cascade.local.seen),
        "validated_on": [],
        "cascade": record.model_dump(mode="json"),
    }
    run.update_manifest(judges=judges, judge=cascade.name)


class Deferred(NamedTuple):
    """The number of listed answers, their file, and the way in which they were chosen."""

    answers: int
    file: Path
    by: str


def defer(run: Run, judge_ref: AnyRef, share: float) -> Deferred:
    """Lists the most uncertain answers, most informative first; unscored ones come before all others.

    Answers that physicians scored already are not listed.

    Where the judge was validated against physicians with enough conversations, answers whose conformal set does not
    hold exactly one of usable and unusable come first; then by nearness of P(usable) to one half.

    Args:
        share: Of the answers, 0 to 1.

    Raises:
        InputError: The judge gives no probabilities.
    """
    known = {score.answer_key for score in run.physician_scores()}
    rounds_of_all = scored_rounds(run.judgments(judge_ref.name))
    rounds = {key: judgments for key, judgments in rounds_of_all.items() if key not in known}
    unscored = [answer.key for answer in run.answers() if answer.key not in rounds and answer.key not in known]
    keys = list(rounds)
    probabilities = np.array([mean_probabilities(rounds[key]) for key in keys]).reshape(-1, LEVELS)
    if not np.isfinite(probabilities).all():
        raise InputError(f"--defer-to-physicians: judge {judge_ref.name} gives no probabilities; use a local judge")
    usable = probabilities[:, USABLE_FROM - 1 :].sum(axis=1)
    studies = validations(run, judge_ref.name)
    conformal = conformal_of(measured_in_use(studies, use_in(run, judge_ref.name)))
    sets = None if conformal is None else usable_sets(conformal, probabilities)
    lines = [deferred_line(key, None, conformal) for key in unscored]
    lines += [
        deferred_line(keys[position], probabilities[position], conformal)
        for position in most_uncertain(usable, 1.0, sets)
    ]
    listed = lines[: int(np.ceil(round(share * len(lines), 9)))]
    write_whole(run.deferred_file, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in listed))
    by = "by nearness of P(usable) to one half"
    if conformal is not None:
        by = f"conformal sets at error rate {conformal.error_rate:g} first, then {by}"
    elif conformal_of(studies) is not None:
        by = f"{by}; the thresholds of the conformal sets are stale: validate the judge again"
    if already := sum(answer.key in known for answer in run.answers()):
        by = f"{by}; {already} that physicians scored already are not among them"
    return Deferred(len(listed), run.deferred_file, by)


def deferred_line(key: AnswerKey, probabilities: np.ndarray | None, conformal: Conformal | None) -> dict[str, Any]:
    """A line of the list for physicians.

    Args:
        probabilities: The judge's, shape (5,); None where it gave none.
        conformal: The thresholds of its sets, if it was validated.
    """
    if probabilities is None or not np.isfinite(probabilities).all():
        return {**key._asdict(), "usable_probability": None, "not_ruled_out": None}
    labels = None
    if conformal is not None:
        inside = usable_sets(conformal, probabilities[None])[0]
        labels = [name for name, possible in zip(("unusable", "usable"), inside, strict=True) if possible]
    usable = round(float(probabilities[USABLE_FROM - 1 :].sum()), 4)
    return {**key._asdict(), "usable_probability": usable, "not_ruled_out": labels}
