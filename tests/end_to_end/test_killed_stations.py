"""Stations without a model, killed at random moments, end with the same files (at length: eval/robustness/kills.py)."""

from pathlib import Path

import pytest

from eval.robustness.kills import STATIONS, kill_until_it_ends, start_folder

KILLS = 5


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return start_folder(tmp_path_factory.mktemp("start"))


@pytest.mark.slow
@pytest.mark.parametrize("name", STATIONS)
def test_killed_a_station_ends_as_one_that_was_not(name: str, start: Path, tmp_path: Path) -> None:
    assert kill_until_it_ends(STATIONS[name], start, tmp_path, KILLS, seed=17) >= 1
