import re
from collections import Counter
from random import Random

import pytest

from medjudge.text.blocks import in_series
from medjudge.text.grammar import clauses, grammar_of, sentence_starts
from medjudge.text.outline import outline_of, written
from medjudge.text.reordering import reordered

EN, ZH = grammar_of("en"), grammar_of("zh")


def test_sentences_and_clauses_end_at_their_marks_only() -> None:
    text = "Give 5 mg, e.g. Tuesdays. Dr. Gray agrees! It is step 3. Then stop."
    assert [text[start:].split()[0] for start in sentence_starts(text, EN)] == ["Give", "Dr.", "It"]
    assert sentence_starts("痛风很常见。多饮水！", ZH) == [0, 6]
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


def moved(text: str, language: str = "en", seed: int = 0) -> str:
    return reordered(text, grammar_of(language), Random(seed))


def stays(text: str, language: str = "en") -> bool:
    return moved(text, language) == text


def test_reordered_lists_keep_their_lead_and_their_numbers() -> None:
    text = "Take:\n1. Aspirin 300 mg.\n   With water.\n2. Heparin.\n3. Oxygen.\n\nCall 112."
    for seed in range(10):
        lines = moved(text, seed=seed).split("\n")
        place = lines.index("Take:")
        assert re.match(r"\d\. ", lines[place + 1])
        assert lines[lines.index("1. Aspirin 300 mg.") + 1] == "   With water."
        assert Counter(lines) == Counter(text.split("\n"))
    # What "avoid" leads up to stays under it, though blank lines stand between.
    loose = "Give:\n\n- paracetamol\n\nAvoid:\n\n- ibuprofen\n\n- aspirin"
    for seed in range(10):
        assert moved(loose, seed=seed) == "Give:\n\n- paracetamol\n\nAvoid:\n\n- aspirin\n\n- ibuprofen"
    assert stays("- Avoid:\n- ibuprofen\n- aspirin")
    assert stays("1. **Avoid**\n\nIbuprofen.\n\n2. **Take**\n\nParacetamol.")
    assert stays("Steps in this order:\n- wash\n- inject")


def test_reordered_sections_paragraphs_and_lines() -> None:
    sections = "Intro.\n\n## Avoid\nIbuprofen.\n\n## Take\nParacetamol."
    assert moved(sections) == "Intro.\n\n## Take\nParacetamol.\n\n## Avoid\nIbuprofen."
    paragraphs = "The cause is a clot.\n\nIt needs heparin.\n\nBleeding is rare."
    assert moved(paragraphs) == "Bleeding is rare.\n\nThe cause is a clot.\n\nIt needs heparin."
    headed = "**Avoid**\nIbuprofen.\n\n**Take**\nParacetamol."
    assert moved(headed) == "**Take**\nParacetamol.\n\n**Avoid**\nIbuprofen."
    assert moved("A: urgent.\nB: routine.") == "B: routine.\nA: urgent."
    assert stays("First wash.\n\nThen inject.")
    assert stays("A line that is\nwrapped at the edge. The\nsentence goes on.")
    assert stays("```\na\n\nb\n```")


def test_sentences_move_behind_the_first_and_only_where_none_leans_on_another() -> None:
    text = "Gout is common. Colchicine 0.5 mg helps, e.g. twice a day. It causes diarrhoea. Ice is fine."
    other = "Gout is common. Ice is fine. Colchicine 0.5 mg helps, e.g. twice a day. It causes diarrhoea."
    assert moved(text) == other
    assert stays("Gout is common. Ice helps. Then give colchicine.")
    assert stays("Gout is common. Ice helps. Rest helps")
    assert stays("Gout is common. (Ice helps. Rest helps.) Drink.")
    chinese = "痛风很常见。秋水仙碱0.5 mg有效！冷敷“可用”。多饮水。"
    seen = {moved(chinese, "zh", seed) for seed in range(20)}
    assert len(seen) == 5
    assert all(variant.startswith("痛风很常见。") for variant in seen)
    assert {tuple(sorted(re.split("(?<=[。！])", variant))) for variant in seen} == {
        tuple(sorted(re.split("(?<=[。！])", chinese)))
    }
    assert stays("痛风很常见。冷敷有效。它也安全。", "zh")
    assert stays("痛风很常见。首先冷敷。然后服药。", "zh")
