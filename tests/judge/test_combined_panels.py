from typing import get_args

import numpy as np
import pytest

from medjudge.judge.panel import Rule, combined
from medjudge.scale import median_level


def test_the_mean_leaves_out_who_did_not_score() -> None:
    a, b = np.array([0.1, 0.2, 0.3, 0.4, 0.0]), np.array([0.0, 0.0, 0.0, 0.5, 0.5])
    missing = np.full(5, np.nan)
    rows = np.array([[a, b], [a, missing], [missing, missing]])
    pooled = combined(rows)
    assert pooled[0] == pytest.approx(0.5 * a + 0.5 * b)
    assert pooled[1] == pytest.approx(a)
    assert np.isnan(pooled[2]).all()


@pytest.mark.parametrize("rule", get_args(Rule))
def test_every_rule_returns_a_distribution_between_its_members(rule: str) -> None:
    generator = np.random.default_rng(0)
    rows = generator.dirichlet(np.full(5, 0.5), size=(200, 4))
    rows[generator.random((200, 4)) < 0.2] = np.nan
    rows = rows[np.isfinite(rows).all(axis=2).any(axis=1)]
    pooled = combined(rows, rule)
    assert pooled.min() >= -1e-12
    assert pooled.sum(axis=1) == pytest.approx(1)
    above = 1 - np.cumsum(rows, axis=2)
    of_panel = 1 - np.cumsum(pooled, axis=1)
    assert (of_panel >= np.nanmin(above, axis=1) - 1e-9).all()
    assert (of_panel <= np.nanmax(above, axis=1) + 1e-9).all()


def test_the_median_of_three_members_is_the_middle_level() -> None:
    generator = np.random.default_rng(1)
    rows = generator.dirichlet(np.full(5, 0.3), size=(300, 3))
    levels = np.array([[median_level(row) for row in member] for member in rows])
    middle = np.sort(levels, axis=1)[:, 1]
    assert [median_level(row) for row in combined(rows, "median")] == middle.tolist()
