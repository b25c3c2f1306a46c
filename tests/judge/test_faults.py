"""A server that fails in every way, over 1,000 judgments: each is scored or says why not, and none is made twice."""

import json
import random
import re
import threading
from collections import Counter

import pytest
from chat_server import Act, completion, failure

from medjudge.chat_api.client import Server
from medjudge.judge.api import ApiJudge
from medjudge.records import ErrorKind

PATIENT = Server(concurrency=32, first_wait=0.02, timeout=8.0)  # far longer than a reply takes on a busy machine
VERDICT = json.dumps({"rationale": "It agrees with the reference.", "score": 4})
HTML = {"Content-Type": "text/html"}
PASSING = {
    "429": failure(429, "slow down"),
    "429 with Retry-After": failure(429, "slow down", {"Retry-After": "0.05"}),
    "429 with Retry-After-Ms": failure(429, "slow down", {"retry-after-ms": "30"}),
    "500": failure(500, "internal"),
    "503": failure(503, "overloaded", {"Retry-After": "0.05"}),
    "502 page": Act(b"<html><h1>502 Bad Gateway</h1></html>", 502, HTML),
    "200 page": Act(b"<html><h1>Sign in to the network</h1></html>", 200, HTML),
    "hang": completion(VERDICT)._replace(wait=9.0),
    "cut at once": Act(b"", cut=0),
    "cut half way": completion(VERDICT)._replace(cut=60),
    "half a JSON": Act(completion(VERDICT).data[:90]),
    "no choices": Act(b'{"id": "x", "object": "chat.completion", "choices": []}'),
    "null": Act(b"null"),
}
REFUSED, FAILED = ErrorKind.REFUSED, ErrorKind.REQUEST_FAILED
EMPTY_REPLY, UNREADABLE = ErrorKind.EMPTY_REPLY, ErrorKind.UNREADABLE_REPLY
LASTING = {
    "refused by the filter": (completion(None, "content_filter"), REFUSED, "the server refused: content filter"),
    "refused in words": (completion(None, refusal="I cannot help."), REFUSED, "the server refused: I cannot help"),
    "no text": (completion(None), EMPTY_REPLY, "the server returned no text"),
    "cut off": (completion("It would be 5 if", "length"), UNREADABLE, "cut off at the token limit, after a reminder"),
    "no verdict": (completion("I like it."), UNREADABLE, "no score is stated in the reply, after a reminder"),
    "a wrong level": (completion('{"rationale": "", "score": 7}'), UNREADABLE, "score is 7, not a level"),
    "400": (failure(400, "the prompt was blocked"), FAILED, "the request failed: Error code: 400"),
    "400 by the filter": (failure(400, "no", code="content_filter"), REFUSED, "the server refused: Error code: 400"),
    "always 500": (PASSING["500"], FAILED, "(8 attempts)"),
}


@pytest.mark.slow
def test_a_thousand_judgments_from_a_server_that_fails_in_every_way(chat_server, assignment, tmp_path) -> None:
    chance = random.Random(0)
    work = [assignment(f"Answer number {n}.", id=f"q{n}") for n in range(1000)]
    passing, lasting = list(PASSING), list(LASTING)
    often = [0.2 if fault == "hang" else 1.0 for fault in passing]
    # Every second answer meets one to three passing faults; one in twenty never gets a verdict.
    plan = {n: chance.choices(passing, often, k=chance.choice([0, 0, 0, 1, 2, 3])) for n in range(1000)}
    end = {n: lasting[n // 20 % len(lasting)] for n in range(0, 1000, 20)}
    met: Counter[str] = Counter()
    delivered: Counter[int] = Counter()

    def act(body: dict) -> Act:
        number = int(re.findall(r"Answer number (\d+)\.", body["messages"][1]["content"])[0])
        if plan[number]:
            fault = plan[number].pop()
            met[fault] += 1
            return PASSING[fault]
        if number in end:
            return LASTING[end[number]][0]
        delivered[number] += 1
        return completion(VERDICT)

    server = chat_server(act)
    judge = ApiJudge("gpt", PATIENT._replace(base_url=server.url))
    threads = threading.active_count()
    judgments = list(judge.judge(work))
    assert threading.active_count() < threads + 100
    assert sorted(judgment.question_id for judgment in judgments) == sorted(f"q{n}" for n in range(1000))
    for judgment in judgments:
        number = int(judgment.question_id[1:])
        if number in end:
            assert judgment.score is None
            _, kind, reason = LASTING[end[number]]
            assert (judgment.error_kind, reason in judgment.error) == (kind, True), (end[number], judgment.error)
        else:
            assert (judgment.score, judgment.rationale) == (4, "It agrees with the reference.")
    assert met.keys() == PASSING.keys()
    assert set(delivered.values()) == {1}  # no verdict that arrived was asked for again
    assert 8 < server.most_at_once <= 32
