"""Do the intervals of items and of a mean level hold the truth? The whole table is eval/results/item-coverage.json."""

import pytest

from eval.statistics.item_coverage import ItemDesign, LevelDesign, item_coverage, level_coverage


@pytest.mark.slow
def test_intervals_of_items_cover_the_truth() -> None:
    # 400 studies: a true coverage of 95 % is measured to within 2 points.
    row = item_coverage(400, designs=[ItemDesign(50)])["designs"][0]
    for name in ("agreement", "kappa", "macro_f1", "share_of_points"):
        assert 0.92 <= row[name]["coverage"] <= 0.98, (name, row[name])


def test_more_conversations_and_more_questions_narrow_the_intervals() -> None:
    few, many = item_coverage(5, designs=[ItemDesign(20), ItemDesign(200)])["designs"]
    for name in ("agreement", "kappa", "macro_f1", "share_of_points"):
        assert many[name]["mean_width"] < few[name]["mean_width"] / 2
    few, many = level_coverage(2, designs=[LevelDesign(15), LevelDesign(60)])["designs"]
    assert many["mean_level"]["mean_width"] < few["mean_level"]["mean_width"]
