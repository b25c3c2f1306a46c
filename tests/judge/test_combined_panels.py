from typing import get_args

import numpy as np
import pytest

from medjudge.judge.panel import Rule, combined
from medjudge.scale import median_level


@pytest.mark.parametrize("rule", get_args(Rule))
def test_every_rule_returns_a_distribution_between_its_members(rule: str) -> None:
    generator = np.random.default_rng(0)
    rows = generator.dirichlet(np.full(5, 0.5), size=(200, 4))
    rows[generator.random((200, 4)) < 0.2] = np.nan
    scored = np.isfinite(rows).all(axis=2).any(axis=1)
    assert np.isnan(combined(rows, rule)).all(axis=1).tolist() == (~scored).tolist()
    rows, pooled = rows[scored], combined(rows[scored], rule)
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
