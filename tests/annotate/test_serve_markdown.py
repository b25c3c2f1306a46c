from pathlib import Path

import pytest
from starlette.testclient import TestClient

from medjudge.annotate.access import Access
from medjudge.annotate.draw import draw_plan
from medjudge.annotate.plan import PlanOptions, read_plan, write_plan
from medjudge.annotate.serve import annotation_app
from medjudge.store import Run, write_records


@pytest.fixture
def page_of(tmp_path: Path, question, answer):
    """The scoring page of one answer."""

    def page(text: str) -> str:
        run = Run(tmp_path / "run")
        write_records(run.questions_file, [question(id="q1")])
        write_records(run.answers_file, [answer(question_id="q1", text=text)])
        write_plan(run, draw_plan(run, PlanOptions(("dr-a",), overlap=1, seed=3)))
        plan = read_plan(run)
        client = TestClient(annotation_app(run, plan, Access({"t0ken": "dr-a"})), base_url="http://127.0.0.1:8000")
        assert client.get("/", params={"token": "t0ken"}).status_code == 200
        return client.get(f"/answer/{plan.items[0].id}").text

    return page


def test_markdown_is_rendered_beside_the_raw_text(page_of) -> None:
    page = page_of("**Fluids**\n\n1. oral\n\n| drug | dose |\n|---|---|\n| ibuprofen | 400 mg |")
    assert "<strong>Fluids</strong>" in page
    assert "<li>oral</li>" in page
    assert "<td>ibuprofen</td>" in page
    assert "**Fluids**\n\n1. oral" in page  # behind the switch
    assert 'id="raw"' in page


def test_a_text_without_markdown_stands_once(page_of) -> None:
    assert page_of("Drink 2 litres.").count("Drink 2 litres.") == 1


def test_html_and_unseen_characters_stay_visible_text(page_of) -> None:
    page = page_of("**<img src=x onerror=run()>** \u202e05 mg")
    assert "<img" not in page
    assert "<strong>&lt;img src=x onerror=run()&gt;</strong>" in page
    assert page.count('<span class="unseen">U+202E</span>05 mg') == 2
