"""The pages of several runs in a real browser: from the index to a report, sorting, files saved, the theme."""

import csv
from collections.abc import Iterator
from pathlib import Path

import pytest
from browsing import served, watched
from folder_of_runs import three_months
from playwright.sync_api import Browser, Page, expect

from medjudge.report.site_app import site_app


@pytest.fixture
def page(browser: Browser, tmp_path: Path) -> Iterator[Page]:
    """The index of three runs."""
    app = site_app(three_months(tmp_path / "runs"), frozenset({"127.0.0.1"}))
    with served(app) as address, watched(browser, color_scheme="light") as page:
        page.goto(f"{address}/")
        page.locator("html[data-ready]").wait_for(state="attached")
        yield page


def test_from_the_index_to_a_report(page: Page) -> None:
    page.get_by_role("link", name="september").click()
    page.locator("html[data-ready]").wait_for(state="attached")
    expect(page.locator(".finding p").first).to_contain_text("model-b")
    page.go_back()
    background = "getComputedStyle(document.body).backgroundColor"
    light = page.evaluate(background)
    page.get_by_role("button", name="Dark theme").click()
    dark = page.evaluate(background)
    assert dark != light
    page.get_by_role("link", name="september").click()
    page.locator("html[data-ready]").wait_for(state="attached")
    assert page.evaluate(background) == dark  # chosen once for all pages
    page.get_by_role("button", name="Light theme").click()
    assert page.evaluate(background) == light


def test_runs_are_sorted_by_date_and_saved(page: Page) -> None:
    names = page.locator("tbody th")
    expect(names).to_have_text(["september", "august", "july"])
    page.get_by_role("button", name="Date (UTC)").click()
    expect(names).to_have_text(["july", "august", "september"])
    page.get_by_role("button", name="Date (UTC)").click()
    expect(names).to_have_text(["september", "august", "july"])
    for order, first in (("descending", "september"), ("ascending", "august")):  # 75.0 before 50.0, by number
        page.get_by_role("button", name="OP").click()
        expect(page.locator("th[aria-sort]")).to_have_attribute("aria-sort", order)
        expect(names.first).to_have_text(first)
    page.get_by_role("button", name="OP").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Save this table as CSV").click()
    rows = list(csv.reader(Path(download.value.path()).read_text(encoding="utf-8-sig").splitlines()))
    assert download.value.suggested_filename == "Runs.csv"
    assert rows[0][:2] == ["Run", "Date (UTC)"]
    assert rows[1][:2] == ["september", "2026-09-01 (09:30)"]
    assert rows[1][6].startswith("75.0 (model-b)")
