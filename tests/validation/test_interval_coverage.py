"""Do 95 % intervals hold the truth? The whole table is eval/results/interval-coverage.json."""

import pytest

from eval.statistics.interval_coverage import MEASURES, Design, agreement_coverage, agreement_designs, ppi_coverage

STUDIES = 400
LOW, HIGH = 0.92, 0.98
"""95 % within almost three standard errors of a share of 400 studies."""


@pytest.mark.slow
def test_intervals_of_agreement_cover_the_truth_in_95_percent_of_studies() -> None:
    designs = [design for design in agreement_designs() if design.conversations >= 100]
    assert len(designs) == 5
    for row in agreement_coverage(STUDIES, designs=designs)["designs"]:
        coverage = {name: row[name]["coverage"] for name in MEASURES}
        assert all(LOW <= share <= HIGH for share in coverage.values()), (row["design"], coverage)


@pytest.mark.slow
def test_prediction_powered_intervals_cover_the_truth_in_95_percent_of_studies() -> None:
    talk = {"most_answers": 5, "correlation": 0.3, "shared_errors": 0.5}
    designs = [
        Design(100),
        Design(300, 0.5, 0.8, 0.8),
        Design(100, 0.5, 0.98, 0.6, **talk),
        Design(300, 0.85, 0.9, 0.9, **talk, share_scored=0.5),
    ]
    for row in ppi_coverage(STUDIES, designs=designs)["designs"]:
        assert LOW <= row["coverage"] <= HIGH, row
        assert row["mean_width"] < 1.03 * row["physicians_only_width"], row
