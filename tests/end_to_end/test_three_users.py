"""A hospital's first study on the paths of its three users: the engineer, two physicians, and the head of department.

Everything is typed, clicked and read as they would, the pages in a real browser. The questions are LLMEval-Med's; the
30 answers to 15 of them, by two models, are in chinese_answers.jsonl and were written for this test.
"""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from openpyxl import load_workbook
from playwright.sync_api import Browser, Page, expect

from medjudge.store import Run

GOOD, POOR = "model-甲", "model-乙"
WANG, LI = "王医生", "李医生"
EACH = 12
"""Answers that each physician scores."""
SETTLED = 450
"""Milliseconds after which a screen takes scores."""
PATIENCE = 60_000
LATIN = re.compile("[A-Za-z]{4,}")
KEYS = {"English", "Enter", "Backspace"}

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.mark.slow
def test_a_hospitals_first_study(real_data: Path, tmp_path: Path, medjudge: Command, browser: Browser) -> None:
    benchmark = real_data / "llmeval-med" / "dataset.json"
    if not benchmark.exists():
        pytest.skip("MEDJUDGE_REAL_DATA has no llmeval-med/dataset.json")
    run = Run(tmp_path / "runs" / "ward")
    the_engineer_gets_from_questions_to_rates(benchmark, run, tmp_path, medjudge)
    the_physicians_score_in_chinese(run, tmp_path, medjudge, browser)
    the_head_of_department_reads_the_report(run, tmp_path, medjudge, browser)


# --- The engineer: from the file of questions to rates ---------------------------------------------------------------


def the_engineer_gets_from_questions_to_rates(benchmark: Path, run: Run, folder: Path, medjudge: Command) -> None:
    checked = medjudge("data", "check", benchmark)
    assert checked.returncode == 0
    assert "questions: 667" in checked.stdout
    assert "example ids: MK-" in checked.stdout
    assert checked.stdout.count("\n") < 40  # 907 oddities, in groups

    assert medjudge("data", "template", benchmark, "--format", "xlsx", "--out", "template.xlsx").returncode == 0
    written = (Path(__file__).parent / "chinese_answers.jsonl").read_text(encoding="utf-8")
    answers = [json.loads(line) for line in written.splitlines()]
    fill_in_answers(folder / "template.xlsx", answers, folder / "answers.xlsx")
    stray = {"question_id": "MK-9999-1", "model": POOR, "text": "多喝水。"}
    fill_in_answers(folder / "template.xlsx", [*answers, stray], folder / "stray.xlsx")

    own = ("eval", "--benchmark", benchmark, "--judge", "similarity", "--run", run.path, "--answered-only")
    for name, why in (("template.xlsx", "no answer in it"), ("stray.xlsx", "'MK-9999-1'")):
        refused = medjudge(*own, "--answers", name)
        assert refused.returncode == 2
        assert why in refused.stderr
        assert "medjudge data template" in refused.stderr
        assert refused.stderr.count("\n") == 1
        assert not run.path.exists()

    sample = medjudge("eval", "--judge", "similarity", "--per-category", 2, "--run", "runs/sample")
    assert sample.returncode == 0
    assert "50 answers judged, 0 unscored" in sample.stdout

    judged = medjudge(*own, "--answers", "answers.xlsx")
    assert judged.returncode == 0
    assert "15 questions, 15 of them with an answer; the judge can read 15 of these" in judged.stderr
    assert "30 answers judged, 0 unscored" in judged.stdout
    assert "never validated against physicians" in judged.stdout
    rates = json.loads((run.path / "scores.json").read_text(encoding="utf-8"))["models"]
    places = [re.search(rf"{name} +{rates[name]['OP']['rate']:.2f} ", judged.stdout) for name in (GOOD, POOR)]
    assert places[0] is not None
    assert places[1] is not None
    assert places[0].start() < places[1].start()  # the best first


def fill_in_answers(template: Path, answers: list[Any], filled: Path) -> None:
    """Fills in the template as in a spreadsheet program; the second answer to a question is a row at the end."""
    workbook = load_workbook(template)
    sheet = workbook.active
    row_of = {row[0].value: row for row in sheet.iter_rows(min_row=2)}
    for answer in answers:
        row = row_of.pop(answer["question_id"], None)
        if row is None:
            sheet.append([answer["question_id"], None, answer["model"], answer["text"]])
        else:
            row[2].value, row[3].value = answer["model"], answer["text"]
    workbook.save(filled)


# --- The physicians: one scores in the browser, the other in a workbook ----------------------------------------------


def the_physicians_score_in_chinese(run: Run, folder: Path, medjudge: Command, browser: Browser) -> None:
    raters = ("--rater", WANG, "--rater", LI)
    assert medjudge("annotate", "export", run.path, *raters, "--each", EACH, "--out", "forms").returncode == 0

    with served(run, WANG) as link:
        page = browser.new_page(viewport={"width": 1280, "height": 900}, locale="zh-CN")
        page.set_default_timeout(PATIENCE)
        page.goto(link)
        expect(page.locator("h1")).to_have_text(f"第1个回答，共{EACH}个")
        expect(page.locator("section.question, section.answer, #reference, #checklist")).to_have_count(4)
        missing = [score(page) for _ in range(EACH)]
        end = page.locator("main").inner_text()
        page.close()
    assert "medjudge" not in end
    said = {what for what in missing if what}
    assert len(said) == 1
    assert "有效性" in said.pop()
    assert len(run.physician_scores()) == EACH

    form = folder / "forms" / f"{LI}.xlsx"
    right_texts = {answer.text for answer in run.answers() if answer.model == GOOD}
    refused = medjudge("annotate", "import", run.path, fill_in_form(form, right_texts, 7))
    assert refused.returncode == 2
    assert re.search("score in F[0-9]+ is 7", refused.stderr)
    assert len(run.physician_scores()) == EACH
    imported = medjudge("annotate", "import", run.path, fill_in_form(form, right_texts, 4))
    assert imported.returncode == 0
    scores = run.physician_scores()
    assert len(scores) == 2 * EACH
    assert {score.rater for score in scores} == {WANG, LI}

    validated = medjudge("validate", run.path, "--judge", "similarity")
    assert validated.returncode == 0
    assert "GATE INCONCLUSIVE" in validated.stdout  # twelve answers can neither pass it nor fail it
    assert run.agreement_file("similarity").exists()


@contextmanager
def served(run: Run, rater: str) -> Iterator[str]:
    """Serves the scoring page as the command does, and yields the rater's link."""
    command = [sys.executable, "-m", "medjudge.cli", "annotate", "serve", str(run.path)]
    command += ["--rater", rater, "--no-open", "--json"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, encoding="utf-8")
    assert server.stdout is not None
    printed = ""
    while not printed.endswith("\n}\n"):  # the object takes several lines
        printed += server.stdout.readline()
        assert server.poll() is None
    try:
        yield json.loads(printed)["link"]
    finally:
        server.send_signal(signal.SIGINT)
        assert server.wait(60) == 0
        server.stdout.close()


def score(page: Page) -> str:
    """Scores the answer on the screen: a thorough one high, a short one low.

    Returns:
        What the page says where dimensions are missing; empty where a level is asked.
    """
    page.wait_for_load_state()  # on a busy machine the heading is there before the script that takes keys
    page.wait_for_timeout(SETTLED)
    assert english_interface(page) == []
    thorough = len(page.locator("section.answer .text").first.inner_text()) > 60
    if not page.locator(".dimensions").count():
        with page.expect_navigation():
            page.keyboard.press("5" if thorough else "2")
        return ""
    page.keyboard.type("44")
    page.keyboard.press("Enter")
    missing = page.get_by_role("alert").inner_text()
    page.keyboard.type("451" if thorough else "220")
    with page.expect_navigation():
        page.keyboard.press("Enter")
    return missing


def english_interface(page: Page) -> list[str]:
    """English words that are no text of the question or of its answer."""
    shown = page.evaluate("""() => {
        const copy = document.body.cloneNode(true);
        for (const text of copy.querySelectorAll(".text")) text.remove();
        return copy.textContent;
    }""")
    return [word for word in LATIN.findall(shown) if word not in KEYS]


def fill_in_form(form: Path, right_texts: set[str], high: int) -> Path:
    """Fills in the workbook of a physician who knows the right answers; `high` is what they get."""
    workbook = load_workbook(form)
    for sheet in workbook.worksheets[1:]:
        names = [cell.value or "" for cell in sheet[1]]
        answer = next(place for place, name in enumerate(names) if "待评的回答" in name)
        for row in sheet.iter_rows(min_row=2):
            right = row[answer].value in right_texts
            for cell in row[answer + 1 : len(names) - 1] if row[answer].value else ():
                of_safety = "安全性" in names[cell.column - 1]
                cell.value = int(right) if of_safety else high if right else 2
    filled = form.with_name(f"{high}-{form.name}")
    workbook.save(filled)
    return filled


# --- The head of department: reads the report -------------------------------------------------------------------------


def the_head_of_department_reads_the_report(run: Run, folder: Path, medjudge: Command, browser: Browser) -> None:
    assert medjudge("report", run.path, "runs/sample", "--lang", "zh", "--html", "report.html").returncode == 0
    wrong: list[str] = []
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.set_default_timeout(PATIENCE)
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("console", lambda line: wrong.append(line.text) if line.type == "error" else None)
    page.goto((folder / "report.html").as_uri())
    page.locator("html[data-ready]").wait_for(state="attached")
    the_finding_is_readable(page)
    page.close()
    assert wrong == []


def the_finding_is_readable(page: Page) -> None:
    finding = page.locator(".finding:visible p")
    expect(finding).to_have_count(3)
    box = page.locator(".finding:visible").bounding_box()
    assert box is not None
    assert box["y"] < 300
    for sentence in finding.all_inner_texts():
        assert re.search("[\u4e00-\u9fff]", sentence)
        assert set(LATIN.findall(sentence)) <= {"model", "similarity"}
    page.locator("nav.main a[href='#validation']").click()
    expect(page.locator("#trust")).to_be_visible()
    page.locator("nav.sub:visible a", has_text="similarity").first.click()
    expect(page.locator("#study-0 .verdict")).to_be_visible()
    assert page.locator("#trust").is_hidden()
