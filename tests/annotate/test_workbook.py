"""Forms as workbooks, of the usual scheme and of one with categories and a language of its own."""

import re
import zipfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from openpyxl import load_workbook
from scoring_run import MODELS, answer, build_run, client_of, planned, question

from medjudge.annotate.plan import Item
from medjudge.annotate.tasks import LEVELS
from medjudge.annotate.units import EarlierTurn, Unit, same_text
from medjudge.annotate.workbook import MOST_LINES, lines_in, parts_of, read_workbook, write_workbook
from medjudge.languages.texts import PACKAGED
from medjudge.scheme import LLMEVAL_MED, Scheme
from medjudge.store import Run, write_records


@pytest.fixture
def listed(tmp_path: Path) -> list[Unit]:
    run = build_run(tmp_path / "run", words=9000)
    return LEVELS.units(run, planned(run))["dr-a"]


@pytest.fixture
def form(listed: list[Unit], tmp_path: Path) -> Path:
    write_workbook(tmp_path / "dr-a.xlsx", "dr-a", listed)
    return tmp_path / "dr-a.xlsx"


def first_rows(sheet: Any) -> list[Any]:
    return [row for row in sheet.iter_rows(min_row=2) if "+" not in row[0].value]


def test_no_part_names_a_model_and_each_category_has_a_sheet(form: Path, listed: list[Unit]) -> None:
    with zipfile.ZipFile(form) as parts:
        content = b"".join(parts.read(name) + name.encode() for name in parts.namelist())
    assert b"Answer seventh" in content
    assert b"_x005F_x0041_" in content  # Excel would undo an escape that an author wrote
    for model in MODELS:
        assert model.encode() not in content
    workbook = load_workbook(form)
    assert all(sheet.sheet_state == "visible" for sheet in workbook)
    assert not workbook.defined_names
    assert workbook.properties.creator == "medjudge"

    # Two selected sheets would be a group, in which Excel writes every score into both.
    assert [sheet.sheet_view.tabSelected for sheet in workbook].count(True) <= 1
    assert workbook.sheetnames == ["Read me 说明", *LLMEVAL_MED.category_ids]
    for name in LLMEVAL_MED.category_ids:
        ids = [row[0].value for row in first_rows(workbook[name])]
        assert ids == [entry.item.id for entry in listed if entry.question.category == name]
        assert workbook[name].freeze_panes == "B2"
    words = [str(cell.value) for row in workbook.worksheets[0].iter_rows() for cell in row]
    english = ("dr-a", "4 and 5 count as usable", "Medical knowledge", "All core and all secondary")
    for expected in (*english, "4分和5分视为可用", "医疗知识", "指令遵循"):
        assert any(expected in word for word in words), expected


def test_only_scores_and_comments_are_unlocked_and_have_drop_downs(form: Path) -> None:
    workbook = load_workbook(form)
    for sheet in workbook:
        assert sheet.protection.sheet
        assert sheet.protection.password is None
        unlocked = {cell.coordinate for row in sheet.iter_rows() for cell in row if not cell.protection.locked}
        if sheet.title not in LLMEVAL_MED.category_ids:
            assert not unlocked
            continue
        rows = [row[0].row for row in first_rows(sheet)]
        columns = "FGHIJK" if sheet.title == "MTG" else "FG"
        assert unlocked == {f"{letter}{row}" for letter in columns for row in rows}
        rules = {}
        for rule in sheet.data_validations.dataValidation:
            assert (rule.type, rule.errorStyle, rule.showErrorMessage) == ("list", "stop", True)
            assert rule.error.startswith(f"One of {rule.formula1[1:-1].replace(',', ', ')}, or an empty cell. 请从列表")
            assert rule.showInputMessage
            assert len(rule.prompt) <= 255
            assert sheet.title == "MTG" or re.search("4 and 5 count as usable|4分和5分视为可用", rule.prompt)
            for cell in str(rule.sqref).split():
                question = sheet[f"B{re.sub('[A-Z]', '', cell)}"].value
                assert re.search("[一-鿿]", rule.prompt) or not re.search("[一-鿿]", question)
            rules |= {str(cell): rule.formula1 for cell in str(rule.sqref).split()}
        offered = {f"{letter}{row}": '"0,1,2,3,4,5"' for letter in "FGHI" for row in rows}
        offered |= {f"J{row}": '"0,1"' for row in rows}
        assert rules == (offered if sheet.title == "MTG" else {f"F{row}": '"1,2,3,4,5"' for row in rows})


def test_texts_stay_texts_and_nothing_is_cut(form: Path, listed: list[Unit]) -> None:
    workbook = load_workbook(form)
    for sheet in workbook.worksheets[1:]:  # on a screen of 1366 pixels the scores are beside the answer
        headings = [cell.value for cell in sheet[1]]
        answer, comment = headings.index("Answer to score 待评的回答"), headings.index("Comment 备注")
        assert headings[answer + 1].startswith(("Score", "Instruction following"))
        widths = [sheet.column_dimensions[cell.column_letter].width for cell in sheet[1][:comment]]
        assert sum(7 * width + 5 for width in widths) * sheet.sheet_view.zoomScale / 100 <= 1300
        assert sheet.sheet_view.zoomScale >= 80
    for sheet in workbook:
        cells = [cell for row in sheet.iter_rows() for cell in row if cell.value is not None]
        assert {cell.data_type for cell in cells} == {"s"}
        assert all(cell.quotePrefix for cell in cells)
        assert all(len(cell.value) <= 2000 for cell in cells)
        assert all(height.height <= 400 for height in sheet.row_dimensions.values())
    texts_of = {row.item_id: row.texts for row in read_workbook(form).rows}
    for entry in listed:
        for field, text in entry.texts.items():
            assert same_text(texts_of[entry.item.id][field], text), (entry.question.id, field)
    of = {entry.question.id: texts_of[entry.item.id] for entry in listed}
    assert of["first"]["question"] == "=1+1 is what?"
    assert of["first"]["answer"].startswith("=SUM(A1:A3)␋␟ and ")
    assert of["fifth"]["reference"] == "#N/A"
    assert len(of["fourth"]["answer"]) == 12 + 5 * 9000
    assert "[Earlier question 1]\n=1+1 is what?\n\n[Its answer]\n=SUM" in of["second"]["question"]


ANY_TEXT = st.text(st.characters(codec="utf-8"), max_size=400)
CLUMSY = st.sampled_from(
    ["=1", "_x000D_", "x005F_", "\r\n", "\x00", "\ufffe", "#REF!", "\u2028", "中" * 900, "a " * 900]
)
TEXTS = st.lists(ANY_TEXT | CLUMSY, min_size=1, max_size=4).map("".join).filter(str.strip)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(reply=TEXTS, asked=TEXTS)
def test_any_text_comes_back(tmp_path_factory: Any, reply: str, asked: str) -> None:
    path = tmp_path_factory.mktemp("forms") / "form.xlsx"
    of = question("q", prompt=asked, language="zh")
    item = Item(id="0" * 12, question_id="q", model="m", sample=0)
    to_fill = Unit(item, of, [EarlierTurn(asked, reply)], [answer("q", "m", reply)])
    write_workbook(path, "dr", [to_fill])
    form = read_workbook(path)
    assert form.problems == []
    (row,) = form.rows
    assert not row.wrong
    for field, text in to_fill.texts.items():
        assert same_text(row.texts[field], text)


@pytest.mark.parametrize("characters", ["a", "药", "a 药", "ab cd\n"])
def test_a_text_of_any_length_is_cut_into_parts_that_fit_a_row(characters: str) -> None:
    text = (characters * 200_000)[:200_000]
    parts = parts_of(text, 60)
    assert "".join(parts) == text
    assert max(lines_in(part, 60) for part in parts) <= MOST_LINES


GERMAN_FORM = PACKAGED.text("en", "scoring_form.yaml").replace("Its answer", "Ihre Antwort").replace("Safety", "Schutz")
GERMAN_PAGE = PACKAGED.text("en", "scoring_page.yaml").replace("lang: en", "lang: de").replace("save: Save", "save: Ja")


def test_forms_and_pages_have_the_schemes_titles_levels_and_language(tmp_path: Path) -> None:
    """A conversation on doses, and letters that are scored by dimensions; both in German."""
    levels = "\n".join(f"- {level}: Stufe {level}" for level in range(5, 0, -1))
    scheme = Scheme.model_validate(
        {
            "name": "kliniken",
            "title": "Kliniken",
            "languages": ["de"],
            "categories": [
                {"id": "DOSE", "title": {"de": "Dosierung"}},
                {"id": "LETTER", "title": {"de": "Arztbriefe"}, "scored_by": "dimensions"},
            ],
            "rubrics": {"DOSE.de": f"Dosierung\n{levels}", "LETTER.de": f"Arztbriefe\n{levels}"},
            "texts": {"de": {"scoring_form.yaml": GERMAN_FORM, "scoring_page.yaml": GERMAN_PAGE}},
        }
    )
    run = Run(tmp_path / "run")
    fields: dict[str, Any] = {"language": "de", "group": "talk"}
    questions = [
        question("first", "DOSE", round=1, **fields),
        question("second", "DOSE", round=2, **fields),
        question("letter", "LETTER", language="de"),
    ]
    run.write_questions(questions, scheme)
    write_records(run.answers_file, [answer(question.id, "m") for question in questions])
    listed = LEVELS.units(run, planned(run))["dr-a"]
    path = tmp_path / "dr-a.xlsx"
    write_workbook(path, "dr-a", listed)
    workbook = load_workbook(path)
    assert workbook.sheetnames[1:] == ["DOSE", "LETTER"]
    guidance = [str(cell.value) for row in workbook.worksheets[0].iter_rows() for cell in row]
    for expected in ("dr-a", "DOSE · Dosierung", "LETTER · Arztbriefe"):
        assert expected in guidance
    assert any(text.startswith("Schutz 0–1 · ") for text in guidance)
    rows = {row.item_id: row for row in read_workbook(path, run.scheme()).rows}
    by_question = {entry.question.id: rows[entry.item.id] for entry in listed}
    assert set(by_question["first"].cells) == {"score", "comment"}
    assert "safety" in by_question["letter"].cells
    assert "[Ihre Antwort]\nAn answer to first." in by_question["second"].texts["question"]

    client = client_of(run)
    page = client.get(f"/answer/{by_question['first'].item_id}").text
    assert '<html lang="de">' in page
    assert "Dosierung" in page
    assert '<dd id="level-3">Stufe 3</dd>' in page
    letter = client.get(f"/answer/{by_question['letter'].item_id}").text
    assert "Arztbriefe" in letter
    assert "<legend>Schutz</legend>" in letter
    assert ">Ja</button>" in letter
