"""Points in other words: what each passage says of its point, alone and beside another one."""

from collections import Counter

import pytest
from reader_claims import tokens
from reader_words import authors_of, in_company, other_words
from sklearn.metrics import roc_auc_score

MET, OPEN, CONTRADICTED = range(3)
EXAMPLES = other_words()


def test_each_point_has_a_passage_of_each_verdict_and_no_text_stands_twice() -> None:
    verdicts: dict[str, list[int | None]] = {}
    for example in EXAMPLES:
        verdicts.setdefault(example.group, []).append(example.verdict)
    assert len(verdicts) >= 500
    assert all(own == [MET, OPEN, CONTRADICTED] for own in verdicts.values())
    assert len({example.answer for example in EXAMPLES}) == len(EXAMPLES)
    assert len({example.reference for example in EXAMPLES}) == len(verdicts)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_neither_length_nor_shared_words_tell_what_meets_a_point_from_what_contradicts_it(language: str) -> None:
    some = [each for each in EXAMPLES if each.language == language and each.verdict != OPEN]
    met = [each.verdict == MET for each in some]
    shared = [len(set(tokens(each.reference, language)) & set(tokens(each.answer, language))) for each in some]
    for cue in (shared, [len(each.answer) for each in some]):
        assert 0.3 < roc_auc_score(met, cue) < 0.7


def test_a_passage_in_company_keeps_its_verdict_and_stands_beside_one_of_its_author() -> None:
    company = in_company(EXAMPLES, 0)
    alone = {(each.group, each.verdict): each for each in EXAMPLES}
    passages = {each.answer: each for each in EXAMPLES}
    for each in company:
        assert each.reference == alone[each.group, each.verdict].reference
        parts = [passages[text] for text in passages if text in each.answer]
        assert len(parts) >= 2
        verdicts = {part.verdict for part in parts if part.group == each.group}
        assert verdicts <= {OPEN} if each.verdict == OPEN else verdicts == {OPEN, each.verdict}
    assert list(authors_of(company)) == [int(each.group.split("-")[1]) for each in company]
    assert Counter(each.verdict for each in company)[OPEN] == Counter(each.verdict for each in EXAMPLES)[OPEN] * 2
