import numpy as np
import pytest

from medjudge.refine.trials import Scored, decide


def scored(before, after, unit=None, usable=(True, True)) -> Scored:
    agreed, agree = (np.full(len(before), share) for share in usable)
    unit = np.arange(len(before)) if unit is None else np.array(unit)
    return Scored(np.array(before, dtype=float), np.array(after, dtype=float), agreed, agree, unit)


def test_a_change_is_kept_where_the_interval_of_its_improvement_lies_above_zero() -> None:
    decision = decide(scored([2, 2, 1, 2] * 3, [0, 1, 1, 0] * 3))
    assert decision.kept
    assert decision.improvement == pytest.approx(1.25)
    assert 0 < decision.low < 1.25 < decision.high


@pytest.mark.parametrize(
    ("held_out", "why"),
    [
        (scored([], []), "no held-out answer"),
        (scored([2, 2], [0, 0], unit=["g", "g"]), "a single held-out answer or conversation"),
        (scored([2, 2], [0, 2]), "may be chance"),
        (scored([0] * 6, [1] * 6), "may be chance"),
        (scored([2] * 6, [0.9] * 6, usable=(True, False)), "usable agreement falls from 1.00 to 0.00"),
    ],
)
def test_a_change_without_evidence_is_not_kept(held_out: Scored, why: str) -> None:
    decision = decide(held_out)
    assert not decision.kept
    assert why in decision.why


def test_few_proposals_of_noise_are_kept() -> None:
    draw = np.random.default_rng(0)
    noise = [decide(scored(draw.integers(0, 3, 6), draw.integers(0, 3, 6))).kept for _ in range(400)]
    assert np.mean(noise) < 0.05
