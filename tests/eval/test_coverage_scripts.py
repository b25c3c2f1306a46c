"""The simulations behind stated coverages, in small; the whole tables are in eval/results."""

import pytest

from eval.statistics.item_coverage import ItemDesign, item_coverage
from eval.statistics.pair_coverage import PairDesign, pair_coverage

OF_ITEMS = ("agreement", "kappa", "macro_f1", "share_of_points")


@pytest.mark.slow
def test_intervals_of_items_and_of_rankings_from_pairs_cover_the_truth() -> None:
    # 150 studies: a true coverage of 95 % is measured to within 4 points.
    (items,) = item_coverage(150, designs=[ItemDesign(50)])["designs"]
    rows = [{name: items[name] for name in OF_ITEMS}]
    for row in pair_coverage(150, designs=[PairDesign(100), PairDesign(100, models=2, spread=1.0)])["designs"]:
        rows.append({name: part for name, part in row.items() if isinstance(part, dict) and "coverage" in part})
        assert rows[-1].keys() >= {"strength", "win_share", "consistency", "shown_first", "kappa"}
    assert all(0.9 <= part["coverage"] <= 0.99 for row in rows for part in row.values()), rows
