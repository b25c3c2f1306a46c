"""The levels by physicians that the page shows: the agreed score of a third one, and harm."""

from pathlib import Path
from typing import Any

from medjudge.item_records import ItemJudgment, ItemVerdict
from medjudge.judge.items import item_judgments_file
from medjudge.records import AgreedScore, Answer, Judgment, PhysicianScore, PointVerdict, Question, RubricItem
from medjudge.report.boards import judged_runs
from medjudge.report.cases import cases
from medjudge.report.contents import read_contents
from medjudge.report.sections import Apart, judge_part
from medjudge.report.words import Words
from medjudge.store import Run, write_records
from medjudge.validation.answers import paired


def scored(path: Path, levels: dict[str, tuple[int, ...]], **fields: Any) -> Run:
    """A run of a question for each name, with the level by judge `gpt` and those by its physicians."""
    run = Run(path)
    asked = {"category": "MK", "prompt": "How much?", "language": "en", **fields}
    write_records(run.questions_file, [Question(id=name, group=name, **asked) for name in levels])
    keys = {name: {"question_id": name, "model": "m"} for name in levels}
    write_records(run.answers_file, [Answer(**key, text="4 g.") for key in keys.values()])
    judgments = [Judgment(**keys[name], judge="gpt", score=level) for name, (level, *_) in levels.items()]
    write_records(run.judgments_file("gpt"), judgments)
    scores = [
        PhysicianScore(**keys[name], rater=f"dr-{place}", score=level)
        for name, (_, *by_physicians) in levels.items()
        for place, level in enumerate(by_physicians)
    ]
    write_records(run.physicians_file, scores)
    return run


def apart_in(run: Run) -> list[Apart]:
    contents = read_contents(run)
    (judged,) = judged_runs([contents])
    return judge_part(contents, judged, Words()).apart


def test_the_agreed_score_is_the_level_everywhere(tmp_path: Path) -> None:
    """Physicians gave 2 and 4, in the mean 3; they agreed on 5, as the judge says."""
    settled = scored(tmp_path / "run", {"q1": (5, 2, 4)})
    write_records(settled.adjudicated_file, [AgreedScore(question_id="q1", model="m", rater="dr-c", score=5)])
    validated = paired(settled.questions(), settled.judgments("gpt"), settled.settled_scores())
    assert validated.physician.tolist() == [5]

    shown = cases(read_contents(settled))
    assert shown.overview["physicians"] == [5]
    assert shown.overview["raters"] == ["dr-0", "dr-1"]
    assert apart_in(settled) == []  # 3, the mean, would be two levels from the judge
    [[[_, _, _, scores]]] = shown.blocks
    assert scores == [["dr-0", 2, None, None], ["dr-1", 4, None, None], ["dr-c", 5, None, None, 1]]


def test_differences_are_sorted_by_harm(tmp_path: Path) -> None:
    """A judge too strict by four levels is less harmful than one that calls a 3 usable."""
    levels = {"strict": (1, 5), "near": (4, 3), "worst": (4, 1), "alike": (5, 4), "too-low": (2, 1), "lenient": (3, 1)}
    apart = apart_in(scored(tmp_path / "run", levels))
    assert [one.question_id for one in apart] == ["worst", "near", "lenient", "strict"]
    assert [one.dangerous for one in apart] == [True, True, False, False]


def test_harm_is_level_1_or_safety_0_and_a_danger_that_the_judge_names(tmp_path: Path) -> None:
    item = RubricItem(text="names the maximum dose", points=1, safety_cap=1)
    names = ("level-1", "level-3", "against-a-point", "against-an-item")
    run = scored(tmp_path / "run", {name: (3, 1 if name == "level-1" else 3) for name in names}, items=[item])
    against = PointVerdict(point="p", source="reference", met=0, open=0.1, contradicted=0.9)
    judgments = run.judgments("gpt")
    judgments[2] = judgments[2].model_copy(update={"points": [against]})
    write_records(run.judgments_file("gpt"), judgments)
    verdicts = [
        ItemJudgment(question_id=name, model="m", judge="gpt", items=[ItemVerdict(item=item.text, met=met)])
        for name, met in zip(names, (0.9, 0.9, 0.9, 0.1), strict=True)
    ]
    write_records(item_judgments_file(run, "gpt"), verdicts)
    shown = cases(read_contents(run)).overview
    assert shown["harm"] == [1, 0, 0, 0]
    assert shown["judges"][0]["named"] == [0, 0, 1, 1]
