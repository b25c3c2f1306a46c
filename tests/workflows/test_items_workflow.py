"""`medjudge eval --items` on the sample: a server on loopback, a tiny generative judge, physicians' verdicts."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from calls import refused_with as refused
from calls import worked
from chat_server import completion
from tiny_judges import build_ordinal_judge
from tiny_models import build_generative_judge

from medjudge.errors import InputError
from medjudge.item_records import ItemScore
from medjudge.judge.items import item_judgments
from medjudge.judge.open import JudgeOptions, resolve_judge
from medjudge.records import ErrorKind
from medjudge.store import Run, write_records
from medjudge.text.checklist_items import items_of
from medjudge.workflows.mark_items import require_items

KEY = {"OPENAI_API_KEY": "of no value"}
IDS = ("MK-en-01", "MK-en-03", "MK-zh-01")


@pytest.fixture
def asked(sample_run: Path, tmp_path: Path) -> tuple[Path, Path]:
    """Questions with items and the answers of two models: a question without items, and three of the sample."""
    run = Run(sample_run)
    questions = [json.loads(one.model_dump_json()) for one in run.questions() if one.id in IDS]
    questions[0] |= {"items": [{"text": "Names HbA1c", "points": 4}, {"text": "Advises against tests", "points": -2}]}
    questions.append({**questions[1], "id": "plain", "group": "plain", "checklist": None})
    answers = [one for one in run.answers() if one.question_id in IDS and one.model in ("model-a", "model-b")]
    plain = [one.model_copy(update={"question_id": "plain"}) for one in answers if one.question_id == "MK-en-03"]
    files = tmp_path / "questions.jsonl", tmp_path / "answers.jsonl"
    files[0].write_text("".join(json.dumps(one) + "\n" for one in questions))
    write_records(files[1], [*answers, *plain])
    return files


def marking(fails_for: str = "never"):
    """A server that scores 4, and calls every item of an odd number of characters met."""

    def act(body: dict):
        if "Criteria" not in body["messages"][1]["content"] and "# 标准" not in body["messages"][1]["content"]:
            return completion('{"rationale": "r", "score": 4}', prompt_tokens=10, completion_tokens=2)
        if fails_for in body["messages"][1]["content"]:
            return completion("I cannot tell.")
        listed = body["messages"][1]["content"].split("# Criteria" if "# Criteria" in str(body) else "# 标准")[1]
        shown = re.findall(r"^(\d+)\. (.*)$", listed.split("<<<ANSWER")[0], re.MULTILINE)
        verdicts = [
            {"number": int(number), "reason": "r", "met": len(text) % 2 == 1, "certainty": 75} for number, text in shown
        ]
        return completion(json.dumps({"verdicts": verdicts}), prompt_tokens=20, completion_tokens=9)

    return act


@pytest.fixture
def judged(medjudge, chat_server, asked: tuple[Path, Path], tmp_path: Path) -> tuple[Run, Any]:
    """A run whose items a server marked, and the server."""
    server = chat_server(marking())
    assert evaluated(medjudge, asked, server.url, tmp_path / "run").returncode == 0
    return Run(tmp_path / "run"), server


def evaluated(medjudge, asked: tuple[Path, Path], url: str, run: Path, *options: object):
    questions, answers = asked
    return medjudge(
        *("eval", "--benchmark", questions, "--answers", answers, "--judge", "openai:gpt", "--items", "--run", run),
        *("--base-url", url, *options),
        **KEY,
    )


def test_a_server_checks_every_item_once_and_the_scores_follow(medjudge, chat_server, asked, tmp_path) -> None:
    server = chat_server(marking())
    folder = tmp_path / "run"
    estimate = json.loads(evaluated(medjudge, asked, server.url, folder, "--dry-run", "--json").stdout)
    assert estimate["calls"] == 8 + 6
    assert estimate["tokens_out"]["at_most"] > 8 * 1024 + 6 * 256
    assert (server.asked, folder.exists()) == ([], False)
    done = worked(evaluated(medjudge, asked, server.url, folder, "--json"))
    assert len(server.asked) == 8 + 6  # scores of all answers, items of those to questions with items
    study = json.loads(done.stdout)["items"]
    run = Run(folder)
    items = {one.id: items_of(one) for one in run.questions()}
    assert (study["questions"], study["items"], study["judged"]) == (3, sum(map(len, items.values())), 6)
    for judgment in item_judgments(run, "gpt"):
        wanted = [
            (item.text, 0.75 if len(" ".join(item.text.split())) % 2 else 0.25) for item in items[judgment.question_id]
        ]
        assert [(verdict.item, verdict.met) for verdict in judgment.items] == wanted
    shares = []
    for rubric in items.values():
        if rubric:
            met = sum(item.points for item in rubric if len(item.text) % 2)
            shares.append(met / sum(item.points for item in rubric if item.points > 0))
    assert study["models"][0]["share"]["value"] == pytest.approx(max(0, sum(shares) / 3), abs=1e-6)
    assert sum(study["models"][0]["levels"]) == 2  # the items of MK-en-01 are neither core nor secondary
    assert {row["theme"] for row in study["themes"]} == {"core", "secondary", "other"}
    assert json.loads((folder / "items" / "gpt.json").read_text()) == study
    again = worked(evaluated(medjudge, asked, server.url, folder))
    assert len(server.asked) == 14
    assert "6 of 6 answers have verdicts" in again.stdout


def test_answers_without_verdicts_are_counted_with_their_reason(medjudge, chat_server, asked, tmp_path) -> None:
    server = chat_server(marking(fails_for="Names HbA1c"))
    done = evaluated(medjudge, asked, server.url, tmp_path / "run")
    assert done.returncode == 1, done.stderr
    assert "4 of 6 answers have verdicts" in done.stdout
    refused = [one for one in item_judgments(Run(tmp_path / "run"), "gpt") if one.items is None]
    assert [one.error_kind for one in refused] == [ErrorKind.UNREADABLE_REPLY] * 2
    assert "without verdicts: 2, unreadable reply: the reply is no JSON object" in " ".join(done.stdout.split())


def test_a_physician_who_marked_only_items_is_enough_to_validate(medjudge, judged) -> None:
    run, server = judged
    folder = run.path
    judgments = item_judgments(run, "gpt")
    scores = []
    for judgment in judgments:
        for place, one in enumerate(judgment.items):
            # The physician says the opposite of the first item of model-a's answer to MK-en-03.
            opposite = place == 0 and judgment.answer_key[:2] == ("MK-en-03", "model-a")
            verdict = "met" if one.is_met != opposite else "not_met"
            key = judgment.answer_key._asdict()
            scores.append(ItemScore(**key, rater="dr-a", item=one.item, verdict=verdict))
    write_records(run.items_file, scores)
    known = ("--judge", "openai:gpt", "--base-url", server.url)
    asked_before = len(server.asked)
    done = worked(medjudge("validate", folder, *known, **KEY))
    shown = " ".join(done.stdout.split())
    assert "physicians scored no answer, so there is no gate to check" in shown
    assert "items against physicians (dr-a): agreement" in shown
    assert " core: agreement" in shown
    assert "1 of 2 differ on MK-en-03: " in shown
    written = json.loads(medjudge("validate", folder, *known, "--json", **KEY).stdout)
    assert (written["judge"], written["pairs"]) == ("gpt", None)
    verdicts = sum(len(judgment.items) for judgment in judgments)
    assert written["items"]["judge"]["agreement"]["value"] == pytest.approx(1 - 1 / verdicts, abs=1e-6)
    assert written["items"] == json.loads((folder / "items" / "gpt.json").read_text())["physicians"]
    assert len(server.asked) == asked_before
    assert not (folder / "agreement").exists()
    assert medjudge("report", folder).returncode == 0
    assert "Items against physicians" in (folder / "report.html").read_text()
    # What needs levels says so, and a judge without verdicts is told how to get some.
    refused(
        medjudge("validate", folder, *known, "--probes", **KEY),
        "has no physician_scores.jsonl; give --physicians FILE",
    )
    refused(
        medjudge("validate", folder, "--judge", "similarity"),
        "can be compared with this judge; for verdicts on items run `medjudge eval --items` with it",
    )


def test_a_generative_judge_checks_items_beside_its_scores(medjudge, tiny_lm, asked, tmp_path) -> None:
    judge = build_generative_judge(tmp_path / "judges" / "tiny", tiny_lm, max_length=8192)
    questions, answers = asked
    options = ("--benchmark", questions, "--answers", answers, "--judge", judge, "--run", tmp_path / "run")
    worked(medjudge("eval", *options, "--items"))
    judgments = item_judgments(Run(tmp_path / "run"), "tiny")
    assert len(judgments) == 6
    assert all(0 < verdict.met < 1 for judgment in judgments for verdict in judgment.items)


def test_what_items_cannot_be_used_with_is_refused_before_anything_is_written(
    medjudge, asked, jsonl, tiny_encoder, tmp_path
) -> None:
    questions, answers = asked
    options = ("--answers", answers, "--run", tmp_path / "run", "--items")
    levels_only = build_ordinal_judge(tmp_path / "levels-only", tiny_encoder)
    for judge, named in (
        (levels_only, "judge levels-only (ordinal) gives no verdicts on items"),
        ("similarity", "judge similarity (similarity) gives no verdicts on items"),
        (
            "panel:similarity,built-in",
            "panel-similarity+built-in (a panel) gives no verdicts on items; name an openai:",
        ),
    ):
        refused(medjudge("eval", "--benchmark", questions, "--judge", judge, *options), named)
    one = jsonl("bare.jsonl", {"id": "plain", "category": "MK", "prompt": "Why?"})
    given = jsonl("given.jsonl", {"question_id": "plain", "model": "m", "text": "So."})
    bare = ("--benchmark", one, "--answers", given, "--judge", "openai:gpt", "--run", tmp_path / "run", "--items")
    refused(medjudge("eval", *bare, **KEY), "--items: no question has items or a numbered checklist")
    for more in ((), ("--dry-run",)):
        done = evaluated(medjudge, asked, "http://127.0.0.1:9", tmp_path / "run", "--batch", *more)
        refused(done, "--batch: not with --items; ")
    assert not (tmp_path / "run").exists()
    in_ray = "not with the engine ray; score the answers first, and add --items without --judge-engine and --engine"
    with pytest.raises(InputError, match=in_ray):
        require_items(resolve_judge("built-in"), JudgeOptions(engine="ray"), ())
