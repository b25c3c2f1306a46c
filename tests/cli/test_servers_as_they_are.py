"""Commands against servers that refuse, think and move: what stays in the run folder, and what is sent again."""

import json

import pytest
from calls import refused_with as refused
from calls import worked
from chat_server import completion, failure

from medjudge.chat_api.transport import server_address
from medjudge.store import Run

GOOD = '{"rationale": "So.", "score": 4}'
FLAGGED = failure(403, "Your chosen model requires moderation and your input was flagged")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "of no value")


@pytest.fixture
def files(jsonl) -> list[object]:
    base = {"category": "MK", "language": "en"}
    questions = [{**base, "id": f"q{n}", "group": f"q{n}", "prompt": f"Question {n}?"} for n in range(4)]
    return ["--benchmark", jsonl("q.jsonl", *questions), "--run", "run"]


@pytest.fixture
def judging(files, jsonl) -> list[object]:
    answers = [{"question_id": f"q{n}", "model": "m", "text": f"Answer {n}."} for n in range(4)]
    return ["eval", *files, "--answers", jsonl("a.jsonl", *answers), "--judge", "openai:gpt", "--concurrency", "1"]


def test_a_flagged_answer_is_unscored_and_never_sent_again(medjudge, judging, chat_server, tmp_path) -> None:
    server = chat_server(lambda body: FLAGGED if "Answer 2." in str(body["messages"]) else completion(GOOD))
    done = medjudge(*judging, "--base-url", server.url)
    assert done.returncode == 1, done.stderr
    judgments = {one.question_id: one for one in Run(tmp_path / "run").judgments("gpt")}
    assert [judgments[f"q{n}"].score for n in range(4)] == [4, 4, None, 4]
    assert "input was flagged" in judgments["q2"].error
    asked = len(server.asked)
    assert medjudge(*judging, "--base-url", server.url).returncode == 1
    assert len(server.asked) == asked


def test_a_flagged_question_is_an_empty_answer_and_never_sent_again(medjudge, files, chat_server, tmp_path) -> None:
    server = chat_server(lambda body: FLAGGED if "2" in str(body["messages"]) else completion("Four."))
    command = ["answer", "--model", "openai:m", *files, "--samples", "1", "--base-url", server.url]
    for _ in range(2):
        worked(medjudge(*command))
        assert len(server.asked) == 4
    answers = {one.question_id: one for one in Run(tmp_path / "run").answers()}
    assert [answers[f"q{n}"].text for n in range(4)] == ["Four.", "Four.", "", "Four."]
    assert "input was flagged" in answers["q2"].finish_reason


def test_an_answer_that_broke_off_is_marked_as_cut_or_asked_again(medjudge, files, chat_server, tmp_path) -> None:
    endings = {"0": ("Half", "stop"), "1": ("Half", "max_tokens"), "2": ("Half", "error"), "3": ("", "error")}
    server = chat_server(lambda body: completion(*endings[body["messages"][0]["content"][-2]]))
    command = ["answer", "--model", "openai:m", *files, "--samples", "1", "--base-url", server.url]
    done = medjudge(*command)
    assert (done.returncode, "broke off: error" in done.stderr) == (1, True)
    endings["3"] = ("Four.", "stop")
    done = worked(medjudge(*command))
    assert "2 of them cut off" in done.stdout
    reasons = {one.question_id: one.finish_reason for one in Run(tmp_path / "run").answers()}
    assert reasons == {"q0": "stop", "q1": "length", "q2": "cut off: error", "q3": "stop"}


def test_a_model_that_thinks_by_default_gets_room_for_its_answer(medjudge, files, chat_server) -> None:
    server = chat_server(lambda body: completion("Four.") if body["max_tokens"] > 1024 else completion("", "length"))
    command = ["answer", "--model", "openai:m", *files, "--samples", "1", "--base-url", server.url]
    done = worked(medjudge(*command, "--concurrency", "1", "--thinking-tokens", "500"))
    assert "0 of them empty" in done.stdout
    assert [body["max_tokens"] for body in server.asked] == [1024, 1524, 1524, 1524, 1524]


def test_two_servers_of_one_name_do_not_mix_however_they_are_named(medjudge, judging, chat_server, tmp_path) -> None:
    first, second = chat_server(lambda _: completion(GOOD)), chat_server(lambda _: completion(GOOD))
    assert medjudge(*judging, OPENAI_BASE_URL=first.url).returncode == 0
    for option in (["--base-url", second.url], []):
        done = medjudge(*judging, *option, OPENAI_BASE_URL=second.url)
        assert done.returncode == 2
        before, now = server_address(first.url), server_address(second.url)
        mixed = f"holds judgments of gpt made with gpt at {before}, and not gpt at {now}; choose another --run"
        assert mixed in done.stderr
        assert "folder" not in done.stderr
    assert second.asked == []
    with_user = first.url.replace("http://", "http://user:hidden@")
    for url in (f"{first.url}/", first.url.replace("127.0.0.1", "localhost"), first.url.replace("http", "HTTP")):
        assert medjudge(*judging, "--base-url", url).returncode == 0
    assert medjudge(*judging, "--base-url", with_user).returncode == 0
    assert len(first.asked) == 4
    assert medjudge(*judging[:3], "--run", "other", *judging[5:], "--base-url", with_user).returncode == 0
    assert "hidden" not in (tmp_path / "other" / "run.json").read_text()
    served = Run(tmp_path / "run").manifest()["judges"]["gpt"]["served"]
    assert served == ["gpt", server_address(first.url)]


def test_one_server_has_one_address(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    assert server_address(None) is None
    assert server_address("https://api.openai.com/v1/") is None
    assert server_address("HTTPS://API.OpenAI.com:443/v1") is None
    for place in ("localhost:8000/v1", "127.0.0.1:8000/v1/", "[::1]:8000/v1", "u:p@LOCALHOST.:8000/v1?k=1"):
        assert server_address(f"http://{place}") == "http://localhost:8000/v1"
    for other in ("http://localhost:8001/v1", "https://localhost:8000/v1", "http://localhost:8000/V1"):
        assert server_address(other) == other
    assert server_address("http://[::2]:8000/v1") == "http://[::2]:8000/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8000/v1/")
    assert server_address(None) == "http://localhost:8000/v1"
    assert server_address("http://[") == "http://["


def test_thinking_of_a_judge_is_sent_and_is_part_of_it(medjudge, judging, chat_server) -> None:
    server = chat_server(lambda _: completion(GOOD))
    command = [*judging, "--base-url", server.url]
    assert medjudge(*command, "--thinking", "off").returncode == 0
    assert {body["chat_template_kwargs"]["enable_thinking"] for body in server.asked} == {False}
    refused(medjudge(*command), "thinking off, and not gpt at")
    assert medjudge(*command, "--thinking", "off").returncode == 0
    assert len(server.asked) == 4


@pytest.mark.slow
def test_empty_replies_are_sent_again_with_a_higher_limit_and_only_then(medjudge, judging, chat_server) -> None:
    server = chat_server(lambda body: completion(GOOD) if body["max_tokens"] >= 3000 else completion("", "length"))
    command = [*judging, "--base-url", server.url, "--judge-tokens"]
    for tokens, status, asked in ((1000, 1, 4), (1000, 1, 4), (2000, 1, 8), (3000, 0, 12), (4000, 0, 12)):
        assert medjudge(*command, tokens).returncode == status
        assert len(server.asked) == asked


def test_the_limit_of_a_judges_reply_is_in_the_estimate_and_for_api_judges_only(medjudge, judging) -> None:
    done = medjudge(*judging, "--judge-tokens", "500", "--dry-run", "--json")
    assert json.loads(done.stdout)["tokens_out"]["at_most"] == 4 * 500
    local = ["similarity" if word == "openai:gpt" else word for word in judging]
    refused(medjudge(*local, "--judge-tokens", "500"), "--judge-tokens: is for openai: judges, and similarity is none")
