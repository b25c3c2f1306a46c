import numpy as np
import pytest

from medjudge.refine.trials import Decision, decide


def decided(improvement, agreed: bool = True, agree: bool = True) -> Decision:
    agreements = (np.full(len(improvement), share) for share in (agreed, agree))
    return decide(np.array(improvement, dtype=float), *agreements)


def test_a_change_is_kept_where_the_interval_of_its_improvement_lies_above_zero() -> None:
    decision = decided([2, 1, 0, 2] * 3)
    assert decision.kept
    assert decision.improvement == pytest.approx(1.25)
    assert 0 < decision.low < 1.25 < decision.high


@pytest.mark.parametrize(
    ("improvement", "agree", "why"),
    [
        ([], True, "0 held-out answers give no interval"),
        ([2], True, "1 held-out answers give no interval"),
        ([2, 0], True, "may be chance"),
        ([-1] * 6, True, "may be chance"),
        ([1.1] * 6, False, "usable agreement falls from 1.00 to 0.00"),
    ],
)
def test_a_change_without_evidence_is_not_kept(improvement: list[float], agree: bool, why: str) -> None:
    decision = decided(improvement, agree=agree)
    assert not decision.kept
    assert why in decision.why


def test_few_proposals_of_noise_are_kept() -> None:
    draw = np.random.default_rng(0)
    assert np.mean([decided(draw.integers(-2, 3, 6)).kept for _ in range(400)]) < 0.05
