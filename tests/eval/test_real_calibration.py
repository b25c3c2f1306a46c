"""The calibration part of the study on real scores: what each map may and may not know."""

import numpy as np
import pytest
from real_calibration import MAPS, Scored, calibrations

SUBJECTS = ("law", "maths")


@pytest.fixture(scope="module")
def scored() -> Scored:
    """A teacher that is too lenient in law and too strict in mathematics."""
    draw = np.random.default_rng(0)
    n = 600
    people = draw.integers(1, 6, n)
    subject = np.array([SUBJECTS[number % 2] for number in range(n)], dtype=object)
    levels = np.clip(people + np.where(subject == "law", 1, -1), 1, 5)
    conversation = np.array([f"c{number // 4}" for number in range(n)], dtype=object)
    return Scored(levels.astype(float), np.eye(5)[levels - 1], levels, people, subject, conversation)


def test_only_maps_that_know_the_subject_mend_a_bias_that_changes_sign(scored: Scored) -> None:
    table = calibrations(scored)
    assert list(table) == list(MAPS)
    agreement = {name: row["usable_agreement"]["after"]["value"] for name, row in table.items()}
    assert agreement["by subject"] > agreement["global"] + 0.1
    assert agreement["by subject, shrunk to the global map"] > agreement["global"] + 0.1
    assert table["none"]["log_loss"]["difference"]["value"] == 0
    errors = {name: row["rates"]["mean_error"] for name, row in table.items()}
    assert errors["by subject"] < errors["none"] / 2


def test_a_map_sees_nothing_of_the_answers_that_it_labels(scored: Scored) -> None:
    nonsense = scored._replace(people=np.random.default_rng(1).permutation(scored.people))
    table = calibrations(nonsense)
    for name in MAPS:
        assert table[name]["log_loss"]["after"]["value"] > np.log(5) - 0.1  # no better than knowing nothing
