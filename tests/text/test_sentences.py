from random import Random

import pytest

from medjudge.text.blocks import in_series
from medjudge.text.grammar import clauses, grammar_of, sentence_starts
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


@pytest.mark.parametrize("mark", ["- ", "* ", "• ", "■", "◦ ", "1. ", "12) ", "3、", "（4）", "⑤"])
def test_every_station_knows_the_same_marks_of_list_items(mark: str) -> None:
    text = f"{mark}alpha is the first item\n{mark}beta is the second item"
    assert in_series(text)
    outline = outline_of(text, EN)
    assert [line.prefix for line in outline.lines] == [mark, mark]
    assert written(outline, outline.parts) == text
    assert sorted(reordered(text, EN, Random(0)).split("\n")) == sorted(text.split("\n"))
