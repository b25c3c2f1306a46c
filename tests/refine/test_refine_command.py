"""The whole of `medjudge refine`, with a judge and a proposer over the wire."""

import json
import re
from pathlib import Path

import pytest
from calls import refused, refused_with, worked
from chat_server import Act, failure
from simulated import CORE, LACKING, checklist_of, lines, write_run
from tiny_judges import build_ordinal_judge

from medjudge.chat_api.client import Server
from medjudge.judge.open import JudgeOptions
from medjudge.records import Judgment
from medjudge.refine.disagreements import split_answers
from medjudge.scheme import open_scheme
from medjudge.store import Run, write_records
from medjudge.workflows.refine import RefineOptions, refine_checklists

GOOD = (0, 1, 2, 3)
HARMFUL, UNREADABLE, DECLINED = 4, 6, 7


def propose(body: dict) -> str:
    """The missing point for some questions, for others one that no answer holds, one that changes nothing, nothing."""
    number = int(re.search(r"How is condition (\d+)", body["messages"][0]["content"])[1])
    if number == UNREADABLE:
        return "Ask for no alcohol, too."
    if number == DECLINED:
        return "The physicians are wrong.\nNO CHANGE"
    point = "no alcohol" if number in GOOD else "a lunar calendar" if number == HARMFUL else "Advice"
    return f"I change the checklist.\n<<<CHECKLIST>>>\n{checklist_of(*CORE, point)}\n<<<END>>>"


def command(run: Path, url: str, *more: object) -> tuple[object, ...]:
    return ("refine", run, "--judge", "openai:judge", "--base-url", url, "--concurrency", 4, "--json", *more)


@pytest.fixture(scope="module")
def refined(module_server, tmp_path_factory):
    run = write_run(tmp_path_factory.mktemp("refined") / "run")
    module_server.replies["proposer"] = propose
    options = RefineOptions(judging=JudgeOptions(server=Server(module_server.url)))
    refinement = refine_checklists(run, "openai:judge", proposer="openai:proposer", options=options)
    assert json.loads((run / "refinement" / "summary.json").read_text()) == refinement.summary
    return refinement.summary, run / "refinement"


@pytest.mark.slow
def test_only_changes_that_help_on_held_out_answers_are_kept(refined, module_server, medjudge, tmp_path) -> None:
    summary, out = refined
    names = {disagreement["name"] for disagreement in summary["disagreements"]}
    assert {f"q{number:02d}" for number in LACKING} <= names
    assert len(names) <= len(LACKING) + 2
    assert {line["cause_suggested"] for line in summary["disagreements"][:8]} == {"checklist point missing"}
    assert {change["name"] for change in summary["kept"]} == {f"q{number:02d}" for number in GOOD}
    assert all(0 < change["low"] < change["improvement"] for change in summary["kept"])
    assert (out / "changes.diff").read_text().count("\n+3. no alcohol\n") == len(GOOD)
    assert summary["proposals"]["unreadable"] == 1
    assert summary["proposals"]["declined"] == 1
    # The new benchmark differs where a change was kept, and nowhere else; the run's own is as it was.
    old, new = lines(out.parent / "questions.jsonl"), lines(out / "questions.jsonl")
    changed = [asked["id"] for asked, other in zip(old, new, strict=True) if asked["checklist"] != other["checklist"]]
    assert changed == [f"q{number:02d}" for number in GOOD]
    assert new[0]["checklist"] == checklist_of(*CORE, "no alcohol")
    assert old == lines(write_run(tmp_path / "again") / "questions.jsonl")
    files = ("--benchmark", out / "questions.jsonl", "--answers", out.parent / "answers.jsonl")
    ways = ("--judge", "openai:judge", "--base-url", module_server.url, "--run", tmp_path / "next", "--limit", 2)
    worked(medjudge("eval", *files, *ways))


def test_no_held_out_answer_reaches_a_prompt_and_only_changed_answers_are_scored_again(refined, module_server) -> None:
    summary, out = refined
    run, counts = Run(out.parent), summary["proposals"]
    held = split_answers([answer.key for answer in run.answers()], 0.5, 0)
    held_names = {f"{key.question_id}-{key.model}-{key.sample}" for key in held}
    asked = module_server.asked[: 20 * 20 + counts["asked"] + counts["proposed"] * 10]
    prompts = [body["messages"][0]["content"] for body in asked if body["model"] == "proposer"]
    shown = [name for prompt in prompts for name in re.findall(r"Text-(q\d\d-model-.-\d)", prompt)]
    commented = [name for prompt in prompts for name in re.findall(r"Comment-(q\d\d-model-.-\d)", prompt)]
    assert shown
    assert not set(shown) & held_names
    assert set(commented) == set(shown)
    assert sum(prompt.count("Physicians: ") for prompt in prompts) == len(shown)
    # Half of the models of each question are held out, with all their samples.
    assert len(held_names) == 20 * 5 * 2
    judged = [body for body in asked if body["model"] == "judge"]
    assert len(judged) == 20 * 20 + counts["proposed"] * 10
    # One account for judging, proposing and scoring again.
    spent = json.loads((out.parent / "run.json").read_text())["spending"]["models"]
    assert {name: account["requests"] for name, account in spent.items()} == {
        "judge": len(judged),
        "proposer": counts["asked"],
    }


@pytest.mark.slow
def test_a_killed_run_continues_and_pays_nothing_twice(server, lacking_run, medjudge) -> None:
    ways = command(lacking_run, server.url, "--proposer", "openai:proposer")
    calls = []

    def dying(body: dict) -> str | Act:
        calls.append(body)
        return propose(body) if len(calls) <= 3 else failure(401, "the key is taken away")

    server.replies["proposer"] = dying
    refused_with(medjudge(*ways), "the key is taken away")
    proposals = lines(lacking_run / "refinement" / "proposals.jsonl")
    with (lacking_run / "refinement" / "proposals.jsonl").open("a") as file:
        file.write('{"kind": "check')  # what a kill in the middle of a line leaves
    server.replies["proposer"] = propose
    before = len(server.asked)
    done = medjudge(*ways)
    assert done.returncode == 1, done.stderr
    asked = [body["model"] for body in server.asked[before:]]
    assert asked.count("proposer") == len(json.loads(done.stdout)["disagreements"]) - len(proposals)
    before = len(server.asked)
    again = medjudge(*ways)
    assert len(server.asked) == before
    assert json.loads(again.stdout) == json.loads(done.stdout)


@pytest.mark.slow
def test_a_dry_run_lists_and_a_limit_on_costs_holds_for_judge_and_proposer_together(
    server, lacking_run, medjudge, tmp_path
) -> None:
    server.replies["proposer"] = propose
    price = "{input: 1, output: 1, date: 2025-01-01, source: a test}"
    (tmp_path / "prices.yaml").write_text(f"judge: {price}\nproposer: {price}\n")
    ways = command(lacking_run, server.url, "--proposer", "openai:proposer", "--prices", "prices.yaml")
    listed = medjudge("refine", lacking_run, "--judge", "openai:judge", "--base-url", server.url, "--dry-run").stdout
    assert "checklist point missing" in listed
    assert f"next: medjudge refine {lacking_run} --judge openai:judge --proposer" in listed
    assert not (lacking_run / "refinement" / "questions.jsonl").exists()
    assert {body["model"] for body in server.asked} == {"judge"}
    asked = len(server.asked)
    done = medjudge(*ways, "--max-cost", "0.1")
    assert done.returncode == 1
    assert "stopped: --max-cost 0.1" in done.stderr
    assert len(server.asked) == asked
    done = medjudge(*ways, "--max-cost", "100")
    assert done.returncode == 1, done.stderr  # one proposal cannot be read
    assert json.loads(done.stdout)["kept"]


def test_unscored_answers_are_reported_with_a_fix(lacking_run, medjudge) -> None:
    run = Run(lacking_run)
    asked = [question.model_copy(update={"category": "CHQ"}) for question in run.questions()]
    run.write_questions(asked, open_scheme("consumer-health"))  # a scheme of its own is no obstacle
    _, _, _, _, lost, *others = run.answers()
    judgments = [Judgment(**answer.key._asdict(), judge="ours", score=4) for answer in others]
    failed = Judgment(**lost.key._asdict(), judge="ours", score=None, error="too long")
    write_records(run.judgments_file("ours"), [failed, *judgments])
    done = medjudge("refine", lacking_run, "--judge", "ours", "--dry-run")
    assert done.returncode == 1
    file = run.judgments_file("ours")
    assert "4 scored answers have no judgment of ours and are left out: run the `medjudge eval`" in done.stdout
    assert f"{file} again, or add them to it" in done.stdout
    assert "1 scored answers could not be scored by ours and are left out (1: too long)" in done.stdout


def test_judges_that_no_change_can_reach_and_missing_scores_are_refused(lacking_run, medjudge) -> None:
    refused(medjudge("refine", lacking_run, "--judge", "similarity", "--proposer", "openai:p"), "reads no checklist")
    run = Run(lacking_run)
    judgments = [Judgment(**answer.key._asdict(), judge="ours", score=4) for answer in run.answers()]
    write_records(run.judgments_file("ours"), judgments)
    done = worked(medjudge("refine", lacking_run, "--judge", "ours"))
    assert "no proposals for judge ours: only its judgments are known" in done.stdout
    assert "next:" not in done.stdout
    (lacking_run / "physician_scores.jsonl").unlink()
    refused(medjudge("refine", lacking_run, "--judge", "ours"), "no physicians' scores")


@pytest.mark.parametrize("checklists", [1.0, 0.0])
def test_an_ordinal_judge_reads_checklists_where_it_was_trained_on_some(
    tiny_encoder, lacking_run, server, medjudge, tmp_path, checklists: float
) -> None:
    server.replies["proposer"] = lambda body: "NO CHANGE"
    folder = build_ordinal_judge(tmp_path / "ordinal", tiny_encoder, checklists)
    ways = ("--judge", folder, "--proposer", "openai:proposer", "--base-url", server.url, "--device", "cpu", "--json")
    done = medjudge("refine", lacking_run, *ways)
    if not checklists:
        refused(done, "reads no checklist")
        asked = medjudge(*command(lacking_run, server.url, "--proposer", folder))
        return refused(asked, "a judge of kind ordinal writes no text; take a chat model")
    summary = json.loads(worked(done).stdout)
    assert 0 < summary["proposals"]["declined"] == summary["proposals"]["asked"]
