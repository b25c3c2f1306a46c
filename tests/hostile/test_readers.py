"""Every reader reads a hostile file or reply, or refuses it with an error for the user: never anything else."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eval.robustness.hostile_inputs import hostile_files, hostile_texts
from eval.robustness.hostile_readers import TEXT_READERS, Outcome, outcome_of_file, outcome_of_text, readers

few = settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@pytest.mark.slow
@pytest.mark.parametrize("reader", readers(), ids=lambda reader: reader.name)
def test_a_file_is_read_or_refused(reader) -> None:
    for valid in reader.valid:
        assert outcome_of_file(reader, valid) == Outcome(read=True)

    @few
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        assert outcome_of_file(reader, data.draw(hostile_files(reader))).problem is None

    holds()


@pytest.mark.parametrize("reader", TEXT_READERS, ids=lambda reader: reader.name)
def test_a_reply_is_read_or_refused(reader) -> None:
    for valid in reader.valid:
        assert outcome_of_text(reader, valid) == Outcome(read=True)

    @few
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        assert outcome_of_text(reader, data.draw(hostile_texts(reader))).problem is None

    holds()
