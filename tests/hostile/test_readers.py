"""Every reader reads a hostile file or reply, or refuses it with an error for the user: never anything else."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eval.robustness.hostile_inputs import hostile_files
from eval.robustness.hostile_readers import READERS, Outcome, Reader, outcome

few = settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
OF_REPLIES = [reader for reader in READERS if reader.kind == "reply"]
OF_FILES = [pytest.param(reader, marks=pytest.mark.slow) for reader in READERS if reader.kind != "reply"]


@pytest.mark.parametrize("reader", [*OF_REPLIES, *OF_FILES], ids=lambda reader: reader.name)
def test_a_file_or_reply_is_read_or_refused(reader: Reader) -> None:
    for valid in reader.valid:
        assert outcome(reader, valid) == Outcome(read=True)

    @few
    @given(st.data())
    def holds(data: st.DataObject) -> None:
        assert outcome(reader, data.draw(hostile_files(reader))).problem is None

    holds()
