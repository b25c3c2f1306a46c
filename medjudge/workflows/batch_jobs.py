"""`medjudge eval --batch`: submits batch jobs to OpenAI's Batch API, and collects them when they are done.

They cost half the price; results come within a day, and no reminder follows a bad reply.
"""

import json
import time
from collections.abc import Iterator
from hashlib import sha256

import openai

from medjudge.chat_api.batch_jobs import FINISHED, BatchJob, BatchJobs
from medjudge.chat_api.client import request_body
from medjudge.chat_api.replies import ChatReply, ReplyError, ServerError, one_line
from medjudge.chat_api.spending import Spending
from medjudge.errors import InputError, UnfinishedError, notify
from medjudge.judge.api import failed_request, read_judgment
from medjudge.judge.open import ApiRef, JudgeOptions
from medjudge.judge.protocol import Assignment, assignments, split_empty
from medjudge.provenance import stamped
from medjudge.records import Judgment
from medjudge.store import Run
from medjudge.workflows.judge import not_judged, record_judge, require_same_judge, rewrite_without_failed

POLL_SECONDS = 30.0
"""Seconds between two looks of `--wait` whether a batch job is done."""


def judge_by_batch_jobs(run: Run, judge_ref: ApiRef, options: JudgeOptions, wait: bool) -> list[str]:
    """Collects the batch jobs that are done, and submits what is neither judged nor in flight.

    Args:
        wait: Returns only when everything is judged.

    Returns:
        A line for each batch job in flight; none where everything is judged.

    Raises:
        InputError: The key or the model is wrong.
        UnfinishedError: The limit on costs is reached, or the server did not answer.
    """
    judge_sha256 = require_same_judge(run, judge_ref, options)
    batch_jobs = BatchJobs(run, judge_ref.name, judge_ref.model, options.server.base_url, Spending(run, options.limit))
    file, recorded = run.judgments_file(judge_ref.name), run.judge_entry(judge_ref.name)
    refused = set(recorded.get("refused_parameters", []))
    rewrite_without_failed(run, file, run.judgments(judge_ref.name), options, recorded)
    record_judge(run, judge_ref, options, judge_sha256)
    try:
        while True:
            batch_jobs.submit()  # what an earlier start planned and did not get to
            in_flight = batch_jobs.refresh()
            _collect(run, judge_ref, options, batch_jobs, refused)
            if not batch_jobs.uncollected():
                in_flight = _submit(run, judge_ref, options, batch_jobs, refused)
            if not in_flight or not wait:
                return in_flight
            notify("; ".join(in_flight))
            time.sleep(POLL_SECONDS)
    except (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError) as error:
        raise InputError(f"--judge openai:{judge_ref.model} --batch: {one_line(error)}") from None
    except (openai.OpenAIError, ReplyError) as error:
        raise UnfinishedError(f"--batch: {one_line(error)}; everything is kept, and the same command goes on") from None
    finally:
        record_judge(run, judge_ref, options, judge_sha256, refused=sorted(refused))


def _collect(run: Run, judge_ref: ApiRef, options: JudgeOptions, batch_jobs: BatchJobs, refused: set[str]) -> None:
    for job in batch_jobs.uncollected():
        if job.status not in FINISHED:
            continue
        waiting = {_custom_id(item): item for item in _without_judgment(run, judge_ref, options)}
        made = _judgments(batch_jobs, job, waiting, judge_ref.name, refused)
        for judgment in stamped(made, run.texts()):
            run.append(run.judgments_file(judge_ref.name), judgment.model_dump_json())
        batch_jobs.mark_collected(job)


def _judgments(
    batch_jobs: BatchJobs, job: BatchJob, waiting: dict[str, Assignment], judge_name: str, refused: set[str]
) -> Iterator[Judgment]:
    """The judgments of a finished job.

    A request that ran out of time yields none, nor does one that the server refused because of an optional parameter:
    both can be sent again.

    Args:
        waiting: The assignments without a judgment, by custom id; other results are ignored.
        refused: Parameters that the server does not accept; newly refused ones are added.
    """
    for custom_id, outcome in batch_jobs.results(job):
        parameter = outcome.refused_parameter() if isinstance(outcome, ServerError) else None
        if parameter is not None and parameter not in refused:
            refused.add(parameter)
        elif parameter is None and outcome is not None and custom_id in waiting:
            item = waiting.pop(custom_id)
            if isinstance(outcome, ChatReply):
                yield read_judgment(item, judge_name, outcome)
            elif isinstance(outcome, ServerError):  # its other fields may quote the prompt
                problem = one_line(f"status {outcome.status}: {outcome.message}")
                yield failed_request(item, judge_name, problem, outcome.of_the_chat)
            else:
                yield failed_request(item, judge_name, one_line(outcome), lasting=False)


def _custom_id(assignment: Assignment) -> str:
    """The name of an assignment in a batch job: 32 hexadecimal digits that depend on its key alone."""
    return sha256(json.dumps([*assignment.answer.key, assignment.round]).encode()).hexdigest()[:32]


def _without_judgment(run: Run, judge_ref: ApiRef, options: JudgeOptions) -> list[Assignment]:
    work = assignments(run.questions(), run.answers(), options.rounds, run.scheme())
    return not_judged(work, run.judgments(judge_ref.name))


def _submit(run: Run, judge_ref: ApiRef, options: JudgeOptions, batch_jobs: BatchJobs, refused: set[str]) -> list[str]:
    work = _without_judgment(run, judge_ref, options)
    work, empty = split_empty(work, judge_ref.name)
    for judgment in stamped(empty, run.texts()):
        run.append(run.judgments_file(judge_ref.name), judgment.model_dump_json())
    if not work:
        return []
    model, applied = judge_ref.model, options.replies.applied
    requests = ((_custom_id(item), request_body(model, applied(item.request()), refused)) for item in work)
    if not batch_jobs.plan(requests):
        raise UnfinishedError(
            f"--max-cost {options.limit.max_cost:g}: {batch_jobs.spending.spent:.4f} USD are spent on {run.path} in "
            f"all, and not one of {len(work)} requests fits below; the same command with a higher --max-cost goes on "
            "from here"
        )
    batch_jobs.submit()
    return [
        f"batch {job.batch_id}: {job.requests} requests submitted, to be answered within 24 hours"
        for job in batch_jobs.uncollected()
    ]
