"""What is counted about the rule that compares quoted sentences."""

import pytest
import reader_facts
from reader_facts import Compared, drugs_found, misquotes


def test_most_drugs_of_the_generator_are_found_in_the_place_of_another() -> None:
    found = drugs_found()
    assert set(found) == {"drugs, en", "drugs, zh"}
    for hits in found.values():
        assert len(hits) > 100
        assert sum(hits) / len(hits) > 0.8


def test_a_drug_that_stands_in_the_place_of_no_drug_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    with_water = {"en": ("The patient takes {} every morning before breakfast.", ("water",))}
    monkeypatch.setattr(reader_facts, "SENTENCES_WITH_A_DRUG", with_water)
    assert not any(drugs_found()["drugs, en"])


def test_a_quote_with_another_drug_is_counted_and_one_in_another_order_is_not() -> None:
    taken = "The patient takes aspirin every morning before breakfast."
    other = "The patient takes metformin every morning before breakfast."
    moved = "Every morning before breakfast the patient takes aspirin."
    pairs = [Compared("made up", taken, answer, True, "en") for answer in (other, moved)]
    assert misquotes(pairs) == {"made up, en": [True, False]}
