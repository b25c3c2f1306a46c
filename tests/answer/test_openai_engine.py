"""Answers from a server: conversations in waves, faults, restarts, costs."""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from calls import refused_with, worked
from chat_server import Act, completion, failure

from medjudge.answer.conversation import Reply, Request, answer_questions
from medjudge.answer.openai_engine import OpenAIEngine
from medjudge.chat_api.client import Server
from medjudge.errors import UnfinishedError
from medjudge.store import Run

QUICK = Server(first_wait=0.01, attempts=3, timeout=60.0, concurrency=6)


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of no value")


def _echo(body: dict) -> Act:
    return completion(f"to {body['messages'][-1]['content']}", prompt_tokens=9, completion_tokens=4)._replace(wait=0.05)


@pytest.fixture
def questions(question):
    first_turns = [question(id=f"c{n}-1", group=f"c{n}", round=1, prompt=f"first of {n}") for n in range(6)]
    return [*first_turns, *[question(id=f"c{n}-2", group=f"c{n}", round=2, prompt=f"then of {n}") for n in range(6)]]


def test_rounds_run_as_waves_and_a_later_turn_sees_the_earlier_answer(chat_server, questions) -> None:
    server = chat_server(_echo)
    engine = OpenAIEngine("m", QUICK._replace(base_url=server.url), max_new_tokens=7, temperature=0.4)
    answers = list(answer_questions(engine, questions, samples=2, seed=5))
    assert len({answer.key for answer in answers}) == 24
    assert {
        (answer.text, answer.tokens_in, answer.tokens_out) for answer in answers if answer.question_id == "c3-2"
    } == {("to then of 3", 9, 4)}
    first, second = server.asked[:12], server.asked[12:]
    assert all(len(body["messages"]) == 1 for body in first)
    assert sorted(body["messages"][1]["content"] for body in second) == sorted(
        f"to first of {n}" for n in range(6) for _ in range(2)
    )
    assert 1 < server.most_at_once <= 6
    assert {(body["max_tokens"], body["temperature"]) for body in server.asked} == {(7, 0.4)}
    seeds = [body["seed"] for body in server.asked]
    assert len(set(seeds)) == 24
    assert max(seeds) < 2**31
    again = chat_server(_echo)
    list(answer_questions(OpenAIEngine("m", QUICK._replace(base_url=again.url)), questions, samples=2, seed=5))
    assert Counter(seeds) == Counter(body["seed"] for body in again.asked)


def test_a_refusal_and_a_prompt_that_is_too_long_are_answers_with_their_reason(chat_server, question) -> None:
    replies = {
        "a": completion(None, refusal="I cannot."),
        "b": failure(400, "too long", code="context_length_exceeded"),
        "c": completion(None, "length"),
        "d": completion("half of", "length"),
    }
    server = chat_server(lambda body: replies[body["messages"][0]["content"]])
    engine = OpenAIEngine("m", QUICK._replace(base_url=server.url))
    answer_of = {
        reply.question_id: reply
        for reply in answer_questions(engine, [question(id=n, prompt=n) for n in replies], 1, 0)
    }
    assert {name: reply.text for name, reply in answer_of.items()} == {"a": "", "b": "", "c": "", "d": "half of"}
    assert answer_of["a"].finish_reason == "refused: I cannot."
    assert "too long" in answer_of["b"].finish_reason
    assert answer_of["c"].finish_reason == answer_of["d"].finish_reason == "length"


def test_no_later_turn_is_asked_without_an_answer_that_failed(chat_server, questions) -> None:
    def act(body: dict) -> Act:
        return failure(500, "down") if body["messages"][-1]["content"] == "first of 2" else _echo(body)

    server = chat_server(act)
    engine = OpenAIEngine("m", QUICK._replace(base_url=server.url))
    answers = []
    with pytest.raises(UnfinishedError, match=r"1 of 6 requests failed .*same command"):
        answers.extend(answer_questions(engine, questions, 1, 0))
    assert len(server.asked) == 5 + 3


@pytest.mark.slow
def test_answer_and_eval_with_a_model_at_a_server(medjudge, chat_server, jsonl, tmp_path: Path) -> None:
    down = {"Question 3?"}

    def act(body: dict) -> Act:
        if body["messages"][0]["role"] == "system":
            return completion('{"rationale": "So.", "score": 4}', prompt_tokens=600, completion_tokens=12)
        return failure(400, "not now") if body["messages"][-1]["content"] in down else _echo(body)

    server = chat_server(act)
    base = {"category": "MK", "language": "en"}
    lines = [{**base, "id": f"q{n}", "group": f"q{n}", "prompt": f"Question {n}?"} for n in range(5)]
    (tmp_path / "prices.yaml").write_text(
        "org/m: {input: 1, output: 2, date: 2025-01-01, source: test}\n"
        "gpt: {input: 100, output: 200, date: 2025-01-01, source: test}\n"
    )
    common = ["--benchmark", jsonl("questions.jsonl", *lines), "--run", "run", "--samples", "2"]
    common += ["--base-url", server.url, "--prices", "prices.yaml", "--offline"]  # on this machine is no network
    done = medjudge("answer", "--model", "openai:org/m", *common)
    assert done.returncode == 1
    assert "2 of 10 requests failed" in done.stderr
    run = Run(tmp_path / "run")
    assert len(run.answers()) == 8
    down.clear()
    done = medjudge("eval", "--model", "openai:org/m", "--judge", "openai:gpt", "--max-cost", "0.5", *common)
    assert done.returncode == 1, done.stderr
    assert "--max-cost 0.5" in done.stderr
    assert len(run.answers()) == 10
    assert {answer.model for answer in run.answers()} == {"org/m"}
    judgments = run.judgments("gpt")
    assert 0 < len(judgments) < 10
    asked = len(server.asked)
    done = worked(medjudge("eval", "--model", "openai:org/m", "--judge", "openai:gpt", "--max-cost", "5", *common))
    assert len(server.asked) == asked + 10 - len(judgments)
    spending = json.loads((tmp_path / "run" / "run.json").read_text())["spending"]
    assert spending["usd"] == pytest.approx((10 * (9 + 4 * 2) + 10 * (600 * 100 + 12 * 200)) / 1e6)
    elsewhere = ["https://example.org/v1" if word == server.url else word for word in common]
    refused_with(medjudge("answer", "--model", "openai:org/m", *elsewhere), "--offline forbids it")


class Recorder:
    """An engine that keeps what it is asked and answers with the number of messages."""

    name = "recorder"

    def __init__(self) -> None:
        self.waves: list[list[Request]] = []

    def answer(self, requests: Sequence[Request]) -> Iterator[tuple[int, Reply]]:
        self.waves.append(list(requests))
        for index in reversed(range(len(requests))):
            yield index, Reply(f"{requests[index].messages[-1]['content']}!", "stop", 1, 1, "Hm.")


def test_existing_answers_are_not_requested_again(question) -> None:
    questions = [question(id="b1", group="b", prompt="one"), question(id="b2", group="b", round=2, prompt="two")]
    first = list(answer_questions(Recorder(), questions, samples=2, seed=0))
    engine = Recorder()
    rest = list(answer_questions(engine, questions, samples=2, seed=0, done=first[:3], system="Be brief."))
    assert [request.key for request in rest] == [request.key for request in first[3:]]
    # A later turn sees the answer without its thought, and the system message.
    assert [answer.thinking for answer in first] == ["Hm."] * 4
    assert [each["content"] for each in engine.waves[-1][0].messages] == ["Be brief.", "one", "one!", "two"]
