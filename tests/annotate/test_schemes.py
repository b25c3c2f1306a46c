"""Forms and the scoring page of a scheme with categories and a language of its own."""

from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from scoring_run import answer, client_of, planned, question

from medjudge.annotate.tasks import LEVELS
from medjudge.annotate.workbook import read_workbook, write_workbook
from medjudge.languages.texts import PACKAGED
from medjudge.scheme import Scheme
from medjudge.store import Run, write_records

GERMAN_FORM = PACKAGED.text("en", "scoring_form.yaml").replace("Its answer", "Ihre Antwort").replace("Safety", "Schutz")
GERMAN_PAGE = PACKAGED.text("en", "scoring_page.yaml").replace("lang: en", "lang: de").replace("save: Save", "save: Ja")


@pytest.fixture
def run(tmp_path: Path) -> Run:
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
    return run


def test_forms_and_pages_have_the_schemes_titles_levels_and_language(run: Run, tmp_path: Path) -> None:
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
