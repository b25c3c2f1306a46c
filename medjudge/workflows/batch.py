"""What `medjudge eval --batch` does on a run folder: submit, leave, come back and collect."""

import sys
import time

import openai

from medjudge.chat_api.batch_jobs import BatchJobs
from medjudge.chat_api.client import one_line
from medjudge.chat_api.replies import ReplyError
from medjudge.chat_api.spending import Spending
from medjudge.errors import InputError, UnfinishedError
from medjudge.judge.batch_jobs import batch_requests, collect, custom_id
from medjudge.judge.open import JudgeRef
from medjudge.judge.protocol import Assignment, assignments, split_empty
from medjudge.store import Run
from medjudge.workflows.judge import JudgeOptions, forget_failed_requests, not_judged, record_judge, require_same_judge

POLL_SECONDS = 30.0
"""How often `--wait` asks."""


def judge_by_batch(run: Run, chosen: JudgeRef, options: JudgeOptions, wait: bool) -> list[str]:
    """Collects what is over, and submits what is neither judged nor under way.

    Args:
        wait: Goes on until everything is judged.

    Returns:
        A line for each batch that is under way; none where everything is judged.

    Raises:
        InputError: The key or the model is wrong.
        UnfinishedError: The limit on costs is reached, or the server did not answer.
    """
    assert chosen.api_model is not None
    require_same_judge(run, chosen, options)
    batch_jobs = BatchJobs(run, chosen.name, chosen.api_model, options.base_url, Spending(run, options.limit))
    refused = set(run.manifest().get("judges", {}).get(chosen.name, {}).get("refused_parameters", []))
    forget_failed_requests(run, chosen.name)
    record_judge(run, chosen, options)
    try:
        while True:
            batch_jobs.submit()  # what an earlier start planned and did not get to
            told = batch_jobs.refresh()
            _collect(run, chosen, options, batch_jobs, refused)
            if not batch_jobs.uncollected():
                told = _submit(run, chosen, options, batch_jobs, refused)
            if not told or not wait:
                return told
            print("; ".join(told), file=sys.stderr)
            time.sleep(POLL_SECONDS)
    except (openai.AuthenticationError, openai.PermissionDeniedError, openai.NotFoundError) as error:
        raise InputError(f"--judge openai:{chosen.api_model} --batch: {one_line(error)}") from None
    except (openai.OpenAIError, ReplyError) as error:
        raise UnfinishedError(f"--batch: {one_line(error)}; everything is kept, and the same command goes on") from None
    finally:
        record_judge(run, chosen, options, refused=sorted(refused))


def _collect(run: Run, chosen: JudgeRef, options: JudgeOptions, batch_jobs: BatchJobs, refused: set[str]) -> None:
    for job in batch_jobs.finished():
        work = _without_judgment(run, chosen, options)
        for judgment in collect(batch_jobs, job, {custom_id(one): one for one in work}, chosen.name, refused):
            run.append(run.judgments_file(chosen.name), judgment.model_dump_json())
        batch_jobs.mark_collected(job)


def _without_judgment(run: Run, chosen: JudgeRef, options: JudgeOptions) -> list[Assignment]:
    work = assignments(run.questions(), run.answers(), options.rounds, run.scheme())
    return not_judged(work, run.judgments(chosen.name))


def _submit(run: Run, chosen: JudgeRef, options: JudgeOptions, batch_jobs: BatchJobs, refused: set[str]) -> list[str]:
    assert chosen.api_model is not None
    work = _without_judgment(run, chosen, options)
    work, empty = split_empty(work, chosen.name)
    for judgment in empty:
        run.append(run.judgments_file(chosen.name), judgment.model_dump_json())
    if not work:
        return []
    if not batch_jobs.plan(batch_requests(work, chosen.api_model, refused)):
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
