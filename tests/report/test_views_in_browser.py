"""The parts of the report as a reader moves between them: tabs, addresses, files saved, print."""

import csv
import io
from pathlib import Path
from typing import Any

import pytest
from matplotlib.image import imread
from playwright.sync_api import Page, expect

from medjudge.files import write_json
from medjudge.report.tables import Kind
from medjudge.store import Run
from medjudge.workflows.report import tables_for_papers


def saved(page: Page, button: Any) -> bytes:
    with page.expect_download() as download:
        button.click()
    return Path(download.value.path()).read_bytes()


@pytest.mark.slow
def test_one_part_and_one_judge_are_seen_at_a_time(run, open_report) -> None:
    page = open_report(run, viewport={"width": 1280, "height": 900})
    expect(page.locator("section.board:visible")).to_have_count(1)
    expect(page.locator(".finding:visible p")).to_have_count(3)
    assert page.locator(".finding:visible").bounding_box()["y"] < 300
    assert not page.locator("#validation").is_visible()
    page.locator("nav.sub a", has_text="mine").first.click()
    expect(page.locator("section.board:visible h3")).to_have_text("Usability rate by judge mine, percent of questions")
    page.locator("nav.main a", has_text="Validation").click()
    expect(page.locator("#trust")).to_be_visible()
    page.locator("nav.sub a", has_text="mine with physicians").click()
    expect(page.locator("#study-0 .verdict")).to_be_visible()
    page.go_back()
    expect(page.locator("#trust")).to_be_visible()
    expect(page.locator("nav.main a[aria-current]")).to_have_text("Validation")


@pytest.mark.slow
def test_filters_are_in_the_address(run, open_report) -> None:
    page = open_report(run, address="#answers?judge=mine&score=unusable&uncertain=on&words=%E8%8D%AF")
    expect(page.locator("#filters [name=judge]")).to_have_value("mine")
    expect(page.locator("#filters [name=uncertain]")).to_be_checked()
    expect(page.locator("#filters [name=words]")).to_have_value("药")
    page.locator("button[type=reset]").click()
    expect(page.locator("#count")).to_have_text("280 of 280 answers")
    assert page.evaluate("location.hash") == "#answers"
    page.locator("#filters [name=score]").select_option("2")
    page.locator(".row").first.click()
    expect(page.locator("#detail h3")).to_be_visible()
    address = page.evaluate("location.hash")
    assert address.endswith("?score=2")
    found, title = page.locator("#count").inner_text(), page.locator("#detail h3").inner_text()
    again = open_report(run, address=address)
    expect(again.locator("#detail h3")).to_have_text(title)
    expect(again.locator("#count")).to_have_text(found)


@pytest.mark.slow
def test_two_models_stand_side_by_side_on_a_question(run, open_report) -> None:
    page = open_report(run, viewport={"width": 1280, "height": 900}, address="#answer/0/MK-en-01/model-a/0")
    page.locator("#filters [name=beside]").select_option('"model-d"')
    headings = page.locator("#detail .beside > div > h4", has_text="Answer by")
    expect(headings).to_have_text(["Answer by model-a", "Answer by model-d"])
    texts = {answer.model: answer.text for answer in run.answers() if answer.question_id == "MK-en-01"}
    page.get_by_role("button", name="Raw text").click()
    expect(page.locator("#detail .said")).to_have_text([texts["model-a"], texts["model-d"]])
    levels = {judgment.model: judgment.score for judgment in run.judgments("gpt") if judgment.question_id == "MK-en-01"}
    expect(page.locator("#detail .beside .facts").last).to_contain_text(f"gpt {levels['model-d']}")
    again = open_report(run, address=page.evaluate("location.hash"))
    expect(again.locator("#detail .said")).to_have_count(2)


@pytest.fixture
def dated(run: Run) -> Run:
    write_json(run.manifest_file, {"updated": "2026-01-02T03:04:05+00:00"})
    return run


@pytest.mark.slow
def test_every_table_is_saved_as_csv_and_png_and_every_plot_as_png(dated, open_report) -> None:
    page = open_report(dated)
    savers = page.locator(".savers")
    assert page.locator("table:not(#answers table), .plots img").count() == savers.count()
    assert savers.locator("button", has_text="PNG").count() == savers.count()
    assert savers.locator("button", has_text="CSV").count() == savers.count() - page.locator(".plots img").count()
    board = page.locator("section.board:visible")
    tables: dict[Kind, str] = {"leaderboard": ".leaders", "subcategories": ".heat[data-csv]"}
    for kind, table in tables.items():
        button = board.locator(f".scroll:has({table}) + .savers button", has_text="CSV")
        assert saved(page, button).decode("utf-8-sig") == tables_for_papers([dated.path], "csv", [kind], "gpt")[0]
    page.evaluate("location.hash = '#study-0'")
    plots = page.locator(".plots figure")
    assert plots.count() == 2
    assert saved(page, plots.first.locator("button", has_text="PNG")).startswith(b"\x89PNG")
    agreement = page.locator('#study-0 .scroll:has-text("Gwet\'s AC1") + .savers').first
    text = saved(page, agreement.locator("button", has_text="CSV")).decode("utf-8-sig")
    heading, overall, *_ = csv.reader(text.splitlines())
    assert heading[:5] == ["Part", "n", "Usable agreement, %", "Usable agreement, %: low", "Usable agreement, %: high"]
    assert heading[-4:] == ["run", "date", "judge", "validated"]
    assert overall[0] == "Overall"
    assert overall[-4:] == ["copy", "2026-01-02", "mine", "inconclusive"]


@pytest.mark.slow
def test_the_picture_of_a_table_shows_all_of_it(dated, open_report, tmp_path) -> None:
    page = open_report(dated, viewport={"width": 400, "height": 900}, color_scheme="light")
    page.evaluate("""() => {
      window.drawn = [];
      const fill = CanvasRenderingContext2D.prototype.fillText;
      CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        drawn.push(text);
        fill.call(this, text, ...rest);
      };
    }""")
    frame = page.locator("section.board:visible .scroll:has(.leaders)")
    frame.evaluate("element => element.scrollTo(200, 0)")
    data = saved(page, page.locator("section.board:visible .scroll:has(.leaders) + .savers button", has_text="PNG"))
    picture = imread(io.BytesIO(data))[..., :3]
    table = frame.locator("table").bounding_box()
    height, width = picture.shape[:2]
    assert abs(width - 2 * (table["width"] + 24)) <= 2
    assert abs(height - 2 * (table["height"] + 24 + 18)) <= 2  # 18: the caption
    assert page.evaluate("drawn.at(-1)") == "run copy · judge gpt · never validated · 2026-01-02"
    dark = picture.sum(axis=2) < 1
    assert dark[:, : width // 8].any()  # the models' names, though the frame was scrolled past them
    assert dark[:, -width // 4 :].any()


def test_a_name_that_looks_like_a_formula_stays_text_in_a_spreadsheet(run, open_report) -> None:
    page = open_report(run)
    cells = ["=1+1", "@x", "-x", "-3.5", "+2.0 (1 to 3)", 'a "b", c', "plain"]
    expected = ["'=1+1", "'@x", "'-x", "-3.5", "+2.0 (1 to 3)", '"a ""b"", c"', "plain"]
    assert page.evaluate("cells => cells.map(csvCell)", cells) == expected


@pytest.mark.slow
def test_the_answers_that_pass_the_filters_are_saved(run, open_report) -> None:
    page = open_report(run, address="#answers")
    page.locator("select[name=model]").select_option(label="model-a")
    page.locator("select[name=judge]").select_option(label="mine")
    expect(page.locator("#count")).to_have_text("56 of 280 answers")
    text = saved(page, page.locator("#save-answers")).decode("utf-8-sig")
    rows = list(csv.DictReader(text.splitlines(keepends=True)))
    answers = {answer.question_id: answer.text for answer in run.answers() if answer.model == "model-a"}
    scores = {judgment.question_id: judgment.score for judgment in run.judgments("mine") if judgment.model == "model-a"}
    assert len(rows) == len(answers) == 56
    assert {row["question_id"]: row["answer"].removeprefix("'") for row in rows} == answers  # before "- ", a formula
    assert {row["question_id"]: int(row["level"]) for row in rows} == scores
    assert {(row["run"], row["judge"]) for row in rows} == {("copy", "mine")}
    assert {row["category"]: row["validated"] for row in rows}["MSE"] == "never validated"


SHOWN_IN_PRINT = """() => Object.fromEntries(
  ["#leaderboard .leaders", "#trust", "#study-0 .plots img", "#provenance p", "nav", "#answers"]
    .map((place) => [place, document.querySelector(place)?.checkVisibility() ?? null]))"""


@pytest.mark.slow
def test_print_shows_validation_raters_and_provenance_and_each_page_names_its_origin(dated, open_report) -> None:
    page = open_report(dated)
    page.emulate_media(media="print")
    shown = page.evaluate(SHOWN_IN_PRINT)
    assert {place for place, visible in shown.items() if not visible} == {"nav", "#answers"}
    assert page.locator("#study-0 h4", has_text="Physicians among each other").is_visible()
    assert all(board.is_visible() for board in page.locator("section.board").all())
    rules = page.evaluate("[...document.styleSheets[0].cssRules].map((rule) => rule.cssText).join(' ')")
    assert "run copy · 2026-01-02" in rules
    assert "counter(page)" in rules
    assert page.pdf(prefer_css_page_size=True).startswith(b"%PDF")
