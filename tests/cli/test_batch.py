"""`medjudge eval --batch`: submit, leave, come back and collect, against files and batches on loopback."""

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from batch_server import BatchServer
from calls import refused_with as refused
from calls import worked
from chat_server import completion

from medjudge.store import Run

QUESTIONS = [
    {"id": f"q{n}", "category": "MK", "group": f"q{n}", "prompt": f"Question {n}?", "language": "en"} for n in range(8)
]
ANSWERS = [
    {"question_id": question["id"], "model": "m", "text": f"Answer {n}."} for n, question in enumerate(QUESTIONS)
]
MODEL = "gpt-4o"


@pytest.fixture
def server() -> Iterator[BatchServer]:
    server = BatchServer()
    yield server
    server.close()


@pytest.fixture
def eval_batch(medjudge, jsonl, server, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    monkeypatch.setenv("OPENAI_API_KEY", "of no value")
    command = ["eval", "--benchmark", jsonl("questions.jsonl", *QUESTIONS), "--answers", jsonl("a.jsonl", *ANSWERS)]
    command += ["--judge", f"openai:{MODEL}", "--base-url", server.url, "--run", "run"]
    return lambda *options: medjudge(*command, *options)


def _number(body: dict) -> int:
    return int(body["messages"][1]["content"].split("Answer ")[-1].split(".")[0])


def _reply(text: str | None, refusal: str | None = None) -> dict:
    return {"body": json.loads(completion(text, refusal=refusal, prompt_tokens=700, completion_tokens=40).data)}


def _score(body: dict) -> dict:
    return _reply(json.dumps({"rationale": "So.", "score": _number(body) % 5 + 1}))


def _judgments(tmp_path: Path) -> dict[str, dict]:
    lines = [json.loads(line) for line in Run(tmp_path / "run").judgments_file(MODEL).read_text().splitlines()]
    assert len(lines) == len({line["question_id"] for line in lines})
    return {line["question_id"]: line for line in lines}


def test_submit_leave_collect_and_ask_again_only_what_ran_out_of_time(eval_batch, server, tmp_path) -> None:
    done = worked(eval_batch("--batch"))
    assert "batch_0: 8 requests submitted" in done.stdout
    assert {body["body"]["response_format"]["type"] for body in server.requests("batch_0")} == {"json_schema"}
    server.batches["batch_0"]["status"] = "in_progress"
    done = eval_batch("--batch", "--json")
    assert json.loads(done.stdout)["under_way"] == ["batch batch_0: in_progress, 0 of 8 done"]
    # A judgment that a batch may bring is not made on the side.
    refused(eval_batch(), "batch_0 of gpt-4o is not collected yet")

    odd = {
        1: None,
        2: {"status": 400, "body": {"error": {"message": "blocked", "input": "Answer 2."}}},
        3: _reply("No idea."),
        4: _reply(None, refusal="No."),
        5: {"body": {"choices": []}},
        6: {"status": 400, "body": {"error": {"message": "filtered", "code": "content_filter"}}},
    }
    server.finish("batch_0", lambda body: odd.get(_number(body), _score(body)))
    done = worked(eval_batch("--batch"))
    assert "batch_1: 1 requests submitted" in done.stdout
    judgments = _judgments(tmp_path)
    assert {name: (judgment["score"], judgment["error_kind"]) for name, judgment in judgments.items()} == {
        "q0": (1, None),
        "q2": (None, "request_failed"),
        "q3": (None, "unreadable_reply"),
        "q4": (None, "refused"),
        "q5": (None, "request_failed"),
        "q6": (None, "refused"),
        "q7": (3, None),
    }
    said = (
        "the request failed: status 400: blocked",
        "unreadable reply",
        "the server refused: No.",
        "no choice",
        "the server refused: status 400: filtered",
    )
    for name, words in zip(("q2", "q3", "q4", "q5", "q6"), said, strict=True):
        assert words in judgments[name]["error"]
    assert judgments["q3"]["raw"] == "No idea."
    assert [_number(line["body"]) for line in server.requests("batch_1")] == [1]

    # What failed as a request is asked again once the next batch is submitted; what was judged is not.
    server.finish("batch_1", _score)
    done = eval_batch("--batch")
    assert "batch_2: 2 requests submitted" in done.stdout, done.stdout + done.stderr
    assert sorted(_number(line["body"]) for line in server.requests("batch_2")) == [2, 5]
    server.finish("batch_2", _score)
    done = eval_batch("--batch")
    assert done.returncode == 1  # three stay unscored
    assert len(server.batches) == 3
    judgments = _judgments(tmp_path)
    assert len(judgments) == 8
    assert sum(judgment["score"] is None for judgment in judgments.values()) == 3
    spending = json.loads((tmp_path / "run" / "run.json").read_text())["spending"]
    assert spending["models"][MODEL]["tokens_in"] == 7 * 700  # of 11, four gave no usage
    assert spending["usd"] == pytest.approx(7 * (700 * 2.5 + 40 * 10) / 1e6 / 2)
    assert (tmp_path / "run" / "scores.json").exists()


def test_a_batch_that_was_made_but_not_noted_is_found_and_not_made_twice(eval_batch, server, tmp_path) -> None:
    for other in range(3):  # batches of somebody else, two pages of them
        server.batches[f"other_{other}"] = {"id": f"other_{other}", "metadata": None, "object": "batch"}
    server.lose_next_reply = True
    done = eval_batch("--batch")
    assert done.returncode == 1
    assert "first checks whether the server has it, then tries again" in done.stderr
    assert len(server.batches) == 4
    server.batches["later"] = {"id": "later", "metadata": {"medjudge_run": "another"}, "object": "batch"}
    done = worked(eval_batch("--batch"))
    assert len(server.batches) == 5
    server.finish("batch_3", _score)
    assert eval_batch("--batch").returncode == 0
    assert len(_judgments(tmp_path)) == 8


def test_a_kill_while_results_are_written_loses_and_doubles_nothing(eval_batch, server, tmp_path) -> None:
    eval_batch("--batch")
    state = tmp_path / "run" / "batches" / f"{MODEL}.json"
    before = state.read_text()
    server.finish("batch_0", _score)
    assert eval_batch("--batch").returncode == 0
    whole, scores = _judgments(tmp_path), (tmp_path / "run" / "scores.json").read_bytes()
    file = Run(tmp_path / "run").judgments_file(MODEL)
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:3]) + lines[3][:30])
    state.write_text(before)
    assert eval_batch("--batch").returncode == 0
    assert _judgments(tmp_path) == whole
    assert (tmp_path / "run" / "scores.json").read_bytes() == scores
    assert len(server.batches) == 1


def test_what_a_server_refuses_is_left_out_of_the_next_batch(eval_batch, server, tmp_path) -> None:
    eval_batch("--batch")
    message = {"message": "Unsupported parameter: 'response_format'", "param": "response_format"}
    server.finish("batch_0", lambda _: {"status": 400, "body": {"error": message}})
    assert "batch_1: 8 requests submitted" in eval_batch("--batch").stdout
    assert all("response_format" not in line["body"] for line in server.requests("batch_1"))
    server.finish("batch_1", lambda body: _reply(f"So.\nScore: {_number(body) % 5 + 1}"))
    assert eval_batch("--batch").returncode == 0
    manifest = json.loads((tmp_path / "run" / "run.json").read_text())
    assert manifest["judges"][MODEL]["refused_parameters"] == ["response_format"]


def test_wait_stays_until_everything_is_judged(eval_batch, server, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("medjudge.workflows.batch_jobs.POLL_SECONDS", 0.01)
    # The line about a batch in flight, after which the server has the results.
    monkeypatch.setattr(
        "medjudge.workflows.batch_jobs.notify", lambda line: server.finish(line.split(":")[0].split()[-1], _score)
    )
    worked(eval_batch("--batch", "--wait"))
    assert len(_judgments(tmp_path)) == 8


def test_a_batch_that_failed_is_submitted_again_and_an_echoed_key_is_not_shown_or_written(
    eval_batch, server, tmp_path, monkeypatch
) -> None:
    key = "sk-Tr9/x+2qLm-41"
    monkeypatch.setenv("OPENAI_API_KEY", key)
    eval_batch("--batch")
    errors = {"object": "list", "data": [{"code": "x", "message": f"{' ' * 280}THE AUTHORIZATION is over its limit"}]}
    server.batches["batch_0"] |= {"status": "failed", "errors": errors}
    done = eval_batch("--batch")
    assert (done.returncode, "Bearer [API key] is" in done.stderr) == (1, True)
    assert "batch_1: 8 requests submitted" in eval_batch("--batch").stdout
    server.finish("batch_1", _score)
    named = {"custom_id": key, "response": {"status_code": 200, **_reply("5")}}
    cut = f'{{"cut": "{" " * 40}{key}'
    file = server.batches["batch_1"]["output_file_id"]
    whole, server.files[file] = server.files[file], f"{json.dumps(named)}\n{cut}".replace("/", r"\/").encode()
    assert "[API key]' is not a batch result" in eval_batch("--batch").stderr
    assert "/[API key]" in (tmp_path / "run" / "spending.jsonl").read_text()
    server.files[file] = whole
    assert eval_batch("--batch").returncode == 0
    assert len(_judgments(tmp_path)) == 8


def test_a_limit_on_costs_holds_for_batches(eval_batch, server, tmp_path) -> None:
    full = json.loads(eval_batch("--dry-run", "--batch", "--json").stdout)
    limit = full["usd"]["at_most"] / 2
    eval_batch("--batch", "--max-cost", limit)
    (batch,) = server.batches.values()
    assert 2 <= batch["request_counts"]["total"] <= 4
    assert eval_batch("--batch", "--max-cost", limit).returncode == 0  # under way
    server.finish("batch_0", _score)
    # What it really cost leaves room for more.
    assert "batch_1: " in eval_batch("--batch", "--max-cost", limit).stdout
    server.finish("batch_1", _score)
    done = eval_batch("--batch", "--max-cost", "0.0001")
    assert done.returncode == 1
    assert "--max-cost 0.0001" in done.stderr
    assert "higher --max-cost" in done.stderr


def test_a_dry_run_asks_nothing_needs_no_key_and_writes_nothing(eval_batch, server, tmp_path, monkeypatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    estimate = json.loads(eval_batch("--dry-run", "--json").stdout)
    assert estimate["calls"] == 8
    assert estimate["tokens_out"]["at_most"] == 8 * 1024
    assert 0 < estimate["usd"]["about"] < estimate["usd"]["at_most"]
    half = json.loads(eval_batch("--dry-run", "--batch", "--json").stdout)
    assert half["usd"]["at_most"] == pytest.approx(estimate["usd"]["at_most"] / 2, abs=1e-4)
    shown = eval_batch("--dry-run").stdout
    assert "8 calls to gpt-4o" in shown
    assert estimate["price"]["date"] in shown
    assert not (tmp_path / "run").exists()
    assert not server.files


def test_options_that_make_no_sense_are_refused(medjudge, tmp_path) -> None:
    for judge, options, part in (
        ("similarity", ["--batch", "--wait"], "for an openai: judge"),
        ("similarity", ["--dry-run"], "for an openai: judge"),
        ("openai:x", ["--wait"], "--wait: belongs to --batch"),
        ("openai:unheard-of", ["--max-cost", "1"], "no price of unheard-of; write a line like"),
    ):
        refused(medjudge("eval", "--judge", judge, *options, OPENAI_API_KEY="x"), part)
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_results_are_read_up_to_a_limit(eval_batch, server, packed: Callable[[bytes], bytes], monkeypatch) -> None:
    monkeypatch.setattr("medjudge.chat_api.transport.MOST_BATCH_BYTES", 1_000_000)
    eval_batch("--batch")
    server.finish("batch_0", _score)
    server.files[server.batches["batch_0"]["output_file_id"]] = packed(bytes(2_000_000))
    assert "the server's reply exceeds 1 MB" in eval_batch("--batch").stderr
