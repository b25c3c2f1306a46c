"""Errors in servers' own words: which are one chat's, which are the account's, which name a parameter, which pass."""

import itertools
import json
from typing import Any

import pytest
from chat_server import Act, completion, failure

from medjudge.chat_api.client import ChatClient, ChatRequest, RequestError, Server
from medjudge.chat_api.replies import ChatReply, ReplyError, ServerError, parse_reply, read_error, stated_error
from medjudge.errors import InputError

REQUEST = ChatRequest([{"role": "user", "content": "How much?"}], seed=3, max_tokens=100, schema={"type": "object"})
QUICK = Server(first_wait=0.01, timeout=60.0, concurrency=1)


def _asked(server, requests: int = 1, **fields: object) -> list[ChatReply | RequestError]:
    client = ChatClient("--judge openai:m", "m", QUICK._replace(base_url=server.url))

    async def ask(request: ChatRequest) -> ChatReply | RequestError:
        try:
            return await client.ask(request)
        except RequestError as error:
            return error

    return list(client.gather([REQUEST._replace(**fields)] * requests, ask))


def _error(message: str, **fields: object) -> dict[str, Any]:
    return {"error": {"message": message, **fields}}


CHAT, ACCOUNT, PASSING, REQUEST_ALONE = "the chat", "the account", "passes", "this request"
STATED: list[tuple[int, Any, str]] = [
    # Azure, Alibaba, DeepSeek, Zhipu, OpenRouter, xAI, Google, Anthropic, a proxy
    (400, _error("It was filtered.", code=None, innererror={"code": "ResponsibleAIPolicyViolation"}), CHAT),
    (400, {"code": "DataInspectionFailed", "message": "Input text data.", "request_id": "r"}, CHAT),
    (400, _error("Content Exists Risk", type="invalid_request_error"), CHAT),
    (400, _error("系统检测到输入或生成内容可能包含不安全或敏感内容", code="1301"), CHAT),
    (403, _error("Your input was flagged", code=403, metadata={"flagged_input": "my account"}), CHAT),
    (403, {"code": "The caller does not have permission", "error": "Content violates usage guidelines."}, CHAT),
    (400, [{"error": {"code": 400, "message": "The prompt was blocked due to safety settings"}}], CHAT),
    (400, _error("prompt is too long: 200001 tokens > 199999 maximum"), CHAT),
    (413, _error("Payload Too Large"), CHAT),
    (403, _error("Invalid API key"), ACCOUNT),
    (403, _error("Your account was deactivated because it violates our usage policy"), ACCOUNT),
    (402, _error("Insufficient credits"), ACCOUNT),
    (400, _error("Access denied, please make sure you are in good standing", code="Arrearage"), ACCOUNT),
    (429, _error("our safety system is overloaded", code="moderation"), PASSING),
    (503, _error("our safety system is overloaded", code="moderation"), PASSING),
    (400, _error("no such adapter"), REQUEST_ALONE),
    # In the body of a reply with status 200
    (200, {"choices": None, **_error("Provider returned error", code=429)}, PASSING),
    (200, _error("upstream is down", code=502), PASSING),
    (200, {"error": "overloaded"}, PASSING),
    (200, _error("maximum context length is 8192 tokens", code=400), CHAT),
    (200, {"choices": None, "base_resp": {"status_code": 1026, "status_msg": "input new_sensitive"}}, CHAT),
    (200, {"object": "error", "message": "no such adapter", "code": 400}, REQUEST_ALONE),
    (200, {**_error("Insufficient credits. Add more using the credits page", code=402), "user_id": "u"}, ACCOUNT),
    (200, {"choices": None, "base_resp": {"status_code": 1008, "status_msg": "insufficient balance"}}, ACCOUNT),
    (200, _error("No auth credentials found", code=401), ACCOUNT),
]


@pytest.mark.parametrize(("status", "body", "about"), STATED)
def test_an_error_is_about_the_chat_the_account_or_the_request_or_it_passes(status: int, body: Any, about: str) -> None:
    error = stated_error(body) if status == 200 else read_error(status, json.dumps(body), {})
    assert error is not None
    assert error.of_the_account(known=about != ACCOUNT) == (about == ACCOUNT)
    if about != ACCOUNT:
        assert (error.passing, error.of_the_chat) == (about == PASSING, about == CHAT)
    said = body[0]["error"] if isinstance(body, list) else body.get("error") or body.get("base_resp") or body
    words = said if isinstance(said, str) else said.get("message") or said["status_msg"]
    assert words[:40] in str(error)


@pytest.mark.parametrize("status", [403, 200])
def test_what_is_wrong_with_the_account_ends_the_run_at_once(status: int, chat_server) -> None:
    server = chat_server(lambda _: Act(json.dumps(_error("Invalid API key", code=401)).encode(), status))
    with pytest.raises(InputError, match=r"--judge openai:m at .*Invalid API key"):
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


LISTED = {"detail": [{"loc": ["body", "seed"], "msg": "Extra inputs are not permitted", "input": {"temperature": 0}}]}
RAW = _error("Provider returned error", code=400, metadata={"raw": "unknown field `seed`"})
REJECTIONS: list[tuple[str | None, int, Any]] = [
    ("temperature", 400, _error("invalid temperature: only 1 is allowed for this model")),
    ("temperature", 400, _error("temperature=0 is not allowed")),
    ("temperature", 400, _error("Input validation error: `temperature` must be strictly positive")),
    ("temperature", 400, _error("参数 temperature 不合法")),
    ("seed", 400, _error("Unrecognized request argument supplied: seed")),
    ("seed", 400, _error("seed is not supported by this model")),
    ("seed", 422, LISTED),
    ("seed", 400, RAW),
    ("seed", 200, RAW),
    ("seed", 400, {"code": 20015, "message": "unsupported parameter seed", "data": None}),
    ("response_format", 400, _error("This response_format type is unavailable now")),
    ("response_format", 400, _error("Json mode is not supported for this model.")),
    # A quoted prompt, a window and a passing fault
    (None, 400, _error("the patient's temperature is 39 and the seed implants were placed")),
    (None, 400, _error("blocked: the body temperature must be measured, and max_tokens is too small")),
    (None, 400, _error("a temperature of 38 was not allowed for")),
    (None, 400, _error("Input data may contain inappropriate content about 'temperature'")),
    (None, 400, _error("max_tokens is too large: 1024; see max_completion_tokens", param="max_tokens")),
    (None, 400, _error("the maximum context length is 512 tokens, reduce max_tokens", param="max_tokens")),
    (None, 500, _error("response_format", param="response_format")),
]


@pytest.mark.parametrize(("name", "status", "body"), REJECTIONS)
def test_a_rejected_parameter_is_known_in_whatever_words(name: str | None, status: int, body: Any) -> None:
    assert ServerError(status, body).refused_parameter() == name


DEMAND = "parameter.enable_thinking must be set to false for non-streaming calls"


def test_thinking_is_switched_off_where_a_server_demands_it_and_the_user_does_not(chat_server, capsys) -> None:
    server = chat_server(
        lambda body: completion("yes") if body.get("enable_thinking") is False else failure(400, DEMAND)
    )
    assert [reply.text for reply in _asked(server, 3)] == ["yes"] * 3
    assert len(server.asked) == 4
    assert "continues with enable_thinking=false, as the server demands" in capsys.readouterr().err
    (refused,) = _asked(server, thinking=True)
    assert isinstance(refused, RequestError)
    assert len(server.asked) == 5


def test_a_switch_of_thinking_that_a_server_rejects_is_left_out(chat_server, capsys) -> None:
    def act(body: dict) -> Act:
        refused = [name for name in ("chat_template_kwargs", "enable_thinking") if name in body]
        return failure(400, f"Extra inputs are not permitted: {refused[0]}") if refused else completion("yes")

    server = chat_server(act)
    assert [reply.text for reply in _asked(server, 2, thinking=False)] == ["yes"] * 2
    assert [body.get("enable_thinking") for body in server.asked] == [False, False, None, None]
    assert capsys.readouterr().err.count("continues without") == 2


def test_a_body_of_deep_nesting_is_no_traceback() -> None:
    deep = '{"error": {"message": ' + "[" * 100_000 + "]" * 100_000 + "}}"
    with pytest.raises(ReplyError):
        parse_reply(deep)
    assert read_error(400, deep, {}).status == 400
    assert stated_error([]) is None


@pytest.mark.parametrize(
    ("content", "text", "thinking"),
    [
        ([{"type": "text", "text": "y"}, "es", {"type": "image_url"}], "yes", None),
        ([{"type": "thinking", "thinking": [{"text": "Hm."}]}, {"type": "text", "text": "yes"}], "yes", "Hm."),
        ([{"type": "reasoning", "text": "Hm."}, {"type": "output_text", "text": "yes"}], "yes", "Hm."),
        ([{"type": "thinking", "thinking": "Hm."}], None, "Hm."),
        ([], None, None),
    ],
)
def test_the_text_of_parts_is_joined(content: Any, text: str | None, thinking: str | None) -> None:
    reply = parse_reply(completion(content).data.decode())
    assert (reply.text, reply.thinking) == (text, thinking)


ENDINGS = {"stop": "stop", "end_turn": "stop", "length": "length", "max_tokens": "length", "SAFETY": "content_filter"}
ENDINGS |= {"model_context_window_exceeded": "length", "content_filter: PROHIBITED_CONTENT": "content_filter"}


@pytest.mark.parametrize("stated", ENDINGS)
def test_endings_are_known_in_the_words_of_many_servers(stated: str) -> None:
    reply = parse_reply(completion("yes", stated).data.decode())
    assert (reply.finish_reason, reply.broke_off) == (ENDINGS[stated], False)


@pytest.mark.parametrize("ending", ["network_error", "", None, 7])
def test_an_ending_that_is_not_known_to_be_complete_is_tried_again(ending: object, chat_server) -> None:
    calls = itertools.count()
    server = chat_server(lambda _: completion("half of", ending) if next(calls) < 2 else completion("whole"))
    assert _asked(server)[0].text == "whole"
    server = chat_server(lambda _: completion("half of", ending))
    (reply,) = _asked(server)
    assert (reply.text, reply.broke_off, len(server.asked)) == ("half of", True, 3)
