"""Puts stations together on a run folder; what several commands share."""

import json
import sys
import time
from collections.abc import Sequence
from datetime import datetime, timezone
from hashlib import sha256
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from medjudge.chat_api.batch_jobs import read_batch_jobs
from medjudge.chat_api.client import Server
from medjudge.chat_api.spending import Limit, Spending
from medjudge.errors import InputError
from medjudge.files import file_sha256, write_json
from medjudge.judge.api import ApiJudge
from medjudge.judge.open import JudgeRef, load_judge_ref
from medjudge.judge.protocol import Assignment, Judge, assignments
from medjudge.judge.ray_judge import RayJudge
from medjudge.languages.texts import languages_of
from medjudge.models.hardware import describe
from medjudge.parallel.group import Group
from medjudge.records import Answer, AnswerKey, Judgment, Question
from medjudge.report.leaderboard import coverage, score_models
from medjudge.rubrics.render import STYLES, prompt_hashes
from medjudge.rubrics.verdict import VERDICT_SCHEMA, judge_replies
from medjudge.scheme import Scheme
from medjudge.store import Run, write_records
from medjudge.validation.status import validation_statuses
from medjudge.validation.validations import validations

_VERSIONS = ("medjudge", "torch", "transformers", "peft")


class JudgeOptions(NamedTuple):
    """How a judge is run."""

    device: str = "auto"
    rounds: int = 1
    base_url: str | None = None
    concurrency: int = 8
    rationale_tokens: int = 0
    tokens_per_minute: int | None = None
    limit: Limit = Limit()
    engine: str = "transformers"


def start_run(run: Run, questions: Sequence[Question], scheme: Scheme, benchmark: str, command: dict[str, Any]) -> None:
    """Writes the questions into a run folder, or checks that the folder holds the same ones already.

    Raises:
        InputError: The folder belongs to another benchmark.
    """
    if run.questions_file.exists():
        if run.scheme().sha256 != scheme.sha256:
            raise InputError(
                f"--run {run.path}: holds questions of another scheme, or of an earlier state of {scheme.name}; choose "
                "another --run"
            )
        if run.questions() != list(questions):
            raise InputError(
                f"--run {run.path}: holds other questions than {benchmark} (or another --limit); choose another --run"
            )
    else:
        run.write_questions(questions, scheme)
    run.update_manifest(
        id=run.manifest().get("id", uuid4().hex),
        versions={name: version(name) for name in _VERSIONS},
        command=command,
        benchmark={"source": benchmark, "questions": len(questions), "sha256": file_sha256(run.questions_file)},
        scheme=scheme.ref.model_dump(),
        prompts={style: prompt_hashes(style, scheme) for style in STYLES},
        hardware=describe(),
        updated=datetime.now(timezone.utc).isoformat(timespec="seconds"),
    )


def answers_to(
    questions: Sequence[Question], limit: int | None, answers: Sequence[Answer], source: str
) -> list[Answer]:
    """The answers that belong to the first `limit` questions of a benchmark.

    Raises:
        InputError: An answer belongs to no question of the benchmark.
    """
    known = {question.id for question in questions}
    for answer in answers:
        if answer.question_id not in known:
            raise InputError(
                f"{source}: the answer of {answer.model} to '{answer.question_id}' belongs to no question of the "
                "benchmark"
            )
    kept = {question.id for question in questions[:limit]}
    return [answer for answer in answers if answer.question_id in kept]


def take_answers(run: Run, answers: Sequence[Answer], source: str) -> None:
    """Brings existing answers into a run.

    Raises:
        InputError: An answer differs from the one that is there.
    """
    there = {answer.key: answer for answer in run.answers()}
    for answer in answers:
        if answer.key in there and there[answer.key].text != answer.text:
            raise InputError(
                f"{source}: the answer to {answer.question_id} by {answer.model} differs from the one in {run.path}; "
                "choose another --run"
            )
    if not there.keys() >= {answer.key for answer in answers}:
        merged = {**{answer.key: answer for answer in answers}, **there}
        write_records(run.answers_file, merged.values())


def judge_answers(
    run: Run,
    chosen: JudgeRef,
    options: JudgeOptions,
    only: set[AnswerKey] | None = None,
    loaded: Judge | None = None,
    group: Group = Group(),
) -> list[Judgment]:
    """Judges what is not judged yet; every judgment is on disk before the next one is made.

    Args:
        only: The answers to judge; None for all.
        loaded: The chosen judge where it is in memory already; else it is loaded if there is anything to judge.
        group: The processes that share the work, which all call this.

    Returns:
        All judgments of this judge in the run.

    Raises:
        InputError: The run holds judgments of another judge of this name, or the judge cannot be loaded.
    """
    require_same_judge(run, chosen, options)
    if chosen.api_model is not None:
        _refuse_beside_batch(run, chosen.name)
        forget_failed_requests(run, chosen.name)
    work = assignments(run.questions(), run.answers(), options.rounds, run.scheme())
    judgments = run.judgments(chosen.name)
    waiting = not_judged(work if only is None else [one for one in work if one.answer.key in only], judgments)
    if judgments and waiting and group.first:
        print(f"{len(judgments)} judgments of {chosen.name} are there; {len(waiting)} to go", file=sys.stderr)
    if waiting:
        judge = loaded or load(chosen, options, run)
        # Before the first judgment, so that a run that was killed still knows whose judgments it holds.
        if group.first:
            record_judge(run, chosen, options)
        group.wait()
        start = time.monotonic()
        # What the answers to one question share is computed once, where one process judges them all.
        mine = group.share(waiting, lambda one: one.question.id, lambda one: len(one.answer.text))
        try:
            with group.writing(run) as place:
                for judgment in judge.judge(mine):
                    place.append(place.judgments_file(chosen.name), judgment.model_dump_json())
        finally:
            refused = sorted(judge.client.refused) if isinstance(judge, ApiJudge) else []
            if group.first:
                record_judge(run, chosen, options, time.monotonic() - start, refused)
    elif group.first:
        record_judge(run, chosen, options)
    return run.judgments(chosen.name)


def load(chosen: JudgeRef, options: JudgeOptions, run: Run) -> Judge:
    """Loads a chosen judge for the scheme of a run; what an API judge costs goes to the account of the run."""
    if options.engine == "ray" and chosen.folder is not None:
        return RayJudge(chosen.folder, chosen.name, options.device, options.rationale_tokens, run.scheme())
    server = Server(options.base_url, options.concurrency, options.tokens_per_minute)
    spending = Spending(run, options.limit) if chosen.api_model is not None else None
    return load_judge_ref(chosen, options.device, server, spending, options.rationale_tokens, run.scheme())


def not_judged(work: Sequence[Assignment], judgments: Sequence[Judgment]) -> list[Assignment]:
    """The assignments that have no judgment yet."""
    done = {(judgment.answer_key, judgment.round) for judgment in judgments}
    return [one for one in work if (one.answer.key, one.round) not in done]


def _refuse_beside_batch(run: Run, judge: str) -> None:
    """What a batch is judging would be paid for twice."""
    waiting = [job.batch_id or job.name for job in read_batch_jobs(run, judge) if not job.collected]
    if waiting:
        raise InputError(
            f"{run.path}: batch {', '.join(waiting)} of {judge} is not collected yet; collect it with `medjudge eval "
            "--batch`"
        )


def forget_failed_requests(run: Run, judge: str) -> None:
    """Removes judgments whose request failed, so that their requests are sent again."""
    file = run.judgments_file(judge)
    judgments = run.judgments(judge)
    kept = [one for one in judgments if not one.retryable]
    if len(kept) < len(judgments):
        print(f"{len(judgments) - len(kept)} requests failed last time and are made again", file=sys.stderr)
        write_records(file, kept)


def identity(chosen: JudgeRef, options: JudgeOptions, scheme: Scheme) -> str:
    """The sha256 of all that decides what a judge says: its card but for its validations, and its weights.

    Args:
        scheme: Holds the rubrics that an API judge reads.
    """
    if chosen.card is not None and chosen.folder is not None:
        weights = sorted(chosen.folder.glob("*.safetensors"))
        text = chosen.card.model_dump_json(exclude={"validated_on"}) + "".join(file_sha256(one) for one in weights)
    else:
        languages = languages_of(scheme)
        reminders = {code: judge_replies(code, languages).reminder for code in scheme.languages}
        asked = [prompt_hashes("reason-first", scheme), VERDICT_SCHEMA, reminders]
        text = json.dumps([chosen.api_model, options.base_url, *asked])
    return sha256(text.encode()).hexdigest()


def require_same_judge(run: Run, chosen: JudgeRef, options: JudgeOptions) -> None:
    """Raises InputError where the run holds judgments of another judge of this name."""
    there = run.manifest().get("judges", {}).get(chosen.name)
    if there is not None and there["sha256"] != identity(chosen, options, run.scheme()):
        raise InputError(
            f"{run.path}: holds judgments of another judge named {chosen.name}; rename the judge folder or choose "
            "another --run"
        )


def record_judge(
    run: Run, chosen: JudgeRef, options: JudgeOptions, seconds: float = 0.0, refused: Sequence[str] = ()
) -> None:
    """Notes in `run.json` whose judgments these are, how many, and what an API judge cost."""
    judges = run.manifest().get("judges", {})
    before = judges.get(chosen.name, {"seconds": 0.0})
    judges[chosen.name] = {
        "kind": "api" if chosen.card is None else chosen.card.kind,
        "base_model": chosen.api_model or (chosen.card.base_model if chosen.card else None),
        "base_revision": chosen.card.base_revision if chosen.card else None,
        "sha256": identity(chosen, options, run.scheme()),
        # Counted in the file: a run that was killed has made more than it could note here.
        "judgments": len(run.judgments(chosen.name)),
        "seconds": round(before["seconds"] + seconds, 1),
        "seen_question_ids": sorted(chosen.seen),
        # A validation of files that were changed since says nothing of this judge.
        "validated_on": [
            study.model_dump(mode="json")
            for study in (chosen.card.validated_on if chosen.card else [])
            if study.judge_sha256 == identity(chosen, options, run.scheme())
        ],
    }
    if chosen.api_model is not None:
        # The same prompt goes without what its server refuses; the replies in `raw` show which form they have.
        judges[chosen.name]["refused_parameters"] = sorted({*refused, *before.get("refused_parameters", [])})
        record_spending(run, options.limit.prices)
    run.update_manifest(judges=judges, judge=chosen.name)


def record_spending(run: Run, prices: Path | None) -> None:
    """Notes in `run.json` what requests to servers took so far."""
    if run.spending_file.exists():
        run.update_manifest(spending=Spending(run, Limit(None, prices)).totals())


def write_scores(run: Run, judge: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Writes `scores.json` from a judge's judgments; returns it, and the coverage."""
    answers = run.answers()
    judgments = run.judgments(judge)
    models = list(dict.fromkeys(answer.model for answer in answers))
    statuses = validation_statuses(validations(run, judge))
    scores = {
        "judge": judge,
        "validation_status": {part: status._asdict() for part, status in statuses.items()},
        **score_models(run.questions(), judgments, models),
    }
    write_json(run.path / "scores.json", scores)
    return scores, coverage([answer.key for answer in answers], judgments)
