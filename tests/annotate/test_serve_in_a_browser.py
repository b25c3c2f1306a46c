"""The scoring pages in a real browser: keyboard, mouse, a killed server, hostile texts."""

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from browsing import served, watched
from scoring_pages import TOKEN, items_of, planned_run, scores_of

from medjudge.annotate.access import Access
from medjudge.annotate.plan import read_plan
from medjudge.annotate.serve import annotation_app
from medjudge.records import MTGDimensions
from medjudge.store import Run, write_records

SETTLED = 450  # milliseconds after which a screen takes scores


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens the page of a run, which is served on loopback, or of a link; see `watched` for what fails the test."""
    with ExitStack() as tabs:

        def opened(link: Run | str, **options: Any) -> Any:
            if isinstance(link, Run):
                app = annotation_app(link, read_plan(link), Access({TOKEN: "dr-a"}))
                link = f"{tabs.enter_context(served(app))}/?token={TOKEN}"
            page = tabs.enter_context(watched(browser, **options))
            page.goto(link)
            page.wait_for_selector("h1")
            page.wait_for_load_state()  # the heading is there before the style sheet
            assert "token" not in page.url
            return page

        yield opened


def _place(page: Any) -> int:
    return int(re.search(r"\d+", page.locator("h1").inner_text())[0])


def _press(page: Any, *keys: str) -> None:
    """Presses keys, the last of which leads to another screen; each is held a little, which must count once."""
    page.wait_for_load_state()
    page.wait_for_timeout(SETTLED)
    with page.expect_navigation(timeout=60_000):
        for key in keys:
            page.keyboard.down(key)
            page.keyboard.down(key)
            page.keyboard.up(key)
    page.wait_for_selector("h1")
    page.wait_for_load_state()


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
        _press(page, level)
    assert page.get_by_role("status").inner_text().startswith("Answer 4 saved")
    _press(page, "u")
    assert _place(page) == 4
    assert page.get_by_role("button", name="2 several key errors", pressed=True).is_visible()
    page.keyboard.press("c")
    page.keyboard.type("5 mg, not 50")
    page.keyboard.press("Escape")
    _press(page, "1")
    _press(page, "ArrowLeft")
    assert (_place(page), page.get_by_label("Comment").input_value()) == (4, "5 mg, not 50")
    _press(page, "ArrowRight")
    _press(page, "s")
    assert _place(page) == 6
    _press(page, "4")
    server.kill()
    server.wait()
    page.context.close()

    server, link = _start(knowledge)
    page = open_page(link)
    assert _place(page) == 5  # the one that was skipped
    assert "5 of 12 scored" in page.locator("header").inner_text()
    for level in "35121":
        _press(page, level)
    assert "10 of 12 scored" in page.locator("header").inner_text()
    assert _place(page) == 11
    server.send_signal(signal.SIGINT)
    assert server.wait(20) == 0
    assert server.stderr is not None
    assert "2 of 12 answers are open" in server.stderr.read()

    items = {item.id: item.question_id for item in read_plan(knowledge).items}
    order = [items[item] for item in items_of(knowledge)[:10]]
    by_question = {question: (score, comment) for question, score, comment in scores_of(knowledge)}
    assert len(scores_of(knowledge)) == 10
    levels = [by_question[question][0] for question in order]
    assert levels == [5, 4, 3, 1, 3, 4, 5, 1, 2, 1]
    assert [comment for _, comment in by_question.values() if comment] == ["5 mg, not 50"]


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
    assert page.evaluate("Object.fromEntries(new FormData(document.querySelector('form')))") == {
        "rater": "dr-a",
        "instruction_following": "4",
        "correctness": "3",
        "effectiveness": "5",
        "readability": "2",
        "safety": "1",
        "comment": "",
    }
    _press(page, "Enter")
    assert _place(page) == 2
    page.keyboard.press("7")
    assert (
        page.get_by_role("status").inner_text()
        == "Instruction following: choose one of the scores shown Answer 1 saved Score it again"
    )
    _press(page, "u")
    _press(page, "1", '"', "Enter")  # one digit is put right, the other four stand
    for key in "44440":
        page.keyboard.press(key)
    colour = "getComputedStyle(document.querySelector('[name=%s]:checked + span')).backgroundColor"
    assert page.evaluate(colour % "safety") == "rgb(168, 63, 41)"
    assert page.evaluate(colour % "correctness") == "rgb(31, 122, 92)"
    _press(page, "Enter")
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


@pytest.mark.parametrize("category", ["MK", "MTG"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_texts_stay_texts(
    category: str,
    language: str,
    tmp_path: Path,
    question: Callable[..., Any],
    answer: Callable[..., Any],
    physician_score: Callable[..., Any],
    open_page: Callable[..., Any],
) -> None:
    texts = dict.fromkeys(("subcategory", "scene", "difficulty", "prompt", "reference", "checklist"), HOSTILE)
    questions = [
        question(id=f"q{turn}", category=category, language=language, round=turn, **texts).model_copy(
            update={"group": "q1"}
        )
        for turn in (1, 2)
    ]
    answers = [
        answer(question_id=question.id, model=WITHOUT_NUL, text=HOSTILE, finish_reason=HOSTILE)
        for question in questions
    ]
    run = planned_run(tmp_path / "run", questions, answers)
    levels = {"score": 3} if category == "MK" else {"dimensions": dict.fromkeys(MTGDimensions.model_fields, 1)}
    write_records(
        run.physicians_file,
        [
            physician_score(question_id=id, model=WITHOUT_NUL, rater="dr-a", comment=WITHOUT_NUL, **levels)
            for id in ("q1", "q2")
        ],
    )
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


@pytest.mark.slow
def test_a_typed_comment_outlives_a_look_at_another_answer(knowledge: Run, open_page: Callable[..., Any]) -> None:
    page = open_page(knowledge)
    page.get_by_label("Comment").press_sequentially("dose?", delay=100)
    for _ in range(20):  # as a person would: the browser writes its storage down a moment later
        page.wait_for_timeout(SETTLED)
        if "dose?" in page.evaluate("Object.values(sessionStorage)"):
            break
    assert "dose?" in page.evaluate("Object.values(sessionStorage)")
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
