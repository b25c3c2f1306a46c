"""A judge's verdicts on items against three physicians', by hand."""

import numpy as np
import pytest
from scipy.stats import ttest_1samp
from sklearn.metrics import cohen_kappa_score, f1_score
from statsmodels.stats.multitest import multipletests

from medjudge.item_records import ItemJudgment, ItemScore, ItemVerdict
from medjudge.records import Answer, Question, RubricItem
from medjudge.statistics.alt_test import EPSILON
from medjudge.validation.items import ItemMaterial, item_study

# Ten questions of each kind, one item each: met by the judge, by physicians A, B and C.
KINDS = [(True, "110"), (True, "011"), (False, "111"), (False, "000")]


def test_the_alternative_annotator_test_on_items_is_the_one_by_hand() -> None:
    cases = [(f"q{number}", *KINDS[number // 10]) for number in range(40)]
    rubric = [RubricItem(text="names the dose", points=2, theme="dosing")]
    answer = {"model": "m", "sample": 0}
    material = ItemMaterial(
        [Question(id=name, category="MK", group=name, prompt="?", language="en", items=rubric) for name, *_ in cases],
        [Answer(question_id=name, text="So.", **answer) for name, *_ in cases],
        [
            ItemJudgment(
                question_id=name,
                judge="j",
                items=[ItemVerdict(item="names the dose", met=0.9 if met else 0.2)],
                **answer,
            )
            for name, met, _ in cases
        ],
        [
            ItemScore(
                question_id=name,
                rater=rater,
                item="names the dose",
                verdict="met" if said == "1" else "not_met",
                **answer,
            )
            for name, _, marks in cases
            for rater, said in zip("ABC", marks, strict=True)
        ],
    )
    people = item_study("j", material, resamples=200).physicians
    assert people is not None
    assert people.alt_test is not None
    # Agreement with the two others, physician's less judge's: for A and C ten of -1, ten of 1, twenty of 0; for B ten
    # of 1, thirty of 0.
    as_a = ttest_1samp(np.repeat([-1, 0, 0, 1], 10), EPSILON, alternative="less").pvalue
    as_b = ttest_1samp(np.repeat([0, 0, 0, 1], 10), EPSILON, alternative="less").pvalue
    won = multipletests([as_a, as_b, as_a], 0.05, "fdr_by")[0]
    assert [row.p_value for row in people.alt_test.raters] == pytest.approx([as_a, as_b, as_a], abs=1e-6)
    assert people.alt_test.omega == pytest.approx(won.mean())
    # The verdict of more than half: met in the first three kinds.
    judge, majority = np.repeat([1, 1, 0, 0], 10), np.repeat([1, 1, 1, 0], 10)
    for measured in (people.judge, people.by_theme["dosing"]):
        assert measured.kappa["value"] == pytest.approx(cohen_kappa_score(judge, majority), abs=1e-6)
        assert measured.macro_f1["value"] == pytest.approx(f1_score(majority, judge, average="macro"), abs=1e-6)
