"""Errors in servers' own words: which are one chat's, which are the account's, which name a parameter, which pass."""

import itertools
import json

import pytest
from chat_server import Act, completion, failure

from medjudge.chat_api.client import ChatClient, ChatRequest, RequestError, Server
from medjudge.chat_api.replies import (
    REFUSABLE,
    ChatReply,
    ReplyError,
    ServerError,
    parse_reply,
    read_error,
    stated_error,
)
from medjudge.errors import InputError

REQUEST = ChatRequest([{"role": "user", "content": "How much?"}], seed=3, max_tokens=100, schema={"type": "object"})
QUICK = Server(first_wait=0.01, timeout=60.0, concurrency=1)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of no value")


def _body(body: object, status: int = 200, **headers: str) -> Act:
    return Act(json.dumps(body).encode(), status, headers)


def _asked(server, requests: int = 1, **fields: object) -> list[ChatReply | RequestError]:
    client = ChatClient("--judge openai:m", "m", QUICK._replace(base_url=server.url))

    async def ask(request: ChatRequest) -> ChatReply | RequestError:
        try:
            return await client.ask(request)
        except RequestError as error:
            return error

    return list(client.gather([REQUEST._replace(**fields)] * requests, ask))


def _error(status: int, message: str, **fields: object) -> tuple[int, object]:
    return status, {"error": {"message": message, **fields}}


FILTERS = {
    "Azure": _error(400, "It was filtered.", code=None, innererror={"code": "ResponsibleAIPolicyViolation"}),
    "Alibaba, natively": (400, {"code": "DataInspectionFailed", "message": "Input text data.", "request_id": "r"}),
    "DeepSeek": _error(400, "Content Exists Risk", type="invalid_request_error"),
    "Zhipu": _error(400, "系统检测到输入或生成内容可能包含不安全或敏感内容", code="1301"),
    "OpenRouter": _error(403, "Your input was flagged", code=403, metadata={"flagged_input": "my account"}),
    "xAI": (403, {"code": "The caller does not have permission", "error": "Content violates usage guidelines."}),
    "Google, in a list": (400, [{"error": {"code": 400, "message": "The prompt was blocked due to safety settings"}}]),
    "too long for it": _error(400, "prompt is too long: 200001 tokens > 199999 maximum"),
    "too large for a proxy": _error(413, "Payload Too Large"),
}


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_refuses_one_chat_and_not_the_run(name: str, chat_server) -> None:
    status, body = FILTERS[name]
    calls = itertools.count()
    server = chat_server(lambda _: _body(body, status) if next(calls) == 0 else completion("yes"))
    refused, other = _asked(server, 2)
    assert isinstance(refused, RequestError)
    assert refused.lasting
    assert str(status) in str(refused)
    assert other.text == "yes"
    assert len(server.asked) == 2


ACCOUNTS = {
    "key": _error(403, "Invalid API key"),
    "deactivated": _error(403, "Your account was deactivated because it violates our usage policy"),
    "credits": _error(402, "Insufficient credits"),
    "arrears": _error(400, "Access denied, please make sure you are in good standing", code="Arrearage"),
}


@pytest.mark.parametrize("name", ACCOUNTS)
def test_what_is_wrong_with_the_account_ends_the_run_at_once(name: str, chat_server) -> None:
    status, body = ACCOUNTS[name]
    server = chat_server(lambda _: _body(body, status))
    with pytest.raises(InputError, match=f"--judge openai:m at .* {status}"):
        _asked(server, 5)
    assert len(server.asked) == 1


def test_a_403_without_a_reason_is_not_the_account_of_a_key_that_works(chat_server) -> None:
    calls = itertools.count()
    page = Act(b"<html>403 Forbidden</html>", 403, {"Content-Type": "text/html"})
    server = chat_server(lambda _: page if next(calls) == 1 else completion("yes"))
    first, refused, third = _asked(server, 3)
    assert (first.text, third.text) == ("yes", "yes")
    assert isinstance(refused, RequestError)
    assert not refused.lasting


REJECTIONS = [
    ("temperature", "invalid temperature: only 1 is allowed for this model"),
    ("temperature", "temperature=0 is not allowed"),
    ("temperature", "Input validation error: `temperature` must be strictly positive"),
    ("temperature", "参数 temperature 不合法"),
    ("seed", "Unrecognized request argument supplied: seed"),
    ("seed", "seed is not supported by this model"),
    ("response_format", "This response_format type is unavailable now"),
    ("response_format", "Json mode is not supported for this model."),
]


@pytest.mark.parametrize(("name", "words"), REJECTIONS)
def test_a_parameter_is_left_out_once_in_whatever_words_it_is_refused(name, words, chat_server, capsys) -> None:
    server = chat_server(lambda body: failure(400, words) if name in body else completion("yes"))
    assert [reply.text for reply in _asked(server, 3)] == ["yes"] * 3
    assert len(server.asked) == 4
    assert capsys.readouterr().err.count(f"continues without {name}, which the server rejects") == 1


def test_a_parameter_is_found_where_a_server_lists_problems_or_quotes_its_provider(chat_server) -> None:
    listed = {
        "detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": {"temperature": 0}}]
    }
    raw = {"error": {"message": "Provider returned error", "code": 400, "metadata": {"raw": "unknown field `seed`"}}}
    flat = {"code": 20015, "message": "unsupported parameter seed", "data": None}
    for body, status in ((listed, 422), (raw, 400), (raw, 200), (flat, 400)):
        server = chat_server(
            lambda asked, body=body, status=status: _body(body, status) if "seed" in asked else completion("yes")
        )
        assert _asked(server)[0].text == "yes"
        assert "temperature" in server.asked[-1]


@pytest.mark.parametrize(
    ("status", "message", "named"),
    [
        (400, "the patient's temperature is 39 and the seed implants were placed", None),
        (400, "blocked: the body temperature must be measured, and max_tokens is too small", None),
        (400, "a temperature of 38 was not allowed for", None),
        (400, "Input data may contain inappropriate content about 'temperature'", None),
        (400, "max_tokens is too large: 1024. The window is 512; see max_completion_tokens", "max_tokens"),
        (400, "the maximum context length is 512 tokens, reduce max_tokens", "max_tokens"),
        (500, "response_format", "response_format"),
    ],
)
def test_a_quoted_prompt_a_window_and_a_passing_fault_reject_no_parameter(status, message, named) -> None:
    assert ServerError(status, {"error": {"message": message, "param": named}}).refused_parameter() is None


@pytest.mark.parametrize("asked", [None, False])
def test_thinking_is_switched_off_where_a_server_demands_it(asked: bool | None, chat_server, capsys) -> None:
    def act(body: dict) -> Act:
        demand = "parameter.enable_thinking must be set to false for non-streaming calls"
        return completion("yes") if body.get("enable_thinking") is False else failure(400, demand)

    server = chat_server(act)
    assert [reply.text for reply in _asked(server, 3, thinking=asked)] == ["yes"] * 3
    assert len(server.asked) == 4
    assert "continues with enable_thinking=false, as the server demands" in capsys.readouterr().err


def test_a_server_that_forbids_thinking_does_not_think_against_the_users_word(chat_server) -> None:
    demand = "parameter.enable_thinking must be set to false for non-streaming calls"
    server = chat_server(lambda _: failure(400, demand))
    (refused,) = _asked(server, thinking=True)
    assert isinstance(refused, RequestError)
    assert [body.get("enable_thinking") for body in server.asked] == [None]


def test_thinking_goes_the_other_way_where_the_template_takes_none(chat_server, capsys) -> None:
    def act(body: dict) -> Act:
        for name in ("chat_template_kwargs", "enable_thinking"):
            if name in body:
                return failure(400, f"Extra inputs are not permitted: {name}")
        return completion("yes")

    server = chat_server(act)
    assert [reply.text for reply in _asked(server, 2, thinking=False)] == ["yes"] * 2
    assert [body.get("enable_thinking") for body in server.asked] == [None, False, None, None]
    assert capsys.readouterr().err.count("continues without") == 2


@pytest.mark.parametrize(
    ("body", "part", "attempts"),
    [
        ({"choices": None, "error": {"message": "Provider returned error", "code": 429}}, "Provider returned error", 3),
        ({"error": {"message": "upstream is down", "code": 502}}, "upstream is down", 3),
        ({"error": "overloaded"}, "overloaded", 3),
        ({"error": {"message": "maximum context length is 8192 tokens", "code": 400}}, "context length", 1),
        (
            {"choices": None, "base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}},
            "new_sensitive",
            1,
        ),
        ({"object": "error", "message": "no such adapter", "code": 400}, "no such adapter", 1),
    ],
)
def test_an_error_in_a_body_counts_as_that_status_and_keeps_its_reason(body, part, attempts, chat_server) -> None:
    server = chat_server(lambda _: _body(body))
    client = ChatClient("--judge openai:m", "m", QUICK._replace(base_url=server.url, attempts=3))
    with pytest.raises(RequestError, match=part) as raised:
        list(client.gather([REQUEST], client.ask))
    assert len(server.asked) == attempts
    assert raised.value.lasting == ("context" in part or "sensitive" in part)


@pytest.mark.parametrize(
    "body",
    [
        {"error": {"message": "Insufficient credits. Add more using the credits page", "code": 402}, "user_id": "u"},
        {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}},
        {"error": {"message": "No auth credentials found", "code": 401}},
    ],
)
def test_an_account_that_is_wrong_in_a_body_ends_the_run_at_once(body, chat_server) -> None:
    server = chat_server(lambda _: _body(body))
    with pytest.raises(InputError, match=r"--judge openai:m at .*(redits|balance|credentials)"):
        _asked(server, 5)
    assert len(server.asked) == 1


def test_a_body_of_deep_nesting_is_no_traceback() -> None:
    deep = '{"error": {"message": ' + "[" * 100_000 + "]" * 100_000 + "}}"
    with pytest.raises(ReplyError):
        parse_reply(deep)
    assert read_error(400, deep, {}).status == 400
    assert stated_error([]) is None


@pytest.mark.parametrize(
    ("content", "text", "thinking"),
    [
        ([{"type": "text", "text": "yes"}], "yes", None),
        ([{"type": "text", "text": "y"}, "es", {"type": "image_url"}], "yes", None),
        ([{"type": "thinking", "thinking": [{"text": "Hm."}]}, {"type": "text", "text": "yes"}], "yes", "Hm."),
        ([{"type": "reasoning", "text": "Hm."}, {"type": "output_text", "text": "yes"}], "yes", "Hm."),
        ([{"type": "thinking", "thinking": "Hm."}], None, "Hm."),
        ([], None, None),
    ],
)  # fmt: skip
def test_the_text_of_parts_is_joined(content, text, thinking, chat_server) -> None:
    server = chat_server(lambda _: completion(content))
    (reply,) = _asked(server)
    assert (reply.text, reply.thinking) == (text, thinking)


@pytest.mark.parametrize(
    ("stated", "known"),
    [
        ("stop", "stop"),
        ("end_turn", "stop"),
        ("length", "length"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("content_filter: PROHIBITED_CONTENT", "content_filter"),
        ("SAFETY", "content_filter"),
    ],
)
def test_endings_are_known_in_the_words_of_many_servers(stated: str, known: str, chat_server) -> None:
    server = chat_server(lambda _: completion("yes", stated))
    (reply,) = _asked(server)
    assert (reply.finish_reason, reply.broke_off) == (known, False)
    assert len(server.asked) == 1


def test_a_filtered_choice_without_a_message_is_a_refusal(chat_server) -> None:
    server = chat_server(lambda _: _body({"choices": [{"finish_reason": "content_filter: SPII", "index": 0}]}))
    assert _asked(server)[0].refusal == "content filter"
    assert len(server.asked) == 1


@pytest.mark.parametrize("ending", ["network_error", "", None, 7])
def test_an_ending_that_is_not_known_to_be_complete_is_tried_again(ending, chat_server) -> None:
    calls = itertools.count()
    server = chat_server(lambda _: completion("half of", ending) if next(calls) < 2 else completion("whole"))
    assert _asked(server)[0].text == "whole"
    server = chat_server(lambda _: completion("half of", ending))
    (reply,) = _asked(server)
    assert (reply.text, reply.broke_off) == ("half of", True)
    assert len(server.asked) == 3


def test_no_error_that_passes_is_taken_for_a_refusal() -> None:
    for status in (429, 500, 503):
        error = ServerError(status, {"error": {"message": "our safety system is overloaded", "code": "moderation"}})
        assert error.passing
        assert not error.of_the_chat
    assert set(REFUSABLE) >= {"temperature", "response_format", "seed"}
