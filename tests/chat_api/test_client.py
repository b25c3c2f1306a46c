"""The client beyond one request: limits, pauses, parameters that a server refuses, bounded work."""

import asyncio
import contextlib
import itertools
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from email.utils import format_datetime

import pytest
from chat_server import Act, ChatServer, completion, failure

from medjudge.chat_api.client import ChatClient, ChatRequest, RequestError, Server, body_bytes
from medjudge.chat_api.replies import retry_after
from medjudge.chat_api.spending import Limit, Pace, Spending, Used
from medjudge.errors import InputError, UnfinishedError

SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
REQUEST = ChatRequest([{"role": "user", "content": "How much?"}], seed=3, max_tokens=100, schema=SCHEMA)
QUICK = Server(first_wait=0.01, timeout=60.0, concurrency=4)
WINDOW = 0.1
"""Seconds in which the tokens of a pace are counted."""


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses of a client in seconds; those that were cut short are negative."""
    pauses, real = [], asyncio.sleep

    async def sleep(seconds: float) -> None:
        try:
            await real(seconds)
        except asyncio.CancelledError:
            pauses.append(-seconds)
            raise
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", sleep)
    return pauses


def _asked(server: ChatServer, times: int, **options: object) -> list[str | None]:
    client = ChatClient("--judge openai:m", "m", QUICK._replace(base_url=server.url, **options))
    return [reply.text for reply in client.gather([REQUEST] * times, client.ask)]


@pytest.mark.slow
def test_work_is_taken_as_it_is_needed_and_so_many_at_once(chat_server) -> None:
    server = chat_server(lambda _: completion("yes")._replace(wait=0.02))
    taken = itertools.count()

    def work() -> Iterator[ChatRequest]:
        for _ in range(200):
            next(taken)
            yield REQUEST

    client = ChatClient("--judge openai:m", "m", QUICK._replace(base_url=server.url))
    replies = client.gather(work(), client.ask)
    next(replies)
    assert next(taken) <= 5  # of 26,013 assignments four are in memory as requests
    assert len(list(replies)) == 199
    assert server.most_at_once <= 4


def test_a_refused_parameter_is_left_out_from_then_on(chat_server, capsys) -> None:
    def act(body: dict) -> Act:
        if "response_format" in body:
            return failure(400, "Invalid parameter: 'response_format' of type 'json_schema' is not supported")
        if "max_tokens" in body:
            message = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
            return failure(400, message, param="max_tokens", code="unsupported_parameter")
        if "temperature" in body:
            return failure(400, "Unsupported value", param="temperature")
        return completion("yes")

    server = chat_server(act)
    assert _asked(server, 30, concurrency=1) == ["yes"] * 30
    assert len(server.asked) == 33
    assert server.asked[-1].keys() == {"model", "messages", "seed", "max_completion_tokens"}
    assert server.asked[-1]["max_completion_tokens"] == 100
    assert capsys.readouterr().err.count("continues without") == 3


def test_retry_after_is_read_in_all_its_forms() -> None:
    soon = format_datetime(datetime.now(timezone.utc) + timedelta(seconds=30), usegmt=True)
    past = format_datetime(datetime.now(timezone.utc) - timedelta(seconds=30), usegmt=True)
    assert retry_after("1500", "9") == 1.5
    assert retry_after(None, "9") == 9.0
    assert 28 <= (retry_after(None, soon) or 0) <= 30
    for nothing in (None, "", "0", "-1", "nan", "soon", past):
        assert retry_after(None, nothing) is None


def test_a_requested_pause_applies_to_all_requests(chat_server, pauses) -> None:
    pauses_before: list[int] = []

    def act(_: dict) -> Act:
        pauses_before.append(sum(seconds > 0.5 for seconds in pauses))
        return failure(429, "slow down", {"Retry-After": "0.6"}) if len(pauses_before) == 1 else completion("yes")

    server = chat_server(act)
    assert _asked(server, 10, concurrency=1) == ["yes"] * 10
    assert pauses_before == [0] + [1] * 10


def test_a_long_pause_and_a_quota_that_is_used_up_stop_the_run(chat_server) -> None:
    server = chat_server(lambda _: failure(429, "day's limit", {"Retry-After": "8640"}))
    with pytest.raises(UnfinishedError, match=r"asks to wait 8640 s .*same command"):
        _asked(server, 10)
    server = chat_server(lambda _: failure(429, "You exceeded your quota", code="insufficient_quota"))
    with pytest.raises(InputError, match="exceeded your quota"):
        _asked(server, 10)
    assert len(server.asked) <= 4


def test_requests_in_flight_are_kept_when_another_request_stops_the_run(chat_server) -> None:
    calls = itertools.count()

    def act(_: dict) -> Act:
        if next(calls) == 5:
            return failure(401, "the key was withdrawn")
        return completion("yes")._replace(wait=0.3)

    server = chat_server(act)
    client = ChatClient("--judge openai:m", "m", QUICK._replace(base_url=server.url))
    kept = []
    with pytest.raises(InputError, match="withdrawn"):
        kept.extend(client.gather([REQUEST] * 50, client.ask))
    assert len(kept) == len(server.asked) - 1 < 11  # those before, and those that were under way with it


def test_a_stop_does_not_wait_for_requests_that_wait(chat_server, pauses) -> None:
    calls = itertools.count()

    def act(_: dict) -> Act:
        call = next(calls)
        if call < 3:  # one is told to wait before the stop, the others after it
            return failure(429, "slow down", {"Retry-After": "500"})._replace(wait=2.0 * (call > 0))
        return failure(401, "the key was withdrawn")._replace(wait=0.3)

    server = chat_server(act)
    with pytest.raises(InputError, match="withdrawn"):
        _asked(server, 10)
    assert min(pauses) == pytest.approx(-500, abs=10)
    assert max(pauses) < 10


@pytest.mark.parametrize(
    ("act", "reason", "attempts"),
    [
        (failure(503, "down"), "503", 2),
        (failure(400, "no such adapter"), "no such adapter", 1),
        (completion("half of", "odd"), "broke off: odd", 2),
    ],
    ids=["it is gone", "it refuses all", "its replies break off"],
)
def test_a_server_that_fails_throughout_ends_the_run_and_not_every_request_of_it(
    chat_server, act: Act, reason: str, attempts: int
) -> None:
    calls = itertools.count()
    server = chat_server(lambda _: completion("yes") if next(calls) == 0 else act)
    client = ChatClient("--judge openai:m", "m", QUICK._replace(base_url=server.url, attempts=2, concurrency=1))

    async def ask(request: ChatRequest) -> None:
        with contextlib.suppress(RequestError):
            await client.ask(request)

    with pytest.raises(UnfinishedError, match=rf"the last 11 requests all failed .*{reason}"):
        list(client.gather([REQUEST] * 500, ask))
    assert len(server.asked) == 1 + 11 * attempts


def test_a_limit_on_costs_is_never_passed_across_restarts_and_faults(chat_server, account, tmp_path) -> None:
    """The server bills what it answers, whether the answer arrives or not."""
    billed = 0.0
    calls = itertools.count()

    def act(body: dict) -> Act:
        nonlocal billed
        tokens_in, kind = body_bytes(body) // 3, next(calls) % 7
        if kind == 3:
            return failure(500, "internal")
        billed += (tokens_in * 1.0 + 90 * 10.0) / 1e6
        answer = completion("yes", prompt_tokens=tokens_in, completion_tokens=90)._replace(wait=0.01)
        return answer._replace(cut=30) if kind == 5 else answer

    server = chat_server(act)
    place = QUICK._replace(base_url=server.url)
    for limit in (0.02, 0.02, 0.05):
        spending = Spending(account, Limit(limit, tmp_path / "prices.yaml"))
        client = ChatClient("--judge openai:m", "m", place, spending)
        before = len(server.asked)
        with pytest.raises(UnfinishedError, match=rf"--max-cost {limit:g}: .* has cost .* USD .*higher --max-cost"):
            list(client.gather([REQUEST] * 500, client.ask))
        assert billed <= spending.spent + 1e-9 <= limit + 1e-9
        assert spending.spent > limit - 0.0025  # less than two requests are left over
        if limit == 0.05:
            assert len(server.asked) > before + 10
    # The second start had nothing left to spend.
    totals = Spending(account, Limit(None, tmp_path / "prices.yaml")).totals()
    assert totals["usd"] == pytest.approx(spending.spent)
    assert totals["models"]["m"]["unknown_at_most"] > 0


def test_a_request_in_flight_at_a_kill_counts_with_its_maximum(account, tmp_path) -> None:
    spending = Spending(account, Limit(1.0, tmp_path / "prices.yaml"))
    spending.end(spending.begin(Used("m", 1000, 100, known=False)), (250, 20))
    spending.begin(Used("m", 1000, 100, known=False))
    again = Spending(account, Limit(1.0, tmp_path / "prices.yaml"))
    assert again.spent == pytest.approx((250 + 200 + 1000 + 1000) / 1e6)
    assert again.begin(Used("m", 1, 1, known=False)) not in ("0", "1")


def test_tokens_a_minute_count_every_attempt(chat_server, monkeypatch) -> None:
    calls = itertools.count()

    def act(body: dict) -> Act:
        return failure(429, "slow") if next(calls) % 2 else completion("yes", prompt_tokens=50, completion_tokens=50)

    server = chat_server(act)
    # One request may meet the failures again and again: the attempts of 30 requests reach the server in any order.
    lasting = QUICK._replace(base_url=server.url, tokens_per_minute=2000, attempts=60)
    client = ChatClient("--judge openai:m", "m", lasting)
    client.pace.seconds = 0.25
    entries, take = [], client.pace.take

    async def logged(tokens: int) -> list[float]:
        entries.append(await take(tokens))
        return entries[-1]

    monkeypatch.setattr(client.pace, "take", logged)
    assert len(list(client.gather([REQUEST] * 30, client.ask))) == 30
    # An attempt that was refused keeps its estimate, of about 300 tokens; a reply took 100.
    tokens = sorted(tokens for _, tokens in entries)
    assert len(tokens) == 60 - next(calls) % 2
    assert tokens[:30] == [100] * 30
    assert min(tokens[30:]) > 100


def test_no_window_holds_more_than_the_limit_and_the_limit_is_used() -> None:
    async def sent(pace: Pace) -> list[tuple[float, int]]:
        async def request(tokens: int) -> tuple[float, int]:
            when, _ = await pace.take(tokens)
            return when, tokens

        return await asyncio.gather(*[request(tokens) for tokens in [30, 40, 50] * 6])

    log = asyncio.run(sent(Pace(200, WINDOW)))
    for start, _ in log:
        assert sum(tokens for when, tokens in log if start <= when < start + WINDOW) <= 200
    # 720 tokens need four windows, and not one for each request.
    times = sorted(when for when, _ in log)
    assert 3 * WINDOW <= times[-1] - times[0] < 15 * WINDOW


def test_a_true_number_below_the_estimate_frees_room_and_a_giant_goes_alone() -> None:
    async def times() -> list[float]:
        pace = Pace(100, WINDOW)
        entry = await pace.take(90)
        entry[1] = 20
        return [entry[0], *[(await pace.take(tokens))[0] for tokens in (80, 500)]]

    start, at_once, later = asyncio.run(times())
    assert at_once - start < WINDOW <= later - start
