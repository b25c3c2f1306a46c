"""The simulation behind the stated false-alarm rate of `validate --since`, in small."""

import pytest

from eval.statistics.drift_alarm import Design, alarms


@pytest.mark.slow
@pytest.mark.parametrize("shared", [0.0, 1.0])
def test_a_false_alarm_is_at_most_as_frequent_as_stated_and_a_large_fall_is_seen(shared: float) -> None:
    unchanged = Design(conversations=30, shared=shared, spread=0.15, fall=0.0)
    assert alarms(unchanged, 60, rate=0.1) <= 0.2  # above it with a probability of 0.6 % if the rate holds
    assert alarms(unchanged._replace(conversations=100, fall=0.2), 20) >= 0.8
