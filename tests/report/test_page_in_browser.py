"""The report as a reader has it: opened from a file in headless Chromium, with the network watched."""

from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from browsing import PATIENCE
from playwright.sync_api import Page, expect

from medjudge.records import Answer, Judgment, MTGDimensions, PhysicianScore, Question, invisible
from medjudge.report.page import report_page
from medjudge.rounds import binding_by_answer, level_of, scored_rounds
from medjudge.scale import consensus
from medjudge.store import Run, write_records

HOSTILE = (
    "</script><script>window.ran = 1</script><img src=x onerror=\"window.ran = 2\"><svg/onload='window.ran = 3'>"
    "<!--<script> {{ 7 * 7 }} ${window.ran = 4} `x` ]]> &amp; \\u003cb\\u003e \ufffd \u2028 \u2029 \u0085 \ufeff "
    "\x00 \x08 \x1b[31m \x7f \u202e abc \u2066 e\u0301 \U0001f600 药物"
)
PICTURES = {code: 0x2400 + code for code in (0, 8, 27)} | {127: 0x2421}
SHOWN = HOSTILE.translate(PICTURES)
NAME = HOSTILE.replace("\x00", "")  # ids and models with NUL are refused
NAME_SHOWN = NAME.translate(PICTURES)
RATER = "".join(character for character in HOSTILE if not invisible(character))  # others are refused


@pytest.fixture
def conversation(tmp_path: Path) -> Run:
    """Two turns, two models, two samples; one judge failed once, the other knows a question; an unsafe answer."""
    run = Run(tmp_path / "conversation")
    base: dict[str, Any] = {"category": "MTG", "subcategory": "病历", "group": "g", "language": "zh"}
    questions = [
        Question(id="q/1 #%", prompt="写一份出院小结", **base),
        Question(id="q/2 #%", round=2, prompt="把它缩短", reference="短的", checklist="1. 诊断", **base),
    ]
    answers = [
        Answer(question_id=question.id, model=model, sample=sample, text=f"{model} 的第{sample}份：{question.prompt}")
        for question, model, sample in product(questions, ("甲/α", "b c"), (0, 1))
    ]
    keys = [answer.key._asdict() for answer in answers]
    shares = [0.05, 0.1, 0.4, 0.3, 0.15]
    write_records(run.questions_file, questions)
    write_records(run.answers_file, answers)
    first = [Judgment(**key, judge="first", score=3, expected=3.4, probabilities=shares) for key in keys[:-1]]
    first.append(Judgment(**keys[-1], judge="first", score=None, error="no score in the reply", raw="Well, [10] or so"))
    write_records(run.judgments_file("first"), first)
    second = [Judgment(**key, judge="second", score=5, rationale="完整", answer_tokens_cut=7) for key in keys]
    write_records(run.judgments_file("second"), second)
    safe = {"instruction_following": 5, "correctness": 5, "effectiveness": 4, "readability": 4}
    scores = [
        PhysicianScore(**keys[4], rater="Dr 王", dimensions=MTGDimensions(**safe, safety=1), comment="漏了随访"),
        PhysicianScore(**keys[6], rater="Dr 王", dimensions=MTGDimensions(**safe, safety=0)),
    ]
    write_records(run.physicians_file, scores)
    run.update_manifest(judge="first", judges={"second": {"seen_question_ids": ["q/2 #%"]}})
    return run


def count(page: Page) -> int:
    """The number of answers found, once the search is over."""
    expect(page.locator("#count")).not_to_contain_text("searching")
    return int(page.locator("#count").inner_text().split(" of ")[0].replace(",", ""))


def choose(page: Page, **values: str) -> int:
    """Sets filters, from none set, and counts."""
    page.locator("button[type=reset]").click()
    expect(page.locator("#count")).to_contain_text(page.locator("nav.main small").inner_text())
    for name, value in values.items():
        page.locator(f"#filters select[name={name}]").select_option(value)
    return count(page)


def search(page: Page, words: str) -> int:
    before = page.evaluate("refreshed")
    page.locator("#filters [name=words]").fill(words)
    while page.evaluate("refreshed") == before:  # the page waits for the next letter
        page.wait_for_timeout(20)
    return count(page)


def test_nothing_that_stands_in_a_record_runs_and_all_of_it_is_read_literally(
    tmp_path, conversation, open_report
) -> None:
    run = Run(tmp_path / "<img src=x onerror=window.ran=5>")
    asked = {"category": "MSE", "subcategory": HOSTILE, "scene": HOSTILE, "difficulty": HOSTILE, "group": NAME}
    texts = {"prompt": HOSTILE, "reference": HOSTILE, "checklist": HOSTILE}
    questions = [Question(id=f"{n}{NAME}", round=n, language="zh", **asked, **texts) for n in (1, 2)]
    keys = [{"question_id": question.id, "model": NAME} for question in questions]
    judge = "<img src=x onerror=window.ran=6>"
    write_records(run.questions_file, questions)
    write_records(run.answers_file, [Answer(**key, text=HOSTILE) for key in keys])
    judgments = [
        Judgment(**keys[0], judge=judge, score=None, error=HOSTILE, raw=HOSTILE),
        Judgment(**keys[1], judge=judge, score=5, rationale=HOSTILE),
    ]
    write_records(run.judgments_file(judge), judgments)
    scores = [PhysicianScore(**key, rater=RATER, score=1, comment=HOSTILE) for key in keys]
    write_records(run.physicians_file, scores)
    run.update_manifest(notes=[HOSTILE], benchmark={"source": HOSTILE, "questions": 2, "sha256": "0" * 64})

    page = open_report(run, conversation, address="#answers")
    page.locator(".row").first.click()
    page.get_by_role("button", name="Raw text").click()
    for place in (0, 1):
        page.locator(".row").nth(place).click()
        expect(page.locator("#detail h3")).to_have_text(f"{place + 1}{NAME_SHOWN} · {NAME_SHOWN}", use_inner_text=False)
        blocks = page.locator("#detail .text-block").evaluate_all("all => all.map((one) => one.textContent)")
        # comment, question, answer, reference, checklist, and rationale or reply; before it the turn before, answered.
        assert blocks == [SHOWN] * (6 + 2 * place)
        facts = page.locator("#detail .facts").evaluate("one => one.textContent")
        assert facts == f"run {run.path.name} · Medical safety and ethics · {SHOWN} · {SHOWN} · {SHOWN} · zh"
    assert search(page, "window.ran") == 2
    page.locator(".row").nth(1).click()
    expect(page.locator("#detail mark").first).to_have_text("window.ran")
    assert page.locator(".leaders th[scope=row] bdi").first.evaluate("one => one.textContent") == NAME_SHOWN
    assert page.evaluate("typeof window.ran") == "undefined"
    assert page.locator("main img, #detail svg").count() == 0


def test_the_policy_refuses_what_the_pages_own_script_does_not_need(run, browser, tmp_path) -> None:
    (tmp_path / "report.html").write_text(report_page([run]), encoding="utf-8")
    with browser.new_context() as context:
        context.set_default_timeout(PATIENCE)
        page = context.new_page()
        page.goto((tmp_path / "report.html").as_uri())
        for attempt in (
            "document.body.innerHTML = '<b>x</b>'",
            "document.body.setAttribute('onclick', '1')",
            "document.createElement('script').textContent = '1'",
            "await fetch('http://127.0.0.1:9/')",
            "await fetch('file:///etc/hostname')",
        ):
            tried = f"async () => {{ try {{ {attempt}; return 'done' }} catch (error) {{ return error.name }} }}"
            assert page.evaluate(tried) == "TypeError", attempt


@pytest.mark.slow
def test_filters_find_what_the_records_hold(run, open_report) -> None:
    page = open_report(run, address="#answers")
    answers, questions = run.answers(), {question.id: question for question in run.questions()}
    mine, gpt = (
        {key: level_of(rounds) for key, rounds in scored_rounds(run.judgments(judge)).items()}
        for judge in ("mine", "gpt")
    )
    usable = {judgment.answer_key: sum(judgment.probabilities[3:]) for judgment in run.judgments("mine")}
    scored = binding_by_answer(run.physician_scores())
    levels = {key: [score.level for score in scores] for key, scores in scored.items()}
    physicians = {key: consensus(all_levels) for key, all_levels in levels.items()}
    category = {answer.key: questions[answer.question_id].category for answer in answers}

    def expected(holds: Callable[[Any], bool]) -> int:
        return sum(holds(answer.key) for answer in answers)

    wanted: list[tuple[dict[str, str], Callable[[Any], bool]]] = [
        ({}, lambda key: True),
        ({"score": "usable"}, lambda key: mine[key] >= 4),
        ({"score": "low"}, lambda key: mine[key] <= 2),
        ({"physicians": "none"}, lambda key: key not in physicians),
        ({"physicians": "unusable"}, lambda key: physicians.get(key, 5) < 4),
        ({"category": '["MR"]'}, lambda key: category[key] == "MR"),
        ({"category": '["MK","药物"]'}, lambda key: questions[key.question_id].subcategory == "药物"),
        ({"model": '"model-c"', "score": "unusable"}, lambda key: key.model == "model-c" and mine[key] < 4),
        ({"apart": "usable"}, lambda key: key in physicians and (physicians[key] >= 4) != (mine[key] >= 4)),
        ({"apart": "danger"}, lambda key: physicians.get(key, 5) < 4 <= mine[key]),
        ({"apart": "levels"}, lambda key: abs(physicians.get(key, mine[key]) - mine[key]) >= 2),
        ({"apart": "judges"}, lambda key: (gpt[key] >= 4) != (mine[key] >= 4)),
        ({"harm": "ethics"}, lambda key: category[key] == "MSE" and mine[key] < 4),
        ({"harm": "judge"}, lambda key: mine[key] == 1),  # in every category
        ({"harm": "physicians"}, lambda key: min(levels.get(key, [5])) == 1),
    ]
    for filters, holds in wanted:
        assert choose(page, judge="mine", **filters) == expected(holds) > 0, filters
    # Each share on the leaderboard leads to its answers.
    page.locator("nav.main a").first.click()
    page.locator("nav.sub a[href='#board-1']").click()
    row = page.locator("#board-1 table:has(a[href*=score])").locator("tbody tr").first
    model, (share, *_) = row.locator("th").inner_text(), row.locator("td a").all_inner_texts()
    row.locator("td a").first.click()
    page.locator("#answers.open").wait_for()
    found = expected(lambda key: key.model == model and mine[key] == 1)
    expect(page.locator("#count")).to_have_text(f"{found} of 280 answers")
    assert share == f"{100 * found / 56:.1f}"
    choose(page, judge="mine")
    page.locator("#filters [name=uncertain]").check()
    assert count(page) == expected(lambda key: 0.25 <= usable[key] <= 0.75)


def test_every_text_is_searched(conversation, open_report) -> None:
    page = open_report(conversation, address="#answers")
    assert search(page, "出院小结") == 4  # the question, and what was answered to it
    assert search(page, "漏了随访") == 1  # a comment
    assert search(page, "完整 诊断") == 4  # rationale and checklist: both words
    assert search(page, "Α 第1份") == 2  # upper and lower case are the same
    assert search(page, "NO SCORE") == 1
    assert search(page, "[10] (") == 0
    assert search(page, "") == 8


def test_an_answer_has_an_address_and_shows_everything_of_it(conversation, open_report) -> None:
    page = open_report(conversation, address="#answer/0/q%2F2%20%23%25/%E7%94%B2%2F%CE%B1/0")
    detail = page.locator("#detail")
    expect(detail.locator("h3")).to_have_text("q/2 #% · 甲/α · sample 1")
    assert [" ".join(cells.split()) for cells in detail.locator("tbody tr").all_inner_texts()] == [
        "first 3 3.40 5 10 40 30 15",
        "second trained or tuned on this question 5 – – – – – –",
        "Dr 王 5 instruction following 5, correctness 5, effectiveness 4, readability 4, safety 1",
    ]
    assert detail.locator("h4").all_inner_texts() == [
        *("Judges", "Physicians", "Comment by Dr 王", "Turn 1", "Answered in turn 1", "Question"),
        *("Answer by 甲/α", "Reference", "Checklist", "Rationale of second"),
    ]
    texts = ["漏了随访", "写一份出院小结", "甲/α 的第0份：写一份出院小结", "把它缩短", "甲/α 的第0份：把它缩短"]
    assert detail.locator(".text-block").all_inner_texts() == [*texts, "短的", "诊断", "完整"]
    assert detail.locator(".text-block ol li").inner_text() == "诊断"
    assert detail.locator(".text-block:not([lang=zh])").count() == 0
    assert "did not read 7 tokens of the answer" in detail.inner_text()
    page.evaluate("location.hash = '#answer/0/q%2F2%20%23%25/b%20c/1'")
    expect(detail.locator("h3")).to_have_text("q/2 #% · b c · sample 2")
    assert "unscored: no score in the reply" in detail.inner_text()
    assert "Well, [10] or so" in detail.inner_text()
    assert choose(page, harm="physicians") == 1
    assert choose(page, score="0") == 1
    assert choose(page, judge="second", apart="usable") == 0  # it has seen the scored question


def test_markdown_is_rendered_and_shown_raw_on_request(conversation, open_report) -> None:
    text = "## 处理\n\n**补液**，然后：\n\n3. 复查\n4. 随访\n\n| 药 | 量 |\n|---|---|\n| 布洛芬 | 400 mg |\n"
    text += "\n<b onclick=alert(1)>x</b>"
    answers = [answer.model_copy(update={"text": text}) for answer in conversation.answers()]
    write_records(conversation.answers_file, answers)
    page = open_report(conversation, address="#answer/0/q%2F1%20%23%25/b%20c/0")
    said = page.locator("#detail .text-block.said")
    expect(said.locator("strong")).to_have_text(["处理", "补液"])
    assert said.locator("ol").get_attribute("start") == "3"
    assert said.locator(".scroll td").all_inner_texts() == ["布洛芬", "400 mg"]
    expect(said).to_contain_text("<b onclick=alert(1)>x</b>")
    assert search(page, "**补液**") == 8  # the search reads what was written
    assert search(page, "布洛芬") == 8
    page.locator(".row").first.click()
    expect(said.locator("td mark")).to_have_text("布洛芬")
    page.get_by_role("button", name="Raw text").click()
    expect(said).to_have_text(text, use_inner_text=True)
    expect(page.get_by_role("button", name="Raw text")).to_be_focused()


@pytest.mark.slow
def test_the_list_is_read_with_the_keyboard(run, open_report) -> None:
    page = open_report(run, viewport={"width": 1200, "height": 700}, address="#answers")
    page.locator("#list").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowDown", "ArrowUp"):
        page.keyboard.press(key)
    place = int(page.locator(".row[aria-selected=true]").get_attribute("aria-posinset") or 0)
    assert page.locator("#list").get_attribute("aria-activedescendant") == f"row-{place - 1}"
    page.keyboard.press("End")
    expect(page.locator(".row[aria-selected=true]")).to_have_attribute("aria-posinset", "280")
    last = run.answers()[-1]
    expect(page.locator("#detail h3")).to_have_text(f"{last.question_id} · {last.model}")
    assert page.evaluate("location.hash") == f"#answer/0/{last.question_id}/{last.model}/0"
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "detail"
    assert 5 < page.locator(".row").count() < 40  # only the rows seen are in the page


def test_leader_and_evaluator_need_no_script(run, open_report) -> None:
    page = open_report(run, java_script_enabled=False, address="#answers")
    assert page.locator(".leaders").first.is_visible()
    assert page.locator(".plots img").count() == 2
    assert page.locator("#validation .verdict").is_visible()
    assert "needs JavaScript" in page.locator("#answers").inner_text()
    assert not page.locator("#reader").is_visible()
