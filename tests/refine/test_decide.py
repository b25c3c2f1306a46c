import numpy as np
import pytest

from medjudge.refine.trials import Scored, Trial, decide


def scored(before, after, physician, cluster) -> Scored:
    before, after, physician = (np.asarray(column, dtype=float) for column in (before, after, physician))
    levels = [np.floor(column).astype(int) for column in (before, after)]
    return Scored(before, after, *levels, physician, physician >= 4, np.asarray(cluster).astype(str))


def trial(draw: np.random.Generator, effect: float, models: int = 4, samples: int = 2) -> Trial:
    """The judge is two levels lenient; the change takes `effect` of it off, and every judging has its noise."""

    def part() -> Scored:
        cluster = np.repeat(np.arange(models), samples)
        n = len(cluster)
        physician = draw.integers(1, 4, n)
        before = np.clip(physician + 2 + np.round(draw.normal(0, 0.5, n)), 1, 5)
        after = np.clip(physician + 2 - effect + np.round(draw.normal(0, 0.5, n)), 1, 5)
        return scored(before, after, physician, cluster)

    return Trial(part(), part())


def test_of_many_proposals_of_noise_few_are_kept_and_good_ones_are() -> None:
    draw = np.random.default_rng(0)
    kept = [sum(number.kept for number in decide([trial(draw, 0) for _ in range(30)], 0.2)) for _ in range(40)]
    assert np.mean(kept) < 0.5  # of 30; without correction and screen about five would pass
    mixed = [decide([trial(draw, 1.5 if place < 10 else 0) for place in range(30)], 0.2) for _ in range(20)]
    good = sum(decision.kept for run in mixed for decision in run[:10])
    wrong = sum(decision.kept for run in mixed for decision in run[10:])
    assert good >= 0.8 * 200
    assert wrong / (good + wrong) < 0.2
    assert all(decision.improvement > decision.standard_error for run in mixed for decision in run if decision.kept)


def test_the_standard_error_is_that_of_a_paired_bootstrap_over_clusters() -> None:
    draw = np.random.default_rng(1)
    decided = trial(draw, 1.0, models=60)
    (decision,) = decide([decided], 0.2)
    means = decided.held_out.improvement().reshape(60, 2).mean(axis=1)
    drawn = means[draw.integers(0, 60, (20_000, 60))].mean(axis=1)
    assert decision.improvement == pytest.approx(means.mean())
    assert decision.standard_error == pytest.approx(drawn.std(), rel=0.05)


def test_a_change_without_evidence_is_not_kept() -> None:
    lone = scored([4, 4], [2, 2], [2, 2], ["m", "m"])
    better = scored([4, 4], [2, 2], [2, 2], ["a", "b"])
    worse = scored([2, 2], [4, 4], [2, 2], ["a", "b"])
    nothing = scored([], [], [], [])
    assert "no other change" in decide([Trial(lone, better)], 0.2)[0].why
    assert "answers it was made from" in decide([Trial(better, worse)], 0.2)[0].why
    assert "no held-out answer" in decide([Trial(nothing, better)], 0.2)[0].why
    assert decide([], 0.2) == []


def test_usable_agreement_may_not_fall() -> None:
    # Nearer in levels, but usable answers are called unusable.
    many = [str(number) for number in range(12)]
    before, after, physician = [1] * 6 + [5] * 6, [3] * 6 + [3.9] * 6, [3] * 6 + [4] * 6
    held = scored(before, after, physician, many)
    (decision,) = decide([Trial(held, held)], 0.2)
    assert not decision.kept
    assert "usable agreement falls from 1.00 to 0.50" in decision.why
