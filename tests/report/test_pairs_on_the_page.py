"""The ranking by pairs in the report, in English and Chinese, and physicians' pairs in `validate`."""

import json
import re
from itertools import permutations
from pathlib import Path

import pytest
from browsing import text_of

from medjudge.cli.study_screens import summary_lines
from medjudge.pair_records import PairJudgment, PhysicianPair
from medjudge.records import Judgment
from medjudge.store import Run, write_records
from medjudge.validation.comparison import read_pair_study

MODELS = ("model-a", "model-b", "model-c")


@pytest.fixture
def compared_run(sample_run: Path, medjudge) -> Path:
    """The sample with pairs and scores of a judge who knows the levels; its pairs of b and c flip with the order."""
    run = Run(sample_run)
    level = {(score.question_id, score.model): score.score for score in run.physician_scores()}
    pairs, judgments = [], []
    for id in [question.id for question in run.questions()[:20]]:
        scores = {model: level[id, model] for model in MODELS}
        for model, score in scores.items():
            judgments.append(Judgment(question_id=id, model=model, judge="imported", score=score, expected=score))
        for first, second in permutations(MODELS, 2):
            wins = scores[first] > scores[second] or {first, second} == {"model-b", "model-c"}
            names = {"question_id": id, "first": first, "second": second, "judge": "imported"}
            pairs.append(PairJudgment(**names, preferred="first" if wins else "second"))
    write_records(run.path / "pairs" / "imported.jsonl", pairs)
    write_records(run.judgments_file("imported"), judgments)
    people = [
        PhysicianPair(question_id=question.id, first="model-a", second="model-b", rater="dr", preferred="first")
        for question in run.questions()[:8]
    ]
    write_records(run.path / "physician_pairs.jsonl", people)
    done = medjudge("compare", sample_run, "--judge", "imported", "--models", ",".join(MODELS))
    assert done.returncode == 0, done.stderr
    return sample_run


def test_the_page_shows_ranking_swaps_single_scores_and_physicians(compared_run: Path, medjudge) -> None:
    medjudge("report", compared_run)
    page = text_of((compared_run / "report.html").read_text(encoding="utf-8"))
    study = read_pair_study(Run(compared_run), "imported")
    assert study.swaps.disagreeing == 20
    first = study.ranking.models[0]
    few = f"{study.conversations} conversations are too few to tell models apart; it takes 30"
    meaning = "if every two models met equally often, ties half"
    for said in (
        "Ranking by pairs of answers, judge imported",
        f"{first.model} {100 * first.win_share['value']:.1f}",
        f"{first.wins} {first.ties} {first.losses}",
        few,
        f"{meaning}; wins, ties and losses count the pairs",
        "20 of 60 pairs changed with the order and count as ties",
        "prefer the answer shown first; without bias it is 50 %",
        "The same pairs by scores of single answers",
        "Pairs against physicians' pairs",
    ):
        assert said in page
    assert re.search(r"The two ways differ by \d+\.\d (\(.*?\) )?percentage points in the share of wins", page)
    screen = summary_lines(study)
    assert screen[0] == few
    assert few not in summary_lines(study.model_copy(update={"conversations": 30}))
    assert any(meaning in line for line in screen)
    assert any(re.search(r"difference of the shares of wins: \+?\d+\.\d points", line) for line in screen)
    (compared_run / "judgments" / "imported.jsonl").unlink()
    (compared_run / "judgments").rmdir()
    # A run that only compares models has a report, too.
    assert medjudge("report", compared_run, "--lang", "zh").returncode == 0
    chinese = text_of((compared_run / "report.html").read_text(encoding="utf-8"))
    for said in (
        "按两两比较的排名",
        "组对话太少，无法区分模型",
        "60对中有20对的结论随顺序改变",
        "两两比较与医生的两两比较",
    ):
        assert said in chinese


def test_validate_says_how_far_the_pairs_agree_with_physicians(compared_run: Path, medjudge) -> None:
    more = PhysicianPair(question_id="MK-en-01", first="model-c", second="model-a", rater="xu", preferred="second")
    with (compared_run / "physician_pairs.jsonl").open("a") as file:
        file.write(more.model_dump_json() + "\n")
    done = medjudge("validate", compared_run, "--judge", "imported", "--json")
    pairs = json.loads(done.stdout)["pairs"]
    assert pairs["raters"] == ["dr", "xu"]
    assert pairs["judge"]["pairs"] == 9
    assert "pairs against physicians (dr, xu): agreement" in done.stderr
    assert read_pair_study(Run(compared_run), "imported").physicians.judge.pairs == 9
