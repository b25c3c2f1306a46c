"""The API judge against real servers on loopback: transformers serve, and one that fails as told."""

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
import torch
from chat_server import Act, completion, failure

from medjudge.chat_api.client import Server
from medjudge.chat_api.spending import Spending
from medjudge.errors import InputError
from medjudge.judge.api import ApiJudge, ReplyOptions
from medjudge.models.loading import load_causal_lm, load_tokenizer
from medjudge.records import ErrorKind
from medjudge.store import Run

KEY = "sk-Tr9/x+2qLm-41"
ESCAPED = "".join(f"\\u{ord(character):04x}" for character in KEY)
"""A key, and how JSON may escape it."""


@pytest.fixture
def server(chat_server) -> tuple[str, list, list]:
    """A server that answers with the (status, content) pairs it is given, the last one again and again."""
    replies: list[tuple[int, str | None]] = []

    def act(_: dict) -> Act:
        status, content = replies.pop(0) if len(replies) > 1 else replies[0]
        return completion(content) if status == 200 else failure(status, str(content))

    chat = chat_server(act)
    return chat.url, replies, chat.asked


def test_the_verdict_is_read_from_the_end_of_the_reply_and_rounds_differ_by_their_seed(server, assignment) -> None:
    url, replies, asked = server
    replies.append((200, "The dose agrees with [1], which says score 5.\nScore: 4"))
    rounds = [assignment(reference="REF", round=number) for number in (1, 2)]
    judgment, again = sorted(ApiJudge("gpt", Server(url)).judge(rounds), key=lambda judgment: judgment.round)
    assert (judgment.score, judgment.expected, judgment.judge) == (4, 4.0, "gpt")
    assert (again.score, again.round) == (4, 2)
    assert {body["seed"] for body in asked} == {0, 1}
    assert judgment.rationale.startswith("The dose agrees")
    assert asked[0]["temperature"] == 0
    assert "REF" in asked[0]["messages"][1]["content"]
    assert "Score: N" in asked[0]["messages"][0]["content"]


def test_every_answer_gets_one_judgment_whatever_the_server_does(server, assignment) -> None:
    url, replies, asked = server
    replies += [(200, "Score: 5"), (200, "I cannot say."), (200, "Still not."), (200, None)]
    replies += [(400, "content filter"), (200, "得分：3")]
    work = [assignment(id=f"q{n}") for n in range(5)] + [assignment(" ", id="q5")]
    judgments = list(ApiJudge("gpt", Server(url, 1)).judge(work))
    assert sorted(judgment.question_id for judgment in judgments) == [f"q{n}" for n in range(6)]
    assert sorted(judgment.score for judgment in judgments if judgment.score) == [3, 5]
    assert len(asked) == 6  # none for the empty answer, two for the one that is asked again
    reasons = " | ".join(judgment.error for judgment in judgments if judgment.error)
    for reason in ("unreadable reply: no score", "no text", "content filter", "the answer is empty"):
        assert reason in reasons
    assert {judgment.question_id: judgment.error_kind for judgment in judgments} == {
        "q0": None,
        "q1": ErrorKind.UNREADABLE_REPLY,
        "q2": ErrorKind.EMPTY_REPLY,
        "q3": ErrorKind.REFUSED,
        "q4": None,
        "q5": ErrorKind.EMPTY_ANSWER,
    }
    raw = next(judgment for judgment in judgments if judgment.error_kind is ErrorKind.UNREADABLE_REPLY).raw
    assert raw.startswith("I cannot say.")
    assert raw.endswith("Still not.")


@pytest.fixture
def port() -> int:
    """A port on which nothing listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_a_server_that_cannot_be_reached_is_an_input_error(assignment, port: int) -> None:
    with pytest.raises(InputError, match=rf"127.0.0.1:{port}/v1/ cannot be reached .*--base-url"):
        list(ApiJudge("gpt", Server(f"http://127.0.0.1:{port}/v1")).judge([assignment(id=f"q{n}") for n in range(3)]))


def test_errors_without_a_kind_are_read_and_their_requests_sent_again(server, medjudge, jsonl, tmp_path) -> None:
    url, replies, asked = server
    replies.append((200, "Score: 5"))
    names = ("failed", "refused", "of_unknown_kind", "scored")
    question = {"category": "MK", "prompt": "?", "language": "en"}
    questions = jsonl("questions.jsonl", *[{**question, "id": name, "group": name} for name in names])
    answers = jsonl("answers.jsonl", *[{"question_id": name, "model": "m", "text": "4 g"} for name in names])
    judge = ("--judge", "openai:gpt", "--base-url", url, "--run", "run")
    command = ("eval", "--benchmark", questions, "--answers", answers, *judge)
    assert medjudge(*command).returncode == 0
    file = tmp_path / "run" / "judgments" / "gpt.jsonl"
    unscored = {"model": "m", "judge": "gpt", "score": None, "error": "any wording"}
    lines = [
        {**unscored, "question_id": "failed", "error_kind": "request_failed"},
        {**unscored, "question_id": "refused", "error_kind": "refused"},
        {**unscored, "question_id": "of_unknown_kind"},
        {"model": "m", "judge": "gpt", "question_id": "scored", "score": 2},
    ]
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    before = len(asked)
    done = medjudge(*command)
    assert done.returncode == 1, done.stderr  # the refused one stays unscored
    assert "2 requests failed last time and are sent again" in done.stderr
    assert len(asked) == before + 2
    judgments = [json.loads(line) for line in file.read_text().splitlines()]
    scores = {judgment["question_id"]: judgment["score"] for judgment in judgments}
    assert scores == {"failed": 5, "refused": None, "of_unknown_kind": 5, "scored": 2}


def test_an_echoed_key_is_in_no_judgment_account_or_message(chat_server, assignment, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    escaped = completion("THE TEXT").data.replace(b"THE TEXT", rf"It is {ESCAPED}.\nScore: 4".encode())
    replies = iter(
        [
            failure(400, f"refused, header was Bearer {KEY}"),
            completion(None)._replace(data=escaped),
            *[completion(f"Your key is {KEY}.\nScore: 4", f"stop {KEY}")] * 3,  # no known ending: asked three times
        ]
    )
    server = chat_server(lambda _: next(replies, failure(401, f"Incorrect API key provided: {KEY}")))
    run, work = Run(tmp_path), [assignment("At most 4 g.", id=f"q{number}") for number in range(4)]
    judgments = []
    with run.lock():
        judge = ApiJudge("m", Server(server.url, concurrency=1, first_wait=0.01), Spending(run))
        with pytest.raises(InputError, match=r"Incorrect API key provided: \[API key\]") as caught:
            judgments.extend(judge.judge(work))
    assert len(judgments) == 3
    texts = [*(judgment.model_dump_json() for judgment in judgments), str(caught.value), run.spending_file.read_text()]
    assert sum("[API key]" in text for text in texts) >= 4
    assert not any(KEY in text for text in texts)


@pytest.fixture
def parrot(tiny_lm: Path, tmp_path: Path) -> Path:
    """The tiny model, trained for a moment to reply "Fine.\\nScore: 4" to anything."""
    torch.manual_seed(0)
    model, tokenizer = load_causal_lm(str(tiny_lm)), load_tokenizer(str(tiny_lm))
    reply = tokenizer("<|im_start|>assistant\nFine.\nScore: 4<|im_end|>", add_special_tokens=False)["input_ids"]
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    for _ in range(150):
        before = torch.randint(3, len(tokenizer), (8, int(torch.randint(4, 60, ()))))
        ids = torch.cat([before, torch.tensor(reply).repeat(8, 1)], dim=1)
        labels = ids.clone()
        labels[:, : before.shape[1] + 3] = -100
        model(ids, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    for each in (model, tokenizer):
        each.save_pretrained(tmp_path / "parrot")
    return tmp_path / "parrot"


@pytest.mark.slow
def test_a_real_openai_compatible_server(parrot: Path, assignment, port: int) -> None:
    command = [str(Path(sys.executable).parent / "transformers"), "serve", "--host", "127.0.0.1", "--port", str(port)]
    process = subprocess.Popen(
        [*command, "--device", "cpu"], env=os.environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        for _ in range(120):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2)
                break
            except OSError:
                assert process.poll() is None, process.stdout.read().decode()
                time.sleep(0.5)
        judge = ApiJudge(str(parrot), Server(f"http://127.0.0.1:{port}/v1", 2), replies=ReplyOptions(24))
        judgments = list(judge.judge([assignment(id=f"q{n}") for n in range(4)]))
        assert [judgment.score for judgment in judgments] == [4, 4, 4, 4], [judgment.error for judgment in judgments]
        assert "/" not in judge.name
    finally:
        process.terminate()
        process.wait(20)
