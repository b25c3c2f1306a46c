"""`medjudge eval --escalate-to`: a validated local judge, a server that speaks the OpenAI protocol, and people."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from chat_server import Act, ChatServer, completion

from medjudge.judge.folder import read_card
from medjudge.records import PhysicianScore
from medjudge.store import Run, read_records, write_records

PRICES = "big: {input: 10, output: 20, date: 2026-01-01, source: here}\n"
CASCADE = "mine+big"


@pytest.fixture
def validated(medjudge, sample_run: Path, judge_folder: Path) -> Path:
    """The same judge after a validation by one physician."""
    file = sample_run / "physician_scores.jsonl"
    write_records(file, [score.model_copy(update={"rater": "dr"}) for score in read_records(file, PhysicianScore)])
    done = medjudge("validate", sample_run, "--judge", judge_folder, "--resamples", 100, "--error-rate", 0.3)
    assert done.returncode in (0, 1), done.stderr
    sets = read_card(judge_folder).validated_on[-1].conformal
    assert sets is not None
    assert sets.usable_threshold is not None
    return judge_folder


@pytest.fixture
def cascade(medjudge, validated: Path, tmp_path: Path) -> Callable[..., object]:
    """Runs the cascade of the validated judge and model `big` of a server."""
    (tmp_path / "prices.yaml").write_text(PRICES)

    def run(server: ChatServer, *more: object, rate: float = 0.3):
        options = ("--judge", validated, "--run", "run", "--escalate-to", "openai:big", "--error-rate", rate)
        options += ("--base-url", server.url, "--prices", "prices.yaml", "--concurrency", 1)
        return medjudge("eval", *options, *more, OPENAI_API_KEY="k")

    return run


def verdict() -> Callable[[dict], Act]:
    """Scores 5, but every seventh answer gets a reply without a score, and again after the reminder."""
    place: dict[str, int] = {}

    def act(body: dict) -> Act:
        number = place.setdefault(body["messages"][1]["content"], len(place))
        reply = "I cannot say." if number % 7 == 3 else json.dumps({"rationale": "clear", "score": 5})
        return completion(reply, prompt_tokens=100, completion_tokens=10)

    return act


def test_open_answers_go_to_the_api_judge_and_what_stays_open_to_people(
    medjudge, cascade, chat_server, tmp_path
) -> None:
    server = chat_server(verdict())
    done = cascade(server)
    assert done.returncode == 1, done.stderr  # some answers have no score
    run = Run(tmp_path / "run")
    local = {judgment.answer_key: judgment for judgment in run.judgments("mine")}
    by_api = {judgment.answer_key: judgment for judgment in run.judgments("big")}
    together = {judgment.answer_key: judgment for judgment in run.judgments(CASCADE)}
    assert len(local) == len(together) == 280
    assert 0 < len(by_api) < 280
    for key, judgment in together.items():
        assert judgment == by_api.get(key, local[key])
        assert judgment.judge == ("big" if key in by_api else "mine")
    # Those whose P(usable) is far from both labels stayed here; nothing that the server judged is surer than they are.
    sure = [abs(sum(local[key].probabilities[3:]) - 0.5) for key in local if key not in by_api]
    unsure = [abs(sum(local[key].probabilities[3:]) - 0.5) for key in by_api if local[key].probabilities]
    assert max(unsure) <= min(sure) + 1e-6

    unscored = {key for key, judgment in by_api.items() if judgment.score is None}
    listed = [json.loads(line) for line in run.deferred_file.read_text().splitlines()]
    assert unscored
    assert {(line["question_id"], line["model"], line["sample"]) for line in listed} == unscored

    recorded = run.manifest()["judges"][CASCADE]["cascade"]
    mine, big = recorded["stages"]
    assert (mine["judge"], mine["judged"], mine["settled"], mine["usd"]) == ("mine", 280, 280 - len(by_api), 0.0)
    assert (big["judge"], big["judged"], big["settled"]) == ("big", len(by_api), len(by_api) - len(unscored))
    assert big["tokens_in"] == 100 * len(server.asked)
    assert big["usd"] == pytest.approx(len(server.asked) * (100 * 10 + 10 * 20) / 1e6)
    assert recorded["for_people"] == len(unscored)
    assert f"big settled {big['settled']} of {len(by_api)} answers" in done.stdout
    assert f"{len(unscored)} answers left to people: run/for_physicians.jsonl" in done.stdout
    scores = json.loads((run.path / "scores.json").read_text())
    assert scores["judge"] == CASCADE
    assert scores["cascade"] == recorded
    assert scores["answers"]["unscored"] == len(unscored)

    assert medjudge("report", "run").returncode == 0
    page = (run.path / "report.html").read_text()
    assert f"big settled {big['settled']} of {len(by_api)} answers" in page
    assert f"{len(unscored)} left to people (for_physicians.jsonl)" in page

    # The list becomes the forms of a physician, and nothing else does.
    forms = medjudge("annotate", "export", "run", "--rater", "dr-a", "--which", "deferred")
    assert forms.returncode == 0, forms.stderr
    assert f"{len(unscored)} answers, each to 1 of 1 raters" in forms.stdout
    plan = json.loads((run.path / "annotation" / "plan.json").read_text())
    assert {(item["question_id"], item["model"], item["sample"]) for item in plan["items"]} == unscored
    run.deferred_file.write_text("".join(json.dumps(line) + "\n" for line in listed[1:]))
    again = medjudge("annotate", "export", "run", "--rater", "dr-a", "--which", "deferred")
    assert again.returncode == 2
    assert "changed since the plan was made" in again.stderr


def test_a_broken_off_cascade_goes_on_and_pays_for_nothing_twice(cascade, chat_server, tmp_path) -> None:
    score = json.dumps({"rationale": "clear", "score": 5})
    server = chat_server(lambda body: completion(score, prompt_tokens=100, completion_tokens=1000))
    stopped = cascade(server, "--max-cost", 0.1)  # enough for four requests at most
    assert stopped.returncode == 1
    run = Run(tmp_path / "run")
    paid = {judgment.answer_key for judgment in run.judgments("big")}
    assert not run.judgments_file(CASCADE).exists()
    asked = [body["messages"][1]["content"] for body in server.asked]
    assert cascade(server).returncode == 0
    later = [body["messages"][1]["content"] for body in server.asked[len(asked) :]]
    judged = {judgment.answer_key for judgment in run.judgments("big")}
    assert 0 < len(paid) < len(judged)
    assert not set(asked) & set(later)
    assert len({*asked, *later}) == len(judged)
    whole = run.judgments_file(CASCADE).read_text()
    count = len(server.asked)
    assert cascade(server).returncode == 0
    assert (run.judgments_file(CASCADE).read_text(), len(server.asked)) == (whole, count)


def test_a_failed_request_is_asked_again_before_it_goes_to_people(cascade, chat_server, tmp_path) -> None:
    broken = chat_server(lambda body: completion(json.dumps({"rationale": "", "score": 4})))
    assert cascade(broken).returncode == 0
    run = Run(tmp_path / "run")
    assert run.deferred_file.read_text() == ""
    lines = run.judgments("big")
    failed = lines[0].model_copy(
        update={"score": None, "expected": None, "error": "cut", "error_kind": "request_failed", "rationale": None}
    )
    write_records(run.judgments_file("big"), [failed, *lines[1:]])
    count = len(broken.asked)
    assert cascade(broken).returncode == 0
    assert len(broken.asked) == count + 1


def test_the_cascade_is_validated_as_any_judge_and_stale_at_another_rate(
    medjudge, cascade, validated, chat_server, sample_run, tmp_path
) -> None:
    server = chat_server(verdict())
    cascade(server)
    command = ("validate", "run", "--judge", CASCADE, "--physicians", sample_run / "physician_scores.jsonl")
    done = medjudge(*command, "--resamples", 100, "--json")
    study = json.loads(done.stdout)
    run = Run(tmp_path / "run")
    assert study["n"] == 280 - sum(judgment.score is None for judgment in run.judgments(CASCADE))
    assert study["judge_sha256"] == run.manifest()["judges"][CASCADE]["sha256"]
    assert "stale" not in cascade(server).stdout
    other = medjudge("validate", sample_run, "--judge", validated, "--resamples", 100, "--error-rate", 0.2)
    assert other.returncode in (0, 1)
    assert re.search(r"judge mine\+big: stale: validated with other files", cascade(server, rate=0.2).stdout)


def test_what_cannot_work_is_refused_before_anything_is_written(
    medjudge, cascade, judge_folder, validated, chat_server, tiny_similarity, tmp_path
) -> None:
    server = chat_server(verdict())

    def refused(done, part: str) -> None:
        assert done.returncode == 2, done.stderr
        assert part in done.stderr
        assert not (tmp_path / "run").exists()
        assert not server.asked

    def command(judge: object, to: str, *more: object):
        return medjudge("eval", "--judge", judge, "--run", "run", "--escalate-to", to, *more, OPENAI_API_KEY="k")

    never = command(tiny_similarity, "openai:big")
    refused(never, "there is no validation against physicians with conformal scores; run `medjudge validate run")
    refused(cascade(server, rate=0.05), "its conformal scores are for an error rate of 0.3, not 0.05")
    refused(cascade(server, "--defer-to-physicians", 0.1), "give one of the two")
    refused(cascade(server, "--batch"), "--batch: not with --escalate-to")
    refused(cascade(server, "--dry-run"), "--dry-run: not with --escalate-to")
    refused(command("openai:other", "openai:big"), "judge other is behind an API")
    refused(command(validated, str(judge_folder)), "is a local judge")
    refused(medjudge("eval", "--error-rate", 0.2), "--error-rate: belongs to --escalate-to")
    refused(medjudge("eval", "--judge", validated, "--run", "run", "--escalate-to", "openai:big"), "OPENAI_API_KEY")
    card = json.loads((validated / "judge.json").read_text())
    (validated / "judge.json").write_text(json.dumps(card | {"slope": card["slope"] + 1}))
    refused(cascade(server), "there is no validation against physicians with conformal scores")
