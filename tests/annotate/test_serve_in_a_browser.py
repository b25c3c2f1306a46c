"""The scoring pages in a real browser: keyboard, mouse, a killed server, hostile texts."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from scoring_run import SETTLED, answer, items_of, planned, press, question, run_of, scores_of

from medjudge.annotate.plan import read_plan
from medjudge.records import MTGDimensions, PhysicianScore
from medjudge.store import Run, write_records


def _place(page: Any) -> int:
    return int(re.search(r"\d+", page.locator("h1").inner_text())[0])


def _start(run: Run) -> tuple[subprocess.Popen[str], str]:
    command = ["-m", "medjudge.cli", "annotate", "serve", str(run.path), "--rater", "dr-a", "--no-open", "--json"]
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = ""
    while not printed.endswith("\n}\n"):
        printed += process.stdout.readline()
        assert process.poll() is None
    return process, json.loads(printed)["link"]


@pytest.mark.slow
def test_ten_answers_by_keyboard_with_a_killed_server_between(knowledge: Run, open_page: Callable[..., Any]) -> None:
    server, link = _start(knowledge)
    page = open_page(link)
    for level in "5432":
        press(page, level)
    assert page.get_by_role("status").inner_text().startswith("Answer 4 saved")
    press(page, "u")
    assert _place(page) == 4
    assert page.get_by_role("button", name="2 several key errors", pressed=True).is_visible()
    page.keyboard.press("c")
    page.keyboard.type("5 mg, not 50")
    page.keyboard.press("Escape")
    press(page, "1")
    press(page, "ArrowLeft")
    assert (_place(page), page.get_by_label("Comment").input_value()) == (4, "5 mg, not 50")
    press(page, "ArrowRight")
    press(page, "s")
    assert _place(page) == 6
    press(page, "4")
    server.kill()
    server.wait()
    page.context.close()

    server, link = _start(knowledge)
    page = open_page(link)
    assert _place(page) == 5  # the one that was skipped
    assert "5 of 12 scored" in page.locator("header").inner_text()
    for level in "35121":
        press(page, level)
    assert "10 of 12 scored" in page.locator("header").inner_text()
    assert _place(page) == 11
    server.send_signal(signal.SIGINT)
    assert server.wait(20) == 0
    assert server.stderr is not None
    assert "2 of 12 answers are open" in server.stderr.read()

    question_of = {item.id: item.question_id for item in read_plan(knowledge).items}
    given = {question: (score, comment) for question, score, comment in scores_of(knowledge)}
    in_order = [given.pop(question_of[item]) for item in items_of(knowledge)[:10]]
    assert [score for score, _ in in_order] == [5, 4, 3, 1, 3, 4, 5, 1, 2, 1]
    assert [comment for _, comment in in_order if comment] == ["5 mg, not 50"]
    assert not given


@pytest.mark.slow
def test_dimensions_by_keyboard(letters: Run, open_page: Callable[..., Any]) -> None:
    page = open_page(letters)
    page.wait_for_timeout(SETTLED)
    for key in "43":
        page.keyboard.press(key)
    page.keyboard.press("Enter")  # three are missing: nothing is sent
    page.wait_for_timeout(SETTLED)
    assert _place(page) == 1
    assert page.get_by_role("alert").inner_text() == "Not saved: no score for Effectiveness, Readability, Safety."
    assert page.evaluate("document.activeElement.name") == "effectiveness"
    for key in ("9", "5", "5", "Backspace", "2", "5", "1"):  # 9 is on no scale, 5 not on safety's
        page.keyboard.press(key)
    assert page.evaluate("[...document.querySelectorAll(':checked')].map(radio => radio.value).join('')") == "43521"
    press(page, "Enter")
    assert _place(page) == 2
    page.keyboard.press("7")
    assert page.get_by_role("status").inner_text().startswith("Instruction following: choose one of the scores shown")
    press(page, "u")
    press(page, "1", '"', "Enter")  # one digit is put right, the other four stand
    for key in "44440":
        page.keyboard.press(key)
    press(page, "Enter")
    assert page.get_by_role("heading", name="All answers are scored").is_visible()
    dimensions = {
        tuple(score.dimensions.model_dump().values()) for score in letters.physician_scores() if score.dimensions
    }
    assert dimensions == {(1, 3, 5, 2, 1), (4, 4, 4, 4, 0)}


HOSTILE = (
    "<script>window.ran = 1</script><img src=x onerror=\"window.ran = 2\"><svg onload='window.ran = 3'></div>"
    "</textarea><style>body{display:none}</style> &lt;b&gt; {{ 7 * 7 }} {% raw %} javascript:x \u202e05 mg\u202c\n"
    "\n\t第二行：   e\u0301\u0301\u0301 \u2066\ufffd\u2069 \ufffe \x00\x1b[31m \U0001f468\u200d\u2695\ufe0f" + "x" * 400
)
LITERAL = re.sub("[\u202e\u202c\u2066\u2069\ufffe\x00\x1b]", lambda match: f"U+{ord(match[0]):04X}", HOSTILE)
WITHOUT_NUL = HOSTILE.replace("\x00", "")
"""A browser shows no NUL in a field, and names of models with one are refused."""


@pytest.mark.parametrize(("category", "language"), [("MK", "zh"), ("MTG", "en")])
def test_texts_stay_texts(category: str, language: str, tmp_path: Path, open_page: Callable[..., Any]) -> None:
    texts = dict.fromkeys(("subcategory", "scene", "difficulty", "prompt", "reference", "checklist"), HOSTILE)
    ids = ("q1", "q2")
    questions = [
        question(name, category, language=language, round=turn, **{**texts, "group": "q1"})
        for turn, name in enumerate(ids, 1)
    ]
    answers = [answer(name, WITHOUT_NUL, HOSTILE, finish_reason=HOSTILE) for name in ids]
    run = run_of(tmp_path / "run", questions, answers)
    planned(run, raters=["dr-a"], overlap=1)
    levels: dict[str, Any] = {"score": 3}
    if category == "MTG":
        levels = {"dimensions": dict.fromkeys(MTGDimensions.model_fields, 1)}
    given = {"model": WITHOUT_NUL, "rater": "dr-a", "comment": WITHOUT_NUL, **levels}
    write_records(run.physicians_file, [PhysicianScore.model_validate({"question_id": name, **given}) for name in ids])
    items = {item.question_id: item.id for item in read_plan(run).items}
    page = open_page(run, viewport={"width": 390, "height": 780}, locale=language)
    page.goto(urljoin(page.url, f"/answer/{items['q2']}"))
    page.get_by_label({"en": "Raw text", "zh": "原始文本"}[language]).check()
    assert page.locator(".text:visible").count() == 4  # earlier turns are folded
    page.locator(".earlier summary").click()
    shown = page.locator(".text:visible").all_inner_texts()
    assert len(shown) == 6  # the turn before and its answer, question, answer, reference, checklist
    assert set(shown) == {LITERAL}
    assert LITERAL.split("\n")[0] in page.locator(".kind").inner_text()
    assert page.get_by_role("textbox").input_value() == WITHOUT_NUL
    assert page.locator(".text").first.get_attribute("lang") == {"en": "en", "zh": "zh-Hans"}[language]
    assert page.evaluate("window.ran") is None
    assert page.locator("main script, main img, main svg, main style").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("c")
    field, bar = page.get_by_role("textbox").bounding_box(), page.locator(".bar").bounding_box()
    assert 0 <= field["y"] <= field["y"] + field["height"] <= bar["y"]


@pytest.mark.slow
def test_a_typed_comment_outlives_a_look_at_another_answer(knowledge: Run, open_page: Callable[..., Any]) -> None:
    page = open_page(knowledge)
    page.get_by_label("Comment").press_sequentially("dose?", delay=100)  # as a person would
    page.wait_for_function("Object.values(sessionStorage).includes('dose?')")
    page.get_by_role("link", name="Forward").click()
    page.wait_for_url(f"**/{items_of(knowledge)[1]}")
    page.get_by_role("link", name="Back").click()
    page.wait_for_url(f"**/{items_of(knowledge)[0]}")
    assert page.get_by_label("Comment").input_value() == "dose?"
    page.wait_for_timeout(SETTLED)
    # The second click meets the next screen, and is no score.
    page.get_by_role("button", name="4 key facts right").dblclick()
    page.wait_for_url("**saved=**")
    page.wait_for_timeout(SETTLED)
    assert [(score, comment) for _, score, comment in scores_of(knowledge)] == [(4, "dose?")]


def test_mouse_alone_without_javascript(letters: Run, open_page: Callable[..., Any]) -> None:
    page = open_page(letters, java_script_enabled=False)
    for name, value in (
        ("Instruction following", "5"),
        ("Correctness", "4"),
        ("Effectiveness", "3"),
        ("Readability", "2"),
    ):
        page.get_by_role("group", name=name).get_by_role("radio", name=value).click()
    page.get_by_role("group", name="Safety").get_by_role("radio", name="0").check()
    page.get_by_label("Comment").fill("one\ntwo")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**saved=**")
    [score] = letters.physician_scores()
    assert score.dimensions is not None
    assert (*score.dimensions.model_dump().values(), score.comment) == (5, 4, 3, 2, 0, "one\ntwo")
