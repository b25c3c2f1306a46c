"""A judge's verdicts on items against three physicians', by hand."""

from pathlib import Path

import numpy as np
import pytest
from scipy.stats import ttest_1samp
from sklearn.metrics import cohen_kappa_score, f1_score

from medjudge.item_records import ItemJudgment, ItemScore, ItemVerdict
from medjudge.judge.items import item_judgments_file
from medjudge.records import Answer, Question, RubricItem
from medjudge.scheme import LLMEVAL_MED
from medjudge.statistics.alt_test import EPSILON
from medjudge.store import Run, write_records
from medjudge.validation.items import item_study

# Ten questions of each kind, one item each: met by the judge, by physicians A, B and C.
KINDS = [(True, "110"), (True, "011"), (False, "111"), (False, "000")]


def test_items_against_three_physicians(tmp_path: Path) -> None:
    run, text = Run(tmp_path / "run"), "names the dose"
    questions, answers, judgments, scores = [], [], [], []
    rubric = [RubricItem(text=text, points=2, theme="dosing")]
    for number in range(40):
        met, marks = KINDS[number // 10]
        key = {"question_id": f"q{number}", "model": "m"}
        questions.append(
            Question(id=f"q{number}", category="MK", group=f"q{number}", prompt="?", language="en", items=rubric)
        )
        answers.append(Answer(**key, text="So."))
        judgments.append(ItemJudgment(**key, judge="j", items=[ItemVerdict(item=text, met=0.9 if met else 0.2)]))
        scores += [
            ItemScore(**key, rater=rater, item=text, verdict="met" if said == "1" else "not_met")
            for rater, said in zip("ABC", marks, strict=True)
        ]
    run.write_questions(questions, LLMEVAL_MED)
    write_records(run.answers_file, answers)
    item_judgments_file(run, "j").parent.mkdir()
    write_records(item_judgments_file(run, "j"), judgments)
    people = item_study(run, "j", scores, resamples=200).physicians
    # Agreement with the two others, physician's less judge's: for A and C ten of -1, ten of 1, twenty of 0; for B ten
    # of 1, thirty of 0.
    as_a = ttest_1samp(np.repeat([-1, 0, 0, 1], 10), EPSILON, alternative="less").pvalue
    as_b = ttest_1samp(np.repeat([0, 0, 0, 1], 10), EPSILON, alternative="less").pvalue
    assert [row.p_value for row in people.alt_test.raters] == pytest.approx([as_a, as_b, as_a], abs=1e-6)
    # The verdict of more than half: met in the first three kinds.
    judge, majority = np.repeat([1, 1, 0, 0], 10), np.repeat([1, 1, 1, 0], 10)
    for measured in (people.judge, people.by_theme["dosing"]):
        assert measured.kappa["value"] == pytest.approx(cohen_kappa_score(judge, majority), abs=1e-6)
        assert measured.macro_f1["value"] == pytest.approx(f1_score(majority, judge, average="macro"), abs=1e-6)
