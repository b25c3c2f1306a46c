"""Do the rows of the built-in judge's study count what they say? A judge with a rule stands in for a model."""

import json
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, roc_auc_score

from eval.lib import study
from eval.quality import built_in
from eval.quality.built_in import Bench, Case, Verdict, agreement, share
from medjudge.judge.protocol import Assignment, scored, unscored
from medjudge.records import Answer, ErrorKind, Judgment, PointVerdict, Question, TrainingLine


class RuleJudge:
    """Says what a rule says of an assignment: a level, or None for no score; backwards, because order is free."""

    name = "rule"

    def __init__(self, rule: Callable[[Assignment], int | None]) -> None:
        self.rule = rule

    def judge(self, work: Sequence[Assignment]) -> Iterator[Judgment]:
        for each in reversed(work):
            level = self.rule(each)
            if level is None:
                yield unscored(each, self.name, ErrorKind.NO_REFERENCE, "no reference")
            else:
                points = [PointVerdict(point="p", source="reference", met=0.0, open=0.0, contradicted=1.0)]
                yield scored(each, self.name, np.eye(5)[level - 1], points=points if level == 4 else None)


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Bench]:
    def build(rule: Callable[[Assignment], int | None], **fields: Any) -> Bench:
        return Bench(RuleJudge(rule), tmp_path, tmp_path, tmp_path, "choose", **fields)

    return build


def asked(name: str, **fields: Any) -> Question:
    values = {"id": name, "group": name, "category": "MK", "prompt": "What helps?", "reference": "r", "language": "en"}
    return Question.model_validate({**values, **fields})


def line(number: int, level: int, text: str, source: str = "contrasts", **fields: Any) -> TrainingLine:
    question = asked("same-name", **fields)
    answer = Answer(question_id=question.id, model=source, sample=number, text=text)
    by = {"source": "synthetic", "scored_by": [source]}
    return TrainingLine(question=question, earlier=[], answer=answer, level=level, probabilities=[0.2] * 5, **by)


def write_lines(folder: Path, lines: Sequence[TrainingLine]) -> None:
    (folder / "choose.jsonl").write_text("".join(each.model_dump_json() + "\n" for each in lines))


def value(result: dict[str, Any]) -> float:
    assert isinstance(result["value"], float)
    return result["value"]


def test_agreement_is_that_of_scikit_learn_and_questions_are_drawn_whole() -> None:
    draw = np.random.default_rng(0)
    level, score = draw.integers(1, 6, 60), draw.integers(1, 6, 60)
    expected = np.clip((score + draw.normal(0, 0.2, 60)).round(1), 1, 5)
    question, answer = asked("q"), Answer(question_id="q", model="m", text="t")
    verdicts = [
        Verdict(
            Case(Assignment(question, (), answer), int(level[at]), f"q{at // 6}"),
            Judgment(question_id="q", model="m", judge="j", score=int(score[at]), expected=float(expected[at])),
        )
        for at in range(60)
    ]
    found = agreement(verdicts)
    assert (found["answers"], found["questions"]) == (60, 10)
    for name, expected_value in {
        "auc": roc_auc_score(level >= 4, expected),
        "quadratic_kappa": cohen_kappa_score(level, score, weights="quadratic"),
        "cohen_kappa": cohen_kappa_score(level >= 4, score >= 4),
        "usable_agreement": ((level >= 4) == (score >= 4)).mean(),
    }.items():
        assert value(found[name]) == pytest.approx(expected_value, abs=1e-6)
    assert found["auc"]["low"] < found["auc"]["value"] < found["auc"]["high"]
    assert share(verdicts)["n"] == 60
    assert value(share(verdicts)) == pytest.approx((score >= 4).mean(), abs=1e-6)


def test_lines_under_one_name_keep_their_own_references_and_unscored_ones_are_counted(
    bench: Callable[..., Bench], tmp_path: Path
) -> None:
    lines = [line(0, 5, "a", reference="a"), line(1, 1, "b", reference="a"), line(2, 5, "c", reference="c")]
    lines += [line(3, 5, "d", reference=None, checklist="1. d"), line(4, 5, "x", source="other")]
    write_lines(tmp_path, lines)
    levels = {None: None, True: 5, False: 1}
    judge = bench(lambda each: levels[each.question.reference and each.question.reference == each.answer.text])
    found = built_in.measure(judge, "contrasts", frozenset({"same-name"}))
    assert (found["judged"], found["unscored"], found["questions_trained_on"]) == (4, {"no_reference": 1}, 1)
    assert found["result"]["answers"] == 3
    assert value(found["result"]["auc"]) == value(found["result"]["usable_agreement"]) == 1


def test_pairs_and_keys_are_read_from_both_ends(bench: Callable[..., Bench]) -> None:
    # Level 4 for every right answer; a wrong one gets 5 in Chinese and 1 in English.
    judge = bench(lambda each: 4 if each.answer.model == "right" else 5 if each.question.language == "zh" else 1)
    found = built_in.short_pairs(judge)
    assert found["all"]["ordered"]["n"] == 200
    shares = {name: value(found["all"][name]) for name in ("right_usable", "wrong_usable", "ordered")}
    assert shares == {"right_usable": 1, "wrong_usable": 0.55, "ordered": 0.45}
    assert [value(found[f"language {language}"]["ordered"]) for language in ("en", "zh")] == [1, 0]
    assert sum(found[name]["ordered"]["n"] for name in found if name.startswith("tests ")) == 200
    keys = built_in.answer_keys(bench(lambda each: 5 if each.answer.model == "right" else 1))
    assert [value(keys[name]) for name in ("right_usable", "wrong_usable")] == [1, 0]
    assert keys["right_usable"]["n"] + keys["wrong_usable"]["n"] == 27


def test_each_row_of_each_judge_is_an_entry_and_the_others_stay(
    tiny_similarity: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(study, "RESULTS", tmp_path / "results")
    for name in built_in.SETS:
        (tmp_path / name).mkdir()
    write_lines(tmp_path, [line(0, 5, "a", reference="a"), line(1, 1, "b", reference=None)])
    for row in ("contrasts", "answer-keys"):
        words = ["built_in.py", *[str(tmp_path)] * 3, "--judge", str(tiny_similarity), "--rows", row]
        monkeypatch.setattr("sys.argv", words)
        built_in.main()
    entries = json.loads((tmp_path / "results/built-in.json").read_text())
    assert list(entries) == ["similarity contrasts choose", "similarity answer-keys choose"]
    assert entries["similarity contrasts choose"]["unscored"] == {"no_reference": 1}
    assert str(tmp_path) not in entries["similarity contrasts choose"]["command"]
    assert "right_usable" in capsys.readouterr().out
