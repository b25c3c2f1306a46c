import numpy as np
import pytest
from sklearn.metrics import brier_score_loss

from medjudge.validation.confidence import confidence

GENERATOR = np.random.default_rng(3)


def test_an_honest_judge_is_calibrated(pairs) -> None:
    # Physicians who draw their level from the judge's own probabilities.
    probabilities = GENERATOR.dirichlet(np.full(5, 0.5), 800)
    level = np.array([GENERATOR.choice(5, p=row) for row in probabilities]) + 1
    chance = probabilities[:, 3:].sum(axis=1)
    study = pairs(np.where(chance >= 0.5, 5, 1), level, usable_probability=chance)
    result = confidence(study, resamples=500)
    usable = study.physician >= 4
    assert result.brier["value"] == pytest.approx(brier_score_loss(usable, study.usable_probability), abs=1e-6)
    assert result.brier["low"] < result.brier["value"] < result.brier["high"]
    assert result.ece < 0.06
    assert sum(part["n"] for part in result.curve) == 800


def test_a_judge_without_probabilities_has_no_confidence(pairs) -> None:
    assert confidence(pairs([5, 1], [4, 2])) is None
