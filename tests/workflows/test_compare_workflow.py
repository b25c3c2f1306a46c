"""`medjudge compare` on the sample: a server on loopback, a tiny generative judge, judges of single answers."""

import html
import json
import subprocess
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
from calls import refused_with as refused
from calls import worked
from chat_server import completion, failure
from tiny_models import build_generative_judge

from medjudge.judge.pairs import pair_judgments
from medjudge.pair_records import PairJudgment, PhysicianPair
from medjudge.records import Judgment
from medjudge.store import Run, read_records, write_records

MODELS = ["model-a", "model-b", "model-c"]
KEY = {"OPENAI_API_KEY": "of no value"}


@pytest.fixture
def small_run(sample_run: Path) -> Path:
    """Six questions of the sample, two of them in Chinese, with three models each."""
    run = Run(sample_run)
    questions, answers, scores = run.questions(), run.answers(), run.physician_scores()
    chinese = [one.id for one in questions if one.language == "zh" and one.round == 1][:2]
    kept = {"MK-en-01", "MK-en-02", "MK-en-03", "MK-en-04", *chinese}
    write_records(run.questions_file, [one for one in questions if one.id in kept])
    for file, records in ((run.answers_file, answers), (run.physicians_file, scores)):
        write_records(file, [one for one in records if one.question_id in kept and one.model in MODELS])
    return sample_run


def levels(run: Path) -> dict[tuple[str, str], int]:
    return {(score.question_id, score.model): score.score for score in Run(run).physician_scores()}


def judge_by_level(run: Path, first_wins_close: bool = False):
    """A server that knows the constructed levels; a difference of one level it may decide by the position."""
    by_text = {answer.text: levels(run)[answer.question_id, answer.model] for answer in Run(run).answers()}

    def act(body: dict):
        user = body["messages"][1]["content"]
        shown = sorted((user.index(text), level) for text, level in by_text.items() if text in user)
        first, second = shown[0][1], shown[-1][1]
        if first_wins_close and abs(first - second) == 1:
            return completion("Verdict: A", prompt_tokens=10, completion_tokens=2)
        return completion(f"Verdict: {'A' if first > second else 'B'}", prompt_tokens=10, completion_tokens=2)

    return act


def compared(medjudge, run: Path, url: str, *options: object):
    return medjudge("compare", run, "--judge", "openai:gpt", "--base-url", url, "--json", *options, **KEY)


def study_of(done: subprocess.CompletedProcess[str], code: int = 0) -> dict[str, Any]:
    """The output of a comparison."""
    assert done.returncode == code, done.stderr
    return dict(json.loads(done.stdout))


def test_a_server_ranks_the_models_and_is_never_asked_twice(medjudge, chat_server, small_run: Path) -> None:
    server = chat_server(judge_by_level(small_run))
    study = study_of(compared(medjudge, small_run, server.url))
    assert (study["how"], study["pairs"], study["judged"], study["new"]) == ("pairs", 18, 18, 18)
    assert len(server.asked) == 36
    assert study["swaps"]["consistency"]["value"] == 1
    truth = levels(small_run)
    wins = dict.fromkeys(MODELS, 0)
    for (question_id, model), level in truth.items():
        wins[model] += sum(level > truth[question_id, other] for other in MODELS if other != model)
    assert {row["model"]: row["wins"] for row in study["ranking"]["models"]} == wins
    assert [row["model"] for row in study["ranking"]["models"]] == sorted(wins, key=lambda model: -wins[model])
    assert json.loads((small_run / "pairs" / "gpt.json").read_text())["judge"] == "gpt"
    assert study_of(compared(medjudge, small_run, server.url))["new"] == 0
    assert len(server.asked) == 36


def test_orders_that_disagree_are_ties_and_shown(medjudge, chat_server, small_run: Path) -> None:
    server = chat_server(judge_by_level(small_run, first_wins_close=True))
    done = worked(medjudge("compare", small_run, "--judge", "openai:gpt", "--base-url", server.url, **KEY))
    truth = levels(small_run)
    close = sum(
        abs(truth[question, first] - truth[question, second]) == 1
        for question in {key[0] for key in truth}
        for first, second in combinations(MODELS, 2)
    )
    assert 0 < close < 18
    assert f"{close} pairs changed with the order and count as ties" in done.stdout
    study = json.loads((small_run / "pairs" / "gpt.json").read_text())
    assert study["swaps"]["disagreeing"] == close
    assert sum(row["ties"] for row in study["ranking"]["models"]) == 2 * close
    assert study["swaps"]["shown_first"]["value"] == pytest.approx(0.5 + close / 36, abs=1e-5)
    assert "position bias" in done.stdout


def test_what_failed_is_asked_again_and_nothing_else(medjudge, chat_server, small_run: Path) -> None:
    knows, failing = judge_by_level(small_run), [True]

    def act(body: dict):
        if failing[0] and "MTG" not in body["messages"][1]["content"] and len(server.asked) % 5 == 0:
            return failure(400, "content_filter", code="content_filter")
        return knows(body)

    server = chat_server(act)
    study = study_of(compared(medjudge, small_run, server.url), 1)
    assert study["judged"] < 18
    assert sum(study["unjudged"].values()) == 18 - study["judged"]
    file = small_run / "pairs" / "gpt.jsonl"
    records = read_records(file, PairJudgment)
    assert {str(record.error_kind.value) for record in records if record.error} == {"refused"}
    # A request that failed in passing is sent again; what was refused is not.
    failed = next(record for record in records if record.error is None)
    rest = [record for record in records if record is not failed]
    passing = failed.model_copy(update={"preferred": None, "error": "lost", "error_kind": "request_failed"})
    file.write_text("".join(record.model_dump_json() + "\n" for record in [*rest, passing]) + '{"question_id": "to')
    failing[0], before = False, len(server.asked)
    compared(medjudge, small_run, server.url)
    assert len(server.asked) == before + 1
    assert len(read_records(file, PairJudgment)) == 36


def test_a_budget_is_kept_and_a_larger_one_goes_on(medjudge, chat_server, small_run: Path) -> None:
    server = chat_server(judge_by_level(small_run))

    def with_budget(budget: int) -> dict[str, Any]:
        return study_of(compared(medjudge, small_run, server.url, "--budget", budget))

    first = with_budget(6)
    assert (first["pairs"], first["possible"], len(server.asked)) == (6, 18, 12)
    kinds = [tuple(sorted((pair.first, pair.second))) for pair in pair_judgments(Run(small_run), "gpt")]
    assert {kinds.count(kind) for kind in kinds} == {4}  # two pairs of each two models, in both orders
    assert [with_budget(budget)["new"] for budget in (6, 9)] == [0, 3]
    # An order that is missing is judged first.
    file = small_run / "pairs" / "gpt.jsonl"
    file.write_text("".join(line + "\n" for line in file.read_text().splitlines()[:-1]))
    before = len(server.asked)
    assert with_budget(9)["pairs"] == 9
    assert len(server.asked) == before + 1


def test_a_generative_judge_compares_by_its_letters(medjudge, tiny_lm, small_run: Path, tmp_path: Path) -> None:
    judge = build_generative_judge(tmp_path / "tiny", tiny_lm)
    study = study_of(medjudge("compare", small_run, "--judge", judge, "--device", "cpu", "--length-control", "--json"))
    assert (study["how"], study["judged"], study["length_controlled"]) == ("pairs", 18, True)
    assert study["ranking"]["length"]["value"] is not None
    records = pair_judgments(Run(small_run), "tiny")
    assert len(records) == 36
    assert all(record.probabilities is not None and record.rationale is None for record in records)


def test_a_judge_of_single_answers_says_where_its_pairs_come_from(medjudge, tiny_similarity, small_run: Path) -> None:
    done = medjudge("compare", small_run, "--judge", tiny_similarity, "--models", "model-a,model-c", "--json")
    study = study_of(done)
    assert "has no prompt for pairs" in done.stderr
    assert (study["how"], study["pairs"], study["swaps"]) == ("pointwise", 6, None)
    assert {judgment.model for judgment in Run(small_run).judgments("similarity")} == {"model-a", "model-c"}
    assert not (small_run / "pairs" / "similarity.jsonl").exists()


def test_a_panel_compares_by_its_combined_scores(medjudge, small_run: Path) -> None:
    run = Run(small_run)
    (small_run / "judgments").mkdir()
    for name in ("one", "two"):
        judgments = [
            Judgment(question_id=question, model=model, judge=name, score=level, expected=float(level))
            for (question, model), level in levels(small_run).items()
        ]
        write_records(run.judgments_file(name), judgments)
    done = medjudge("compare", small_run, "--judge", "panel:one,two", "--json")
    assert (study_of(done)["how"], study_of(done)["judged"]) == ("pointwise", 18)
    assert "(a panel) has no prompt for pairs" in done.stderr


def test_pairs_and_single_scores_are_shown_beside_each_other_and_physicians(
    medjudge, chat_server, small_run: Path
) -> None:
    knows = judge_by_level(small_run)
    by_text = {answer.text: levels(small_run)[answer.question_id, answer.model] for answer in Run(small_run).answers()}

    def act(body: dict):
        user = body["messages"][1]["content"]
        if "ANSWER A " in user:
            return knows(body)
        return completion(f"Score: {next(level for text, level in by_text.items() if text in user)}")

    server = chat_server(act)
    where = ("--judge", "openai:gpt", "--base-url", server.url)
    assert medjudge("eval", "--run", small_run, "--benchmark", small_run / "questions.jsonl", *where, **KEY)
    pairs = [
        PhysicianPair(question_id="MK-en-01", first="model-b", second="model-a", rater="dr", preferred="second"),
        PhysicianPair(question_id="MK-en-02", first="model-a", second="model-c", rater="dr", preferred="tie"),
        PhysicianPair(question_id="MK-en-02", first="model-c", second="model-a", rater="xu", preferred="tie"),
    ]
    write_records(small_run / "physician_pairs.jsonl", pairs)
    study = study_of(compared(medjudge, small_run, server.url))
    assert study["pointwise"]["with_pairs"]["agreement"]["value"] == 1
    assert study["pointwise"]["difference"]["value"] == 0
    people = study["physicians"]
    assert (people["raters"], people["constructed"]) == (["dr", "xu"], False)
    assert people["judge"]["pairs"] == 2
    assert people["judge"]["agreement"]["value"] == 0.5
    assert people["among"]["pairs"] == 1
    # Pairs alone are enough to validate: the sample's levels are taken away.
    (small_run / "physician_scores.jsonl").unlink(missing_ok=True)
    done = worked(medjudge("validate", small_run, *where, **KEY))
    shown = " ".join(done.stdout.split())
    assert "physicians scored no answer, so there is no gate to check" in shown
    assert "pairs against physicians (dr, xu): agreement 50.0 %" in shown
    assert "physicians with each other: agreement 100.0 %" in shown
    validated = json.loads(medjudge("validate", small_run, *where, "--json", **KEY).stdout)
    assert validated == {"judge": "gpt", "pairs": people, "items": None}
    assert medjudge("report", small_run).returncode == 0
    page = (small_run / "report.html").read_text()
    assert "Pairs against physicians" in html.unescape(page)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--models", "model-a,gpt-9"), "--models gpt-9: no answers in"),
        (("--models", "model-a"), "name two models or more"),
        (("--budget", "0"), "--budget 0: the most pairs to judge, at least 1"),
        (("--judge", "built-in", "--budget", "3"), "scores single answers"),
    ],
)
def test_wrong_options_are_refused(medjudge, small_run: Path, options: tuple[str, ...], message: str) -> None:
    refused(medjudge("compare", small_run, *options), message)
    assert not (small_run / "pairs").exists()


def test_a_missing_answer_and_a_single_model_are_refused(medjudge, small_run: Path) -> None:
    file = small_run / "answers.jsonl"
    lines = file.read_text().splitlines()
    file.write_text("\n".join(lines[1:5] + lines[6:]) + "\n")
    refused(
        medjudge("compare", small_run, "--judge", "built-in"),
        "answers are missing in pairs (2), the first: question MK-en-01, sample 0: no answer of model-a",
        "nothing was judged",
    )
    assert not (small_run / "judgments").exists()
    file.write_text("\n".join(line for line in lines if '"model-a"' in line) + "\n")
    refused(medjudge("compare", small_run), "answers of 1 model, and a comparison needs two")


def test_other_prompts_or_another_judge_of_this_name_do_not_mix(medjudge, chat_server, small_run: Path) -> None:
    server = chat_server(judge_by_level(small_run))
    compared(medjudge, small_run, server.url, "--budget", 2)
    other = chat_server(judge_by_level(small_run))
    refused(compared(medjudge, small_run, other.url), "by another judge or server of this name")
    assert other.asked == []
