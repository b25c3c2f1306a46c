"""Replies that broke off, and models that think first, for all three judges behind an API."""

import json
from collections.abc import Callable

import pytest
from chat_server import Act, completion, failure

from medjudge.chat_api.client import Server
from medjudge.judge.api import ApiJudge, ReplyOptions, reply_options
from medjudge.judge.items import item_assignments
from medjudge.judge.pairs import PairAssignment
from medjudge.records import ErrorKind

VERDICTS = {
    "score": '{"rationale": "So.", "score": 4}',
    "pair": '{"rationale": "So.", "verdict": "A"}',
    "items": '{"verdicts": [{"number": 1, "reason": "r", "met": true, "certainty": 90}]}',
}
ITEMS = [{"text": "It is.", "points": 1}]
QUICK = Server(first_wait=0.01, timeout=60.0, concurrency=1)


@pytest.fixture
def judged(assignment, answer) -> Callable[..., list]:
    """Judges as often as asked, by a judge of scores, pairs or items."""

    def judge(task: str, url: str, times: int = 1, replies: ReplyOptions = ReplyOptions()) -> list:
        work = [assignment(f"Answer {number}.", id=f"q{number}", items=ITEMS) for number in range(times)]
        if task == "pair":
            other = answer(text="4", model="b")
            work = [PairAssignment(one.question, (), one.answer, other) for one in work]
        elif task == "items":
            work = item_assignments([one.question for one in work], [one.answer for one in work])
        return list(ApiJudge("gpt", QUICK._replace(base_url=url), replies=replies).judge(work))

    return judge


def _verdict(judgment) -> object:
    return next(getattr(judgment, name) for name in ("score", "preferred", "items") if hasattr(judgment, name))


@pytest.mark.parametrize("task", VERDICTS)
def test_a_verdict_in_a_reply_that_broke_off_counts_for_nothing(task, judged, chat_server) -> None:
    server = chat_server(lambda _: completion(VERDICTS[task], "error"))
    (judgment,) = judged(task, server.url)
    assert (_verdict(judgment), judgment.raw) == (None, VERDICTS[task])
    assert (judgment.error_kind, judgment.retryable) == (ErrorKind.REQUEST_FAILED, True)
    assert "broke off (error)" in judgment.error
    assert len(server.asked) == 3


@pytest.mark.parametrize("task", VERDICTS)
@pytest.mark.parametrize("ending", ["length", "max_tokens"])
def test_a_verdict_at_the_token_limit_counts_for_nothing(task, ending, judged, chat_server) -> None:
    server = chat_server(lambda _: completion(VERDICTS[task], ending))
    (judgment,) = judged(task, server.url)
    assert _verdict(judgment) is None
    assert judgment.error == "unreadable reply: cut off at the token limit, after a reminder"


@pytest.mark.parametrize(
    ("code", "message", "kind", "attempts"),
    [
        (502, "Upstream idle timeout", ErrorKind.REQUEST_FAILED, 3),
        (403, "The output was flagged", ErrorKind.REFUSED, 1),
    ],
)
def test_an_error_inside_a_choice_is_told_with_its_reason(code, message, kind, attempts, judged, chat_server) -> None:
    error = {"code": code, "message": message}
    choice = {"index": 0, "finish_reason": "stop", "message": {"content": "Score: 4"}, "error": error}
    server = chat_server(lambda _: Act(json.dumps({"choices": [choice]}).encode()))
    (judgment,) = judged("score", server.url)
    assert (judgment.score, judgment.error_kind, len(server.asked)) == (None, kind, attempts)
    assert code == 403 or message in judgment.error


def _thinks(task: str, tokens: int, text: str = "", **fields: str) -> Callable[[dict], Act]:
    """A model whose thought takes so many tokens."""

    def act(body: dict) -> Act:
        if body["max_tokens"] >= tokens:
            return completion(VERDICTS[task])
        cut = json.loads(completion(text, "length").data)
        cut["choices"][0]["message"] |= fields
        return Act(json.dumps(cut).encode())

    return act


@pytest.mark.parametrize("task", VERDICTS)
@pytest.mark.parametrize("thought", ["apart", "in the text", "with the first words"])
def test_a_judge_that_thinks_gets_more_room_once_and_then_from_the_start(task, thought, judged, chat_server, capsys):
    text = {"apart": "", "in the text": "<think>Let me see.", "with the first words": '{"ration'}[thought]
    fields = {} if thought == "in the text" else {"reasoning_content": "Let me see."}
    server = chat_server(_thinks(task, 3000, text, **fields))
    judgments = judged(task, server.url, 3)
    assert all(_verdict(judgment) is not None for judgment in judgments)
    usual = {"score": 1024, "pair": 1024, "items": 352}[task]
    assert [body["max_tokens"] for body in server.asked] == [usual, usual + 8192, usual + 8192, usual + 8192]
    assert capsys.readouterr().err.count(f"a thought took all {usual} tokens") == 1


def test_a_limit_that_the_user_sets_is_kept_and_the_message_names_it(judged, chat_server) -> None:
    server = chat_server(_thinks("score", 3000))
    (judgment,) = judged("score", server.url, replies=ReplyOptions(2000))
    assert judgment.error_kind is ErrorKind.EMPTY_REPLY
    assert "no text within the token limit; raise --judge-tokens" in judgment.error
    assert [body["max_tokens"] for body in server.asked] == [2000]
    (judgment,) = judged("score", server.url, replies=ReplyOptions(4000))
    assert judgment.score == 4
    endless = chat_server(_thinks("score", 10**6))
    (judgment,) = judged("score", endless.url)
    assert judgment.error_kind is ErrorKind.EMPTY_REPLY
    assert len(endless.asked) == 2


def test_a_window_that_has_no_more_room_keeps_the_first_reply(judged, chat_server) -> None:
    act = _thinks("score", 3000)
    too_large = failure(400, "max_tokens is too large: 9216. This model's maximum context length is 4096 tokens")
    server = chat_server(lambda body: too_large if body["max_tokens"] > 4096 else act(body))
    judgments = judged("score", server.url, 2)
    assert [judgment.error_kind for judgment in judgments] == [ErrorKind.EMPTY_REPLY] * 2
    assert [body["max_tokens"] for body in server.asked] == [1024, 9216, 1024]


@pytest.mark.parametrize("task", VERDICTS)
def test_thinking_is_switched_for_a_judge(task, judged, chat_server) -> None:
    server = chat_server(lambda _: completion(VERDICTS[task]))
    judged(task, server.url, replies=reply_options(None, "off"))
    judged(task, server.url, replies=reply_options(None, "on", 500))
    judged(task, server.url, replies=reply_options(None, "default"))
    off, on, default = server.asked
    assert off["chat_template_kwargs"] == {"enable_thinking": False}
    assert on["chat_template_kwargs"] == {"enable_thinking": True}
    assert on["max_tokens"] == default["max_tokens"] + 500
    assert "chat_template_kwargs" not in default


def test_a_verdict_that_is_only_in_the_thought_is_none(judged, chat_server) -> None:
    message = {"content": None, "reasoning_content": "It fits.\nScore: 4"}
    body = {"choices": [{"index": 0, "finish_reason": "stop", "message": message}]}
    server = chat_server(lambda _: Act(json.dumps(body).encode()))
    (judgment,) = judged("score", server.url)
    assert (judgment.score, judgment.error) == (None, "the server returned no text, only a thought")
