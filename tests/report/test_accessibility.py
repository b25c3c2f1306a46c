"""axe-core finds nothing serious on the pages that people read, in a real browser; `.ci/run` brings axe-core by npm."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import PATIENCE, served
from folder_of_runs import add_run, three_months
from playwright.sync_api import Browser, Page

from medjudge.annotate.access import Access
from medjudge.annotate.draw import draw_plan
from medjudge.annotate.plan import PlanOptions, read_plan, write_plan
from medjudge.annotate.serve import annotation_app
from medjudge.report.page import report_page
from medjudge.report.site_app import site_app

LOOKS = [(1280, "light"), (400, "dark")]
SERIOUS = """() => axe.run(document, { resultTypes: ["violations"] }).then((result) => result.violations
  .filter((one) => ["serious", "critical"].includes(one.impact))
  .map((one) => `${one.id}: ${one.nodes.map((node) => node.html.slice(0, 100)).slice(0, 3).join(" ")}`))"""


@pytest.fixture(scope="module")
def axe() -> str:
    file = os.environ.get("MEDJUDGE_AXE")
    if not file:
        pytest.skip("MEDJUDGE_AXE names no axe.min.js (npm package axe-core)")
    return Path(file).read_text(encoding="utf-8")


@pytest.fixture
def tab(browser: Browser, axe: str) -> Iterator[Any]:
    """Opens an address in a size and a colour scheme, with axe-core inside."""
    contexts = []

    def opened(address: str, width: int, scheme: Any, ready: str) -> Page:
        size = {"width": width, "height": 900}
        contexts.append(browser.new_context(viewport=size, color_scheme=scheme, bypass_csp=True))
        contexts[-1].set_default_timeout(PATIENCE)
        page = contexts[-1].new_page()
        page.goto(address)
        page.locator(ready).wait_for(state="attached")
        page.evaluate(axe)
        return page

    yield opened
    for context in contexts:
        context.close()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_no_part_of_the_report_has_a_serious_issue(run, tmp_path, tab, width, scheme) -> None:
    (tmp_path / "report.html").write_text(report_page([run], since=run), encoding="utf-8")
    page = tab((tmp_path / "report.html").as_uri(), width, scheme, "html[data-ready]")
    for address in ("#board-1", "#trust", "#study-0", "#answer/0/MK-zh-01/model-a/0?beside=%22model-d%22"):
        page.evaluate("address => { location.hash = address }", address)
        page.locator("#detail h3" if "answer/" in address else f"{address}.open").wait_for()
        page.evaluate("for (const one of document.querySelectorAll('details')) one.open = true")
        assert page.evaluate(SERIOUS) == [], address
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), address


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), LOOKS)
def test_the_scoring_page_and_the_index_of_runs_have_no_serious_issue(run, tmp_path, tab, width, scheme) -> None:
    run.physicians_file.unlink()
    write_plan(run, draw_plan(run, PlanOptions(("dr-a",), overlap=1, seed=3)))
    plan = read_plan(run)
    by_category = {question.id: question.category for question in run.questions()}
    items = {by_category[item.question_id] == "MTG": item.id for item in plan.items}
    with served(annotation_app(run, plan, Access({"t0ken": "dr-a"}))) as address:
        for item in items.values():
            page = tab(f"{address}/?token=t0ken", width, scheme, "h1")
            page.goto(f"{address}/answer/{item}")
            page.evaluate(Path(os.environ["MEDJUDGE_AXE"]).read_text(encoding="utf-8"))
            assert page.evaluate(SERIOUS) == []
    folder = three_months(tmp_path / "runs")
    add_run(folder / "half-written", 11, {"model-a": 1}).answers_file.unlink()
    with served(site_app(folder, frozenset({"127.0.0.1"}))) as address:
        for path in ("/", "/run/none"):
            page = tab(address + path, width, scheme, "html[data-ready]")
            assert page.evaluate(SERIOUS) == [], path
            assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
