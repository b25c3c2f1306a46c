"""Agreement of two raters on items, against scikit-learn."""

import numpy as np
import pytest
from sklearn.metrics import cohen_kappa_score, f1_score

from medjudge.statistics.item_agreement import met_agreement


def test_kappa_and_macro_f1_are_those_of_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    physician = draw.random(400) < 0.7
    judge = np.where(draw.random(400) < 0.8, physician, ~physician)
    measured = met_agreement(judge, physician, np.arange(400) // 4, resamples=300)
    assert measured.kappa["value"] == pytest.approx(cohen_kappa_score(judge, physician), abs=1e-6)
    assert measured.macro_f1["value"] == pytest.approx(f1_score(physician, judge, average="macro"), abs=1e-6)
    assert measured.agreement["value"] == pytest.approx((judge == physician).mean(), abs=1e-6)
    assert measured.kappa["low"] < measured.kappa["value"] < measured.kappa["high"]


def test_where_one_verdict_is_given_throughout_there_is_no_kappa() -> None:
    same = np.ones(5, dtype=bool)
    measured = met_agreement(same, same, np.arange(5), resamples=50)
    assert (measured.kappa["value"], measured.macro_f1["value"]) == (None, 1)
    one = met_agreement(same, np.array([True, True, True, True, False]), np.arange(5), resamples=50)
    assert one.macro_f1["value"] == pytest.approx(f1_score([1, 1, 1, 1, 0], [1] * 5, average="macro"), abs=1e-6)
    with pytest.raises(ValueError, match="one length"):
        met_agreement(same, same[:3], np.arange(5))
