"""Clinical documents about two patients: what each is compared with."""

from collections import Counter

import numpy as np
from reader_claims import shared
from reader_parallel import ELSEWHERE, GOOD
from reader_records import records


def test_a_document_is_compared_with_the_other_writer_s_and_with_both_about_the_other_patient() -> None:
    examples = records()
    by_reference: dict[tuple[str, str], list[tuple[float, ...] | None]] = {}
    for example in examples:
        by_reference.setdefault((example.group, example.reference), []).append(example.label)
    assert len(by_reference) == 4 * len({example.group for example in examples})
    assert all(Counter(labels) == {GOOD: 1, ELSEWHERE: 2} for labels in by_reference.values())
    assert {example.language for example in examples} == {"en", "zh"}


def test_no_document_is_its_own_answer_and_none_stands_twice() -> None:
    examples = records()
    assert all(example.answer != example.reference for example in examples)
    assert len({example.reference for example in examples}) == len(examples) / 3


def test_a_template_shares_more_words_with_another_patient_s_document_than_the_other_writer_does() -> None:
    """Else the level head would learn nothing from these that nearness does not tell."""
    examples = records()
    shares = np.array([shared(each.reference, each.answer, each.language) for each in examples]).reshape(-1, 3)
    assert examples[1].source == "records-another-patient"
    assert (shares[:, 1] > shares[:, 2]).mean() > 0.9
