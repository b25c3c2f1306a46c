from random import Random

import pytest

from medjudge.text.blocks import heading_rank, in_series, is_complete
from medjudge.text.grammar import clauses, grammar_of, is_balanced, sentence_starts
from medjudge.text.outline import outline_of, written
from medjudge.text.reordering import reordered

EN, ZH = grammar_of("en"), grammar_of("zh")


def test_sentences_end_at_full_stops_but_not_behind_abbreviations_and_numbers() -> None:
    text = "Give 5 mg, e.g. Tuesdays. Dr. Gray agrees! It is step 3. Then stop."
    assert [text[start:].split()[0] for start in sentence_starts(text, EN)] == ["Give", "Dr.", "It"]
    assert sentence_starts("痛风很常见。多饮水！", ZH) == [0, 6]


def test_clauses_end_at_semicolons_and_outside_brackets_only() -> None:
    assert clauses("Alpha comes first here; beta is next (A. B. C). Last of all.", EN) == (
        ["Alpha comes first here; ", "beta is next (A. B. C). ", "Last of all."],
        [False, True, True],
    )
    chinese = "多饮水并休息；不要饮酒（尤其是烈性酒；还有啤酒）。"
    assert clauses(chinese, ZH).texts == ["多饮水并休息；", "不要饮酒（尤其是烈性酒；还有啤酒）。"]


@pytest.mark.parametrize(
    ("line", "rank"),
    [("# A", 1), ("###### A", 6), ("一、诊断", 7), ("**一、诊断**", 7), ("**Therapy**", 8), ("Therapy", 0), ("#A", 0)],
)
def test_headings_have_ranks(line: str, rank: int) -> None:
    assert heading_rank(line) == rank


@pytest.mark.parametrize("mark", ["- ", "* ", "• ", "■", "◦ ", "1. ", "12) ", "3、", "（4）", "⑤"])
def test_every_station_knows_the_same_marks_of_list_items(mark: str) -> None:
    text = f"{mark}alpha is the first item\n{mark}beta is the second item"
    assert in_series(text)
    outline = outline_of(text, EN)
    assert [line.prefix for line in outline.lines] == [mark, mark]
    assert written(outline, outline.parts) == text
    assert sorted(reordered(text, EN, Random(0)).split("\n")) == sorted(text.split("\n"))


def test_what_is_complete_and_balanced() -> None:
    assert is_complete("It is gout.")
    assert not is_complete("Causes:")
    assert not is_complete("Causes of gout")
    assert is_balanced('"a" (b)')
    assert not is_balanced("（a)")
