"""Sentences that a text takes from another almost word for word."""

from medjudge.text.quotes import changed_quotes


def sentences(text: str) -> list[tuple[int, int]]:
    """One a line."""
    spans, start = [], 0
    for line in text.splitlines(keepends=True):
        spans.append((start, start + len(line.rstrip())))
        start += len(line)
    return spans


def changes(text: str, other: str) -> list[tuple[str, str]]:
    """What stands in the text, and what in its place."""
    return [
        (text[slice(*change.text)], other[slice(*change.quote)])
        for quote in changed_quotes(text, sentences(text), other, sentences(other))
        for change in quote.changes
    ]


def test_what_a_quote_changes_is_found_in_both_languages() -> None:
    assert changes("Take one tablet of it every morning.", "Take one tablet of it every evening.") == [
        ("morning", "evening")
    ]
    assert changes("慢性疼痛常与心理因素相关", "急性疼痛常与心理因素相关") == [("慢", "急")]


def test_what_is_only_added_or_left_out_has_no_length() -> None:
    assert changes("It may be taken with a meal.", "It may not be taken with a meal.") == [("", "not")]
    assert changes("It may not be taken with a meal.", "It may be taken with a meal.") == [("not", "")]


def test_a_row_that_stands_word_for_word_is_no_quote_of_another_row() -> None:
    table = "| bed 1 | male | 22 years | stable |\n| bed 2 | male | 35 years | stable |"
    assert not changes(table, "\n".join(reversed(table.splitlines())))
    assert changes(table, table.replace("35", "53")) == [("35", "53")]


def test_marks_and_capitals_are_no_change() -> None:
    assert not changes("**Take** one tablet of it, every day.", "- take one tablet of it every day")


def test_a_sentence_in_other_words_is_no_quote() -> None:
    assert not changes("Take one tablet of it every morning.", "A single pill should be swallowed when you get up.")


def test_of_two_sentences_the_nearer_one_is_the_quote() -> None:
    text = "Give 5 mg of it to adults in the morning."
    near, far = "Give 10 mg of it to adults in the morning.", "Give 20 mg of it to children in the morning."
    assert changes(text, f"{far}\n{near}") == changes(text, f"{near}\n{far}") == [("5", "10")]
