"""The API judge through OpenAI's Batch API: half the price, results within a day, no reminder after a bad reply."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from medjudge.chat_api.batch_jobs import BatchJob, BatchJobs, BatchResult
from medjudge.chat_api.client import request_body
from medjudge.judge.api import ReplyOptions, failed_request, read_judgment
from medjudge.judge.protocol import Assignment
from medjudge.records import Judgment


def custom_id(assignment: Assignment) -> str:
    """Names an assignment in a batch job: 32 hexadecimal digits that depend on its key alone."""
    return sha256(json.dumps([*assignment.answer.key, assignment.round]).encode()).hexdigest()[:32]


def batch_requests(
    work: Sequence[Assignment], model: str, refused: Collection[str], replies: ReplyOptions = ReplyOptions()
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields (custom id, body) for each assignment, rendered one by one.

    Args:
        refused: Parameters that the server does not accept; they are left out.
        replies: How long the replies may be, and whether the model thinks first.
    """
    for assignment in work:
        yield custom_id(assignment), request_body(model, replies.applied(assignment.request()), refused)


def collect(
    batch_jobs: BatchJobs, job: BatchJob, work: Mapping[str, Assignment], judge_name: str, refused: set[str]
) -> Iterator[Judgment]:
    """Yields the judgments of a finished job.

    A request that ran out of time yields none, nor does one that the server refused because of an optional parameter:
    both can be sent again.

    Args:
        work: The assignments without a judgment, by custom id; other results are ignored.
        refused: Parameters that the server does not accept; newly refused ones are added.
    """
    missing = dict(work)
    for result in batch_jobs.results(job):
        parameter = result.parameter
        if parameter is not None and parameter not in refused:
            refused.add(parameter)
        elif parameter is None and result.custom_id in missing and (result.reply or result.error):
            yield _judgment(missing.pop(result.custom_id), judge_name, result)


def _judgment(assignment: Assignment, judge_name: str, result: BatchResult) -> Judgment:
    if result.reply is None:
        return failed_request(assignment, judge_name, str(result.error), result.lasting)
    return read_judgment(assignment, judge_name, result.reply)
