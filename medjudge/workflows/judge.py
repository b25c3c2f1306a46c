"""The judge station: judges the answers of a run folder with a judge, and records whose judgments these are."""

import json
import sys
import time
from collections.abc import Sequence
from hashlib import sha256
from typing import NamedTuple

from medjudge.chat_api.batch_jobs import read_batch_jobs
from medjudge.chat_api.client import Server
from medjudge.chat_api.spending import Limit, Spending
from medjudge.errors import InputError
from medjudge.judge.api import ApiJudge
from medjudge.judge.identity import folder_identity
from medjudge.judge.open import JudgeRef, load_judge_ref
from medjudge.judge.protocol import Assignment, Judge, assignments
from medjudge.judge.ray_judge import RayJudge
from medjudge.languages.texts import languages_of
from medjudge.parallel.group import Group
from medjudge.records import AnswerKey, Judgment
from medjudge.rubrics.render import prompt_hashes
from medjudge.rubrics.verdict import VERDICT_SCHEMA, judge_replies
from medjudge.scheme import Scheme
from medjudge.store import Run, write_records
from medjudge.validation.status import validation_status
from medjudge.workflows.run_folder import record_spending


class JudgeOptions(NamedTuple):
    """How a judge is run.

    Attributes:
        device: `auto`, `cpu` or `cuda`.
        engine: `transformers`, or `ray` for a local judge on the workers of a Ray cluster.
        rounds: How often each answer is judged.
        rationale_tokens: Tokens of rationale from a generative judge; 0 for none.
        server: Where an `openai:` judge is, and how patiently it is asked.
        limit: What the run may cost.
    """

    device: str = "auto"
    engine: str = "transformers"
    rounds: int = 1
    rationale_tokens: int = 0
    server: Server = Server()
    limit: Limit = Limit()


def judge_answers(
    run: Run,
    judge_ref: JudgeRef,
    options: JudgeOptions,
    only: set[AnswerKey] | None = None,
    loaded: Judge | None = None,
    group: Group = Group(),
) -> list[Judgment]:
    """Judges what is not judged yet; every judgment is on disk before the next one is made.

    Args:
        only: The answers to judge; None for all.
        loaded: The judge where it is in memory already; else it is loaded if there is anything to judge.
        group: The processes that share the work, which all call this.

    Returns:
        All judgments of this judge in the run.

    Raises:
        InputError: The run holds judgments of another judge of this name, or the judge cannot be loaded.
    """
    require_same_judge(run, judge_ref, options)
    if judge_ref.api_model is not None:
        _refuse_beside_batch_job(run, judge_ref.name)
        forget_failed_requests(run, judge_ref.name)
    work = assignments(run.questions(), run.answers(), options.rounds, run.scheme())
    judgments = run.judgments(judge_ref.name)
    waiting = not_judged(
        work if only is None else [assignment for assignment in work if assignment.answer.key in only], judgments
    )
    if judgments and waiting and group.first:
        print(f"{len(judgments)} judgments of {judge_ref.name} exist; {len(waiting)} to go", file=sys.stderr)
    if waiting:
        judge = loaded or load(judge_ref, options, run)
        # Before the first judgment, so that a run that was killed still knows whose judgments it holds.
        if group.first:
            record_judge(run, judge_ref, options)
        group.wait()
        start = time.monotonic()
        # What the answers to one question share is computed once, where one process judges them all.
        own_work = group.share(waiting, lambda item: item.question.id, lambda item: len(item.answer.text))
        try:
            with group.writing(run) as part:
                for judgment in judge.judge(own_work):
                    part.append(part.judgments_file(judge_ref.name), judgment.model_dump_json())
        finally:
            refused = sorted(judge.client.refused) if isinstance(judge, ApiJudge) else []
            if group.first:
                record_judge(run, judge_ref, options, time.monotonic() - start, refused)
    elif group.first:
        record_judge(run, judge_ref, options)
    return run.judgments(judge_ref.name)


def load(judge_ref: JudgeRef, options: JudgeOptions, run: Run) -> Judge:
    """Loads a judge for the scheme of a run; what an API judge costs goes to the account of the run."""
    if options.engine == "ray" and judge_ref.folder is not None:
        return RayJudge(judge_ref.folder, judge_ref.name, options.device, options.rationale_tokens, run.scheme())
    spending = Spending(run, options.limit) if judge_ref.api_model is not None else None
    return load_judge_ref(judge_ref, options.device, options.server, spending, options.rationale_tokens, run.scheme())


def not_judged(work: Sequence[Assignment], judgments: Sequence[Judgment]) -> list[Assignment]:
    """The assignments that have no judgment yet."""
    done = {(judgment.answer_key, judgment.round) for judgment in judgments}
    return [item for item in work if (item.answer.key, item.round) not in done]


def _refuse_beside_batch_job(run: Run, judge: str) -> None:
    """Refuses to judge what a batch job is judging: it would be paid for twice."""
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
    remaining = [judgment for judgment in judgments if not judgment.retryable]
    if len(remaining) < len(judgments):
        print(f"{len(judgments) - len(remaining)} requests failed last time and are sent again", file=sys.stderr)
        write_records(file, remaining)


def identity(judge_ref: JudgeRef, options: JudgeOptions, scheme: Scheme) -> str:
    """The sha256 of everything that changes a judge's scores.

    Args:
        scheme: Holds the rubrics that an API judge reads.

    Raises:
        InputError: The base model of a judge folder cannot be found.
    """
    if judge_ref.card is not None and judge_ref.folder is not None:
        return folder_identity(judge_ref.folder, judge_ref.card)
    languages = languages_of(scheme)
    reminders = {code: judge_replies(code, languages).reminder for code in scheme.languages}
    prompts = [prompt_hashes("reason-first", scheme), VERDICT_SCHEMA, reminders]
    return sha256(json.dumps([judge_ref.api_model, options.server.base_url, *prompts]).encode()).hexdigest()


def introduction(judge_ref: JudgeRef, options: JudgeOptions, scheme: Scheme) -> str:
    """One line: a judge's name, what it was trained on, and its validation status for the questions of a scheme.

    Raises:
        InputError: As for `identity`.
    """
    card = judge_ref.card
    if card is None:
        return f"judge {judge_ref.name}: {judge_ref.api_model} behind an API; what it was trained on is unknown"
    sha256_now = identity(judge_ref, options, scheme)
    studies = [study for study in card.validated_on if study.judge_sha256 == sha256_now]
    status = validation_status(studies, scheme=scheme.name).line
    questions = card.training.get("questions", len(card.trained_on.question_ids))
    answers = f"{card.training['answers']} answers to " if "answers" in card.training else ""
    return (
        f"judge {judge_ref.name} ({judge_ref.folder}): {card.kind}, on {card.base_model}, trained on "
        f"{answers}{questions} questions; {status}"
    )


def require_same_judge(run: Run, judge_ref: JudgeRef, options: JudgeOptions) -> None:
    """Raises InputError where the run holds judgments of another judge of this name."""
    recorded = run.manifest().get("judges", {}).get(judge_ref.name)
    if recorded is not None and recorded.get("sha256") != identity(judge_ref, options, run.scheme()):
        raise InputError(
            f"{run.path}: holds judgments of another judge named {judge_ref.name}; rename the judge folder or choose "
            "another --run"
        )


def record_judge(
    run: Run, judge_ref: JudgeRef, options: JudgeOptions, seconds: float = 0.0, refused: Sequence[str] = ()
) -> None:
    """Writes into `run.json` whose judgments these are, how many, and what an API judge cost."""
    judges = run.manifest().get("judges", {})
    judge_sha256 = identity(judge_ref, options, run.scheme())
    before = judges.get(judge_ref.name, {"seconds": 0.0})
    judges[judge_ref.name] = {
        "kind": "api" if judge_ref.card is None else judge_ref.card.kind,
        "base_model": judge_ref.api_model or (judge_ref.card.base_model if judge_ref.card else None),
        "base_revision": judge_ref.card.base_revision if judge_ref.card else None,
        "sha256": judge_sha256,
        # Counted in the file: a run that was killed has made more than it could note here.
        "judgments": len(run.judgments(judge_ref.name)),
        "seconds": round(before.get("seconds", 0.0) + seconds, 1),
        "seen_question_ids": sorted(judge_ref.seen),
        # A validation of files that were changed since says nothing of this judge.
        "validated_on": [
            study.model_dump(mode="json")
            for study in (judge_ref.card.validated_on if judge_ref.card else [])
            if study.judge_sha256 == judge_sha256
        ],
    }
    if judge_ref.api_model is not None:
        # The same prompt goes without what its server refuses; the replies in `raw` show which form they have.
        judges[judge_ref.name]["refused_parameters"] = sorted({*refused, *before.get("refused_parameters", [])})
        record_spending(run, options.limit.prices)
    run.update_manifest(judges=judges, judge=judge_ref.name)
