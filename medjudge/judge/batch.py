"""The API judge by way of OpenAI's Batch API: half the price, within a day, without the reminder."""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import Any

from medjudge.chat_api.batches import Batches, Line, Part
from medjudge.chat_api.client import refused_parameter, request_body
from medjudge.judge.api import REFUSED, REQUEST_FAILED, judgment_request, read_judgment
from medjudge.judge.protocol import Assignment, unscored
from medjudge.records import Judgment


def custom_id(one: Assignment) -> str:
    """Names an assignment in a batch: 32 hexadecimal digits that depend on its key alone."""
    return sha256(json.dumps([*one.answer.key, one.round]).encode()).hexdigest()[:32]


def batch_requests(
    work: Sequence[Assignment], model: str, refused: Collection[str]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """(custom id, body) for each assignment, rendered one by one."""
    for one in work:
        yield custom_id(one), request_body(model, judgment_request(one), refused)


def collect(
    batches: Batches, part: Part, work: Mapping[str, Assignment], judge: str, refused: set[str]
) -> Iterator[Judgment]:
    """The judgments of a batch that is over.

    What ran out of time has none, and neither has what was refused for a parameter that it can go without: both are
    free to be asked again.

    Args:
        work: What is not judged yet, by custom id; other lines are passed over.
        judge: The judge's name.
        refused: Parameters that the server does not take; those found here are added.
    """
    left = dict(work)
    for line in batches.results(part):
        parameter = refused_parameter(line.status, line.error or "", line.parameter)
        if parameter is not None and parameter not in refused:
            refused.add(parameter)
        elif parameter is None and line.custom_id in left and (line.reply or line.error):
            yield _judgment(left.pop(line.custom_id), judge, line)


def _judgment(one: Assignment, judge: str, line: Line) -> Judgment:
    if line.reply is None:
        return unscored(one, judge, f"{REFUSED if line.lasting else REQUEST_FAILED} {line.error}")
    return read_judgment(one, judge, line.reply)
