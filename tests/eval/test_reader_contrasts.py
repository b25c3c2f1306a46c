"""Contrasts: what each passage says of each statement of its subject, and that neither tells the verdict by itself."""

from collections import Counter

import pytest
from reader_claims import shared
from reader_contrasts import HELD_OUT, Subject, contrasts, subjects
from reader_examples import Example
from sklearn.metrics import roc_auc_score

MET, OPEN, CONTRADICTED = range(3)
SUBJECTS = subjects()
EXAMPLES = contrasts(SUBJECTS, 0)


def statements(subject: Subject) -> list[str]:
    return [statement for fact in subject.facts for statement in fact.statements]


def test_every_author_writes_one_language_and_no_text_stands_twice() -> None:
    for subject in SUBJECTS:
        texts = [text for fact in subject.facts for text in (*fact.statements, *fact.passages)]
        assert len(set(texts)) == len(texts) == 12
        assert all(
            any("\u4e00" <= letter <= "\u9fff" for letter in text) == (subject.language == "zh") for text in texts
        )
    assert {subject.author for subject in SUBJECTS} > set(HELD_OUT)
    passages = [passage for subject in SUBJECTS for fact in subject.facts for passage in fact.passages]
    assert len(set(passages)) == len(passages)


def test_verdicts_follow_from_what_an_answer_is_made_of() -> None:
    subject = SUBJECTS[0]
    mine = [example for example in EXAMPLES if example.group == EXAMPLES[0].group]
    assert {example.reference for example in mine} == set(statements(subject))
    for example in mine:
        (number,) = [at for at, fact in enumerate(subject.facts) if example.reference in fact.statements]
        fact = subject.facts[number]
        version = fact.statements.index(example.reference)
        said = [passage in example.answer for passage in fact.passages]
        expected = MET if said[version] else CONTRADICTED if said[1 - version] else OPEN
        assert example.verdict == expected


def test_neither_statement_nor_passage_tells_the_verdict() -> None:
    singles = [example for example in EXAMPLES if not example.source.startswith("contrasts in company")]
    assert len(set(Counter(example.verdict for example in EXAMPLES).values())) == 1
    by_answer: dict[str, list[int | None]] = {}
    by_statement: dict[tuple[str, str], list[int | None]] = {}
    for example in singles:
        by_answer.setdefault(example.answer, []).append(example.verdict)
        if example.verdict != OPEN:
            by_statement.setdefault((example.group, example.reference), []).append(example.verdict)
    assert all(sorted(map(int, verdicts)) == [MET, OPEN, CONTRADICTED] for verdicts in by_answer.values())
    assert all(sorted(map(int, verdicts)) == [MET, CONTRADICTED] for verdicts in by_statement.values())


@pytest.mark.parametrize("language", ["en", "zh"])
def test_shared_words_do_not_tell_what_meets_a_statement_from_what_contradicts_it(language: str) -> None:
    some = [each for each in EXAMPLES if each.language == language and each.verdict != OPEN]
    words = [shared(each.reference, each.answer, language) for each in some]
    assert 0.4 < roc_auc_score([each.verdict == MET for each in some], words) < 0.6


def test_the_same_seed_gives_the_same_examples_and_company_holds_several_passages() -> None:
    assert contrasts(SUBJECTS[:5], 3) == contrasts(SUBJECTS[:5], 3)
    some: list[Example] = [each for each in EXAMPLES if each.source.startswith("contrasts in company")]
    passages = {passage for subject in SUBJECTS[:1] for fact in subject.facts for passage in fact.passages}
    mine = [each for each in some if each.group == EXAMPLES[0].group]
    assert all(sum(passage in each.answer for passage in passages) == 2 for each in mine)
