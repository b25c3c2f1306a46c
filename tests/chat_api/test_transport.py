"""Replies of a hostile server: the API key, replies without end, impossible token counts, web pages."""

import gzip
import json
from urllib.parse import quote

import pytest
from chat_server import Act, completion

from medjudge.chat_api.client import ChatClient, ChatRequest, RequestError, Server
from medjudge.chat_api.replies import ChatReply, ReplyError, parse_reply, read_error
from medjudge.chat_api.spending import Limit, Spending
from medjudge.chat_api.transport import MOST_BYTES, without_key
from medjudge.errors import InputError

KEY = "sk-Tr9/x+2qLm-41"
REQUEST = ChatRequest([{"role": "user", "content": "How much?"}], seed=3, max_tokens=100)
QUICK = Server(first_wait=0.01, timeout=60.0, concurrency=1)
ESCAPED = "".join(f"\\u{ord(character):04x}" for character in KEY)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


def ask(url: str, times: int = 1, spending: Spending | None = None) -> list[ChatReply]:
    client = ChatClient("--judge openai:m", "m", QUICK._replace(base_url=url), spending)
    return list(client.gather([REQUEST] * times, client.ask))


def echo(text: str) -> Act:
    """A completion whose text is put into the JSON as it stands."""
    act = completion("THE TEXT")
    return act._replace(data=act.data.replace(b"THE TEXT", text.encode()))


@pytest.mark.parametrize(
    "form",
    [KEY, quote(KEY, safe=""), quote(KEY), ESCAPED, KEY.replace("/", r"\/")],
    ids=["plain", "url", "url path", "JSON escapes", "JSON slash"],
)
def test_an_echoed_key_is_replaced_in_a_reply(chat_server, form: str) -> None:
    server = chat_server(lambda _: echo(rf"C:\\u0041 \"Bearer {form}\" 他说\u4ed6\n5"))
    (reply,) = ask(server.url)
    assert reply.text == 'C:\\u0041 "Bearer [API key]" 他说他\n5'


@pytest.mark.parametrize("form", [KEY, quote(KEY), ESCAPED.upper().replace("U", "u"), KEY.replace("/", r"\\/")])
def test_an_echoed_key_is_replaced_where_a_body_is_cut_off(form: str) -> None:
    with pytest.raises(ReplyError, match=r"JSON, but '{\"echo\": \"\[API key\]'$"):
        parse_reply(f'{" " * 480}{{"echo": "{form}')
    assert str(read_error(400, f'{{"echo": "{form}', {})) == 'Error code: 400 - {"echo": "[API key]'


@pytest.mark.parametrize("word", ["none", "EMPTY", "anything", "not needed"])
def test_a_placeholder_is_not_a_secret(word: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", word)
    assert without_key(f"{word} of these") == f"{word} of these"


@pytest.mark.parametrize("headers", [{}, {"Location": "/v1/elsewhere"}, {"Content-Encoding": "gzip"}], ids=str)
def test_a_reply_without_end_is_read_up_to_the_limit_and_once(chat_server, headers: dict[str, str]) -> None:
    data = bytes(6 * MOST_BYTES)
    act = Act(gzip.compress(data, 1) if "Content-Encoding" in headers else data, 307 if "Location" in headers else 200)
    endless = {"Content-Length": str(10**12)}  # a client that reads to the end waits for ever
    server = chat_server(lambda _: act._replace(headers=headers | endless))
    with pytest.raises(RequestError, match="the server's reply exceeds 8 MB"):
        ask(server.url)
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    "counts",
    [(-1_000_000, 5), (5, -1_000_000), (10**12, 5), (True, 5), ("12", 5), (10**400, 5)],
    ids=["negative in", "negative out", "absurd", "bool", "text", "400 digits"],
)
def test_impossible_token_counts_lower_no_cost(chat_server, account, tmp_path, counts: tuple[object, object]) -> None:
    spending = Spending(account, Limit(1.0, tmp_path / "prices.yaml"))
    usage = json.dumps({"prompt_tokens": counts[0], "completion_tokens": counts[1]})
    server = chat_server(lambda _: Act(completion("yes").data[:-1] + f', "usage": {usage}}}'.encode()))
    (reply,) = ask(server.url, spending=spending)
    assert reply.text == "yes"
    assert None in (reply.tokens_in, reply.tokens_out)
    (used,) = spending.used.values()
    assert (used.known, used.tokens_out) == (False, 100)
    assert spending.spent > 0.001


def test_web_pages_in_place_of_replies_stop_the_run_early(chat_server) -> None:
    server = chat_server(lambda _: Act(b"\n <!DOCTYPE html><html><h1>Sign in</h1></html>"))
    with pytest.raises(InputError, match=r"a web page, '<!DOCTYPE html>.*check --base-url, which mostly ends in /v1$"):
        ask(server.url, times=50)
    assert len(server.asked) == 3


def test_a_web_page_between_replies_is_one_failed_attempt(chat_server) -> None:
    acts = iter([completion("one"), *[Act(b"<html>")] * 5, completion("two")])
    server = chat_server(lambda _: next(acts))
    assert [reply.text for reply in ask(server.url, times=2)] == ["one", "two"]


def test_a_redirect_is_named_and_not_followed_with_the_key(chat_server) -> None:
    elsewhere = chat_server(lambda _: completion("yes"))
    server = chat_server(lambda _: Act(b"", 308, {"Location": f"{elsewhere.url}/chat/completions"}))
    with pytest.raises(InputError, match=f"308 - it sends requests on to {elsewhere.url}.*give it as --base-url"):
        ask(server.url)
    assert (len(server.asked), len(elsewhere.asked)) == (1, 0)
