"""Do the intervals of a ranking from pairs hold the truth? The whole table is eval/results/pair-coverage.json."""

import pytest

from eval.statistics.pair_coverage import PairDesign, pair_coverage


@pytest.mark.slow
def test_intervals_of_rankings_from_pairs_cover_the_truth() -> None:
    # 400 studies: a true coverage of 95 % is measured to within 2 points.
    for row in pair_coverage(400, designs=[PairDesign(100), PairDesign(100, models=2, spread=1.0)])["designs"]:
        measures = {name: part for name, part in row.items() if isinstance(part, dict) and "coverage" in part}
        assert measures.keys() >= {"strength", "win_share", "consistency", "shown_first", "kappa"}
        assert all(0.92 <= part["coverage"] <= 0.98 for part in measures.values()), (row["design"], measures)


def test_a_study_without_position_effect_prefers_the_first_half_of_the_time() -> None:
    row = pair_coverage(10, designs=[PairDesign(60, first=0.0)])["designs"][0]
    assert row["shown_first"]["coverage"] >= 0.7
    assert 0 < row["strength"]["mean_width"] < 2
