import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from medjudge.validation.confidence import confidence

GENERATOR = np.random.default_rng(3)


def honest(pairs, n: int, **columns: object):
    """Physicians who draw their level from the judge's own probabilities."""
    probabilities = GENERATOR.dirichlet(np.full(5, 0.5), n)
    level = np.array([GENERATOR.choice(5, p=row) for row in probabilities]) + 1
    usable = probabilities[:, 3:].sum(axis=1)
    judge = np.where(usable >= 0.5, 5, 1)
    return pairs(judge, level, usable_probability=usable, **columns)


def test_an_honest_judge_is_calibrated(pairs) -> None:
    study = honest(pairs, 800)
    result = confidence(study, resamples=500)
    usable = study.physician >= 4
    assert result.brier["value"] == pytest.approx(brier_score_loss(usable, study.usable_probability), abs=1e-6)
    assert result.brier["low"] < result.brier["value"] < result.brier["high"]
    assert result.ece < 0.06
    assert sum(part["n"] for part in result.curve) == 800


def test_risk_falls_where_the_judge_may_keep_silent(pairs) -> None:
    curve = confidence(honest(pairs, 600), resamples=100).risk_coverage
    assert len(curve) <= 100
    assert curve[-1]["coverage"] == 1
    assert curve[len(curve) // 2]["risk"] < curve[-1]["risk"]


def test_a_judge_without_probabilities_has_no_confidence(pairs) -> None:
    assert confidence(pairs([5, 1], [4, 2])) is None
