"""The ranking by pairs in the report, in English and Chinese, and physicians' pairs in `validate`."""

import json
import re
from pathlib import Path

import pytest
from browsing import text_of

from medjudge.cli.study_screens import summary_lines
from medjudge.pair_records import PairJudgment, PhysicianPair
from medjudge.store import Run
from medjudge.validation.comparison import read_pair_study

MODELS = ("model-a", "model-b", "model-c")


@pytest.fixture
def compared_run(sample_run: Path, medjudge) -> Path:
    """The sample with pairs and scores of a judge who knows the levels; its pairs of b and c flip with the order."""
    run = Run(sample_run)
    scores = {(score.question_id, score.model): score.score for score in run.physician_scores()}
    pairs, judgments = [], []
    for question in run.questions()[:20]:
        for first in MODELS:
            fields = {"question_id": question.id, "model": first, "judge": "imported"}
            level = scores[question.id, first]
            judgments.append(json.dumps({**fields, "score": level, "expected": float(level)}))
            for second in MODELS:
                if first == second:
                    continue
                better = "first" if scores[question.id, first] > scores[question.id, second] else "second"
                preferred = "first" if {first, second} == {"model-b", "model-c"} else better
                names = {"question_id": question.id, "first": first, "second": second}
                pairs.append(PairJudgment(**names, judge="imported", preferred=preferred).model_dump_json())
    for name, lines in (("pairs", pairs), ("judgments", judgments)):
        (sample_run / name).mkdir()
        (sample_run / name / "imported.jsonl").write_text("\n".join(lines) + "\n")
    people = [
        PhysicianPair(question_id=question.id, first="model-a", second="model-b", rater="dr", preferred="first")
        for question in run.questions()[:8]
    ]
    (sample_run / "physician_pairs.jsonl").write_text("".join(pair.model_dump_json() + "\n" for pair in people))
    done = medjudge("compare", sample_run, "--judge", "imported", "--models", ",".join(MODELS))
    assert done.returncode == 0, done.stderr
    return sample_run


def test_the_page_shows_ranking_swaps_single_scores_and_physicians(compared_run: Path, medjudge) -> None:
    medjudge("report", compared_run)
    page = text_of((compared_run / "report.html").read_text(encoding="utf-8"))
    study = read_pair_study(Run(compared_run), "imported")
    assert study.swaps.disagreeing == 20
    first = study.ranking.models[0]
    row = f"{first.model} {100 * first.win_share['value']:.1f}"
    assert row in page
    assert f"{first.wins} {first.ties} {first.losses}" in page
    few = f"{study.conversations} conversations are too few to tell models apart; it takes 30"
    assert study.conversations < 30
    assert few in page
    screen = summary_lines(study)
    assert screen[0] == few
    meaning = "if every two models met equally often, ties half; wins, ties and losses count the pairs"
    assert meaning in page
    assert any(meaning.split(";")[0] in line for line in screen)
    assert few not in summary_lines(study.model_copy(update={"conversations": 30}))
    assert "20 of 60 pairs changed with the order and count as ties" in page
    assert "prefer the answer shown first; without bias it is 50 %" in page
    assert "The same pairs by scores of single answers" in page
    assert re.search(r"The two ways differ by \d+\.\d (\(.*?\) )?percentage points in the share of wins", page)
    assert any(re.search(r"difference of the shares of wins: \+?\d+\.\d points", line) for line in screen)
    assert "Pairs against physicians' pairs" in page


def test_the_page_says_the_same_in_chinese(compared_run: Path, medjudge) -> None:
    medjudge("report", compared_run, "--lang", "zh")
    page = text_of((compared_run / "report.html").read_text(encoding="utf-8"))
    for words in (
        "按两两比较的排名",
        "组对话太少，无法区分模型",
        "预期胜率是该模型预测的",
        "60对中有20对的结论随顺序改变",
        "位置偏差",
        "两两比较与医生的两两比较",
    ):
        assert words in page


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


def test_a_run_that_only_compares_models_has_a_report(compared_run: Path, medjudge) -> None:
    (compared_run / "judgments" / "imported.jsonl").unlink()
    (compared_run / "judgments").rmdir()
    done = medjudge("report", compared_run)
    assert done.returncode == 0, done.stderr
    assert "Ranking by pairs of answers, judge imported" in text_of((compared_run / "report.html").read_text())
