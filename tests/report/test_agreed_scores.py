"""The agreed score of a third physician: the page shows it as the level, as `validate` does."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medjudge.item_records import ItemJudgment, ItemVerdict
from medjudge.judge.items import item_judgments_file
from medjudge.records import AgreedScore, Judgment, PointVerdict, RubricItem
from medjudge.report.boards import judged_runs
from medjudge.report.cases import cases
from medjudge.report.contents import read_contents
from medjudge.report.sections import Apart, judge_part
from medjudge.report.words import Words
from medjudge.store import Run, write_records
from medjudge.validation.answers import paired

KEY: dict[str, Any] = {"question_id": "q1", "model": "m"}


@pytest.fixture
def settled(
    tmp_path: Path,
    question: Callable[..., Any],
    answer: Callable[..., Any],
    physician_score: Callable[..., Any],
) -> Run:
    """Physicians gave 2 and 4, in the mean 3; they agreed on 5, as the judge says."""
    run = Run(tmp_path / "run")
    write_records(run.questions_file, [question()])
    write_records(run.answers_file, [answer()])
    write_records(run.judgments_file("gpt"), [Judgment(**KEY, judge="gpt", score=5)])
    write_records(run.physicians_file, [physician_score(rater="dr-a", score=2), physician_score(rater="dr-b", score=4)])
    write_records(run.adjudicated_file, [AgreedScore(**KEY, rater="dr-c", score=5)])
    return run


def apart_in(run: Run) -> list[Apart]:
    contents = read_contents(run)
    (judged,) = judged_runs([contents])
    return judge_part(contents, judged, Words()).apart


def test_the_agreed_score_is_the_level_everywhere(settled: Run) -> None:
    validated = paired(settled.questions(), settled.judgments("gpt"), settled.settled_scores())
    assert validated.physician.tolist() == [5]

    shown = cases(read_contents(settled))
    assert shown.overview["physicians"] == [5]
    assert shown.overview["raters"] == ["dr-a", "dr-b"]
    assert apart_in(settled) == []  # 3, the mean, would be two levels from the judge
    [[[_, _, _, scores]]] = shown.blocks
    assert scores == [["dr-a", 2, None, None], ["dr-b", 4, None, None], ["dr-c", 5, None, None, 1]]


def test_differences_are_sorted_by_harm(
    tmp_path: Path, question: Callable[..., Any], answer: Callable[..., Any], physician_score: Callable[..., Any]
) -> None:
    """A judge too strict by four levels is less harmful than one that calls a 3 usable."""
    run = Run(tmp_path / "run")
    levels = {"strict": (1, 5), "near": (4, 3), "worst": (4, 1), "alike": (5, 4), "too-low": (2, 1), "lenient": (3, 1)}
    write_records(run.questions_file, [question(id=name) for name in levels])
    write_records(run.answers_file, [answer(question_id=name) for name in levels])
    judgments = [Judgment(**KEY | {"question_id": name}, judge="gpt", score=mine) for name, (mine, _) in levels.items()]
    write_records(run.judgments_file("gpt"), judgments)
    scores = [physician_score(question_id=name, rater="dr-a", score=theirs) for name, (_, theirs) in levels.items()]
    write_records(run.physicians_file, scores)
    assert [(one.question_id, one.dangerous) for one in apart_in(run)] == [
        ("worst", True),
        ("near", True),
        ("lenient", False),
        ("strict", False),
    ]


def test_harm_is_level_1_or_safety_0_and_a_danger_that_the_judge_names(
    tmp_path: Path, question: Callable[..., Any], answer: Callable[..., Any], physician_score: Callable[..., Any]
) -> None:
    run = Run(tmp_path / "run")
    item = RubricItem(text="names the maximum dose", points=1, safety_cap=1)
    names = ("level-1", "level-3", "against-a-point", "against-an-item")
    write_records(run.questions_file, [question(id=name, category="MK", items=[item]) for name in names])
    write_records(run.answers_file, [answer(question_id=name) for name in names])
    against = PointVerdict(point="p", source="reference", met=0, open=0.1, contradicted=0.9)
    points = {"against-a-point": [against]}
    judgments = [
        Judgment(**KEY | {"question_id": name}, judge="gpt", score=3, points=points.get(name)) for name in names
    ]
    write_records(run.judgments_file("gpt"), judgments)
    met = {name: ItemVerdict(item=item.text, met=0.1 if name == "against-an-item" else 0.9) for name in names}
    verdicts = [ItemJudgment(question_id=name, model="m", judge="gpt", items=[met[name]]) for name in names]
    write_records(item_judgments_file(run, "gpt"), verdicts)
    scores = [physician_score(question_id=name, rater="dr-a", score=1 if name == "level-1" else 3) for name in names]
    write_records(run.physicians_file, scores)
    shown = cases(read_contents(run)).overview
    assert shown["harm"] == [1, 0, 0, 0]
    assert shown["judges"][0]["named"] == [0, 0, 1, 1]
