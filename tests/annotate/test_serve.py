import json
import re
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvicorn
import yaml
from starlette.testclient import TestClient

import medjudge.annotate.rendering as serving
from medjudge.annotate.access import Access
from medjudge.annotate.draw import draw_plan
from medjudge.annotate.plan import PlanOptions, plan_file, read_plan, write_plan
from medjudge.annotate.serve import scoring_app, seconds_left
from medjudge.languages.texts import PACKAGED
from medjudge.records import MTGDimensions
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import Run, write_records

CATEGORIES = LLMEVAL_MED.category_ids

TOKEN = "t0ken"
HERE = "http://127.0.0.1:8000"
MODEL = "secret-model-9"
SETTLED = 450  # milliseconds after which a screen takes scores


def _run(path: Path, questions: list[Any], answers: list[Any], raters: tuple[str, ...] = ("dr-a",)) -> Run:
    run = Run(path)
    write_records(run.questions_file, questions)
    write_records(run.answers_file, answers)
    write_plan(run, draw_plan(run, PlanOptions(raters, overlap=len(raters), seed=3)))
    return run


@pytest.fixture
def knowledge(tmp_path: Path, question: Callable[..., Any], answer: Callable[..., Any]) -> Run:
    """Twelve short answers."""
    questions = [question(id=f"q{n}", category=CATEGORIES[n % 4], prompt=f"Question {n}?") for n in range(12)]
    answers = [answer(question_id=f"q{n}", model=MODEL, text=f"Reply {n}.") for n in range(12)]
    return _run(tmp_path / "run", questions, answers, ("dr-a", "dr-b"))


@pytest.fixture
def letters(tmp_path: Path, question: Callable[..., Any], answer: Callable[..., Any]) -> Run:
    """Two generated texts."""
    questions = [question(id=f"q{n}", category="MTG", prompt=f"Write letter {n}.") for n in range(2)]
    return _run(tmp_path / "letters", questions, [answer(question_id=f"q{n}", model=MODEL) for n in range(2)])


def _client(run: Run, rater: str = "dr-a") -> TestClient:
    client = TestClient(scoring_app(run, read_plan(run), Access({TOKEN: rater})), base_url=HERE, follow_redirects=False)
    assert client.get("/", params={"token": TOKEN}).status_code == 200
    client.headers["origin"] = HERE
    return client


def _items(run: Run, rater: str = "dr-a") -> list[str]:
    return read_plan(run).by_rater[rater]


def _scores(run: Run) -> list[tuple[str, int | None, str | None]]:
    return [(score.question_id, score.score, score.comment) for score in run.physician_scores()]


@pytest.mark.parametrize(
    "path", ["/", "/?token=", "/?token=wrong", "/answer/{item}", "/next/{item}", "/static/page.css", "/docs"]
)
def test_without_the_token_there_is_nothing(knowledge: Run, path: str) -> None:
    client = TestClient(scoring_app(knowledge, read_plan(knowledge), Access({TOKEN: "dr-a"})), base_url=HERE)
    reply = client.get(path.format(item=_items(knowledge)[0]))
    assert reply.status_code == 403
    assert "Reply" not in reply.text
    assert client.post(path.format(item=_items(knowledge)[0]), headers={"origin": HERE}).status_code == 403
    assert not client.cookies


def test_link_gives_a_cookie_that_scripts_and_other_sites_cannot_use(knowledge: Run) -> None:
    client = TestClient(scoring_app(knowledge, read_plan(knowledge), Access({TOKEN: "dr-a"})), base_url=HERE)
    reply = client.get("/", params={"token": TOKEN})
    cookie = reply.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert TOKEN not in reply.text
    assert client.get("/").status_code == 200


def test_every_reply_carries_the_headers(knowledge: Run) -> None:
    client = _client(knowledge)
    item = _items(knowledge)[0]
    replies = [client.get(path) for path in ("/", f"/answer/{item}", "/static/page.js", "/nothing", "/answer/nothing")]
    replies += [client.post(f"/answer/{item}", data={"score": "9"}), TestClient(client.app, base_url=HERE).get("/")]
    assert [reply.status_code for reply in replies] == [303, 200, 200, 404, 404, 400, 403]
    for reply in replies:
        policy = reply.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert reply.headers["cache-control"] == "no-store"
        assert reply.headers["x-content-type-options"] == "nosniff"
        assert reply.headers["referrer-policy"] == "no-referrer"
    page = client.get(f"/answer/{item}").text
    assert not re.search(r"<script(?! src=\"/static/page.js\")|<style| on\w+=|style=", page)


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8000", "127.0.0.1.evil.example:8000", "[", ""])
def test_other_host_names_are_refused(knowledge: Run, host: str) -> None:
    client = _client(knowledge)
    assert client.get(f"/answer/{_items(knowledge)[0]}", headers={"host": host}).status_code == 403
    assert client.get("/", params={"token": TOKEN}, headers={"host": host}).status_code == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9999", "sec-fetch-site": "same-site"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "null", "sec-fetch-site": "cross-site"}, 403),
        ({"origin": "http://evil.example", "sec-fetch-site": "same-origin"}, 403),
        ({}, 403),
        ({"origin": "null", "sec-fetch-site": "same-origin"}, 303),  # what Chromium sends under no-referrer
        ({"origin": HERE}, 303),
    ],
)
def test_scores_are_taken_from_the_page_only(knowledge: Run, headers: dict[str, str], status: int) -> None:
    client = _client(knowledge)
    del client.headers["origin"]
    reply = client.post(f"/answer/{_items(knowledge)[0]}", data={"score": "4"}, headers=headers)
    assert reply.status_code == status
    assert len(knowledge.physician_scores()) == (status == 303)


def test_no_model_name_on_any_page(knowledge: Run, capsys: pytest.CaptureFixture[str]) -> None:
    client, other = _client(knowledge), _client(knowledge)
    items = _items(knowledge)
    other.post(f"/answer/{items[0]}", data={"score": "2"})
    reply = client.post(f"/answer/{items[0]}", data={"score": "5", "comment": "typed"})  # another window was faster
    assert reply.status_code == 409
    assert "typed</textarea>" in reply.text
    assert re.search(r'value="2"[^>]*aria-pressed="true"', reply.text)
    pages = [reply.text]
    pages += [client.get(f"/answer/{item}").text for item in items]
    for item in items:
        client.post(f"/answer/{item}", data={"score": "3", "replaces": "yes"})
    pages.append(client.get("/").text)
    assert "All answers are scored" in pages[-1]
    assert f"medjudge validate {knowledge.path} --judge" in pages[-1]
    with knowledge.physicians_file.open("a") as file:
        file.write('{"model": "' + MODEL + '"}\n')
    pages.append(client.get("/").text)
    assert "could not be read" in pages[-1]
    assert "line 13" in capsys.readouterr().err
    assert not [page for page in pages if "secret" in page]


def test_wrong_forms_save_nothing_and_keep_what_was_typed(letters: Run) -> None:
    client = _client(letters)
    item = _items(letters)[0]
    five = dict.fromkeys(MTGDimensions.model_fields, "1")
    wrong: list[dict[str, str]] = [{}, {"score": "4"}, five | {"safety": "2"}, five | {"correctness": "x"}]
    for fields in wrong:
        reply = client.post(f"/answer/{item}", data=fields | {"comment": "no <dose>"})
        assert reply.status_code == 400
        assert "no &lt;dose&gt;</textarea>" in reply.text
    assert not letters.physicians_file.exists()
    assert client.post(f"/answer/{item}", data=five).status_code == 303
    assert [score.dimensions for score in letters.physician_scores()] == [
        MTGDimensions.model_validate(dict.fromkeys(MTGDimensions.model_fields, 1))
    ]


def test_a_second_press_adds_nothing_and_only_the_own_score_is_replaced(knowledge: Run) -> None:
    client = _client(knowledge)
    item = _items(knowledge)[0]
    for _ in range(2):
        client.post(f"/answer/{item}", data={"score": "4", "comment": "one\r\ntwo"})
    [(question, score, comment)] = _scores(knowledge)
    assert (score, comment) == (4, "one\ntwo")
    assert 'name="replaces"' in client.get(f"/answer/{item}").text
    _client(knowledge, "dr-b").post(f"/answer/{item}", data={"score": "1"})
    client.post(f"/answer/{item}", data={"score": "2", "replaces": "yes"})
    assert _scores(knowledge) == [(question, 2, None), (question, 1, None)]


def test_servers_of_one_run_lose_nothing(knowledge: Run) -> None:
    raters = ("dr-a", "dr-a", "dr-b", "dr-b")
    servers = [_client(knowledge, rater) for rater in raters]

    def score_all(client: TestClient, rater: str) -> None:
        for item in _items(knowledge, rater):
            assert client.post(f"/answer/{item}", data={"score": "4"}).status_code == 303
            assert client.get(f"/answer/{item}").status_code == 200

    with ThreadPoolExecutor() as pool:
        list(pool.map(score_all, servers, raters))
    assert len(knowledge.physician_scores()) == 24
    assert all("All answers are scored" in client.get("/").text for client in servers)


def test_skipped_answers_come_again(knowledge: Run) -> None:
    client = _client(knowledge)
    items = _items(knowledge)
    assert client.get(f"/next/{items[0]}").headers["location"] == f"/answer/{items[1]}"
    for item in items[1:]:
        following = client.post(f"/answer/{item}", data={"score": "4"}).headers["location"]
    assert following == f"/answer/{items[0]}?saved={items[-1]}"
    assert client.get("/").headers["location"] == f"/answer/{items[0]}"


def test_page_speaks_both_languages() -> None:
    words = {name: yaml.safe_load(PACKAGED.text(name, "scoring_page.yaml")) for name in ("en", "zh")}
    assert words["en"].keys() == words["zh"].keys()
    for word in words.values():
        assert list(word["captions"]) == [1, 2, 3, 4, 5]
    for category in LLMEVAL_MED.category_ids:
        assert [len(serving.rubric_of(category, name, LLMEVAL_MED).levels) for name in words] == [5, 5]


def test_the_rater_switches_the_language_of_the_page(knowledge: Run) -> None:
    client, item = _client(knowledge), _items(knowledge)[0]
    english = client.get(f"/answer/{item}").text
    assert '<html lang="en">' in english
    assert f'<a href="/language/zh/{item}" lang="zh-Hans">中文</a>' in english
    assert client.get(f"/language/zh/{item}").headers["location"] == f"/answer/{item}"
    chinese = client.get(f"/answer/{item}").text
    assert '<html lang="zh-Hans">' in chinese
    assert "打分要点" in chinese
    assert 'class="text" lang="en"' in chinese  # the question stays what it is
    assert f'<a href="/language/en/{item}" lang="en">English</a>' in chinese
    assert "未保存" in client.post(f"/answer/{item}", data={"score": "9"}).text
    client.get(f"/language/xx/{item}")
    assert '<html lang="en">' in client.get(f"/answer/{item}").text


def test_missing_dimensions_are_named_without_javascript(letters: Run) -> None:
    client, item = _client(letters), _items(letters)[0]
    reply = client.post(f"/answer/{item}", data={"correctness": "3", "safety": "1", "readability": "2"})
    said = re.search(r'role="alert">([^<]*)<', reply.text)
    assert said is not None
    assert said[1] == "Not saved: no score for Instruction following, Effectiveness."


def test_categories_are_spelled_out(knowledge: Run) -> None:
    page = _client(knowledge).get(f"/answer/{_items(knowledge)[0]}").text
    progress = re.search(r"<ul>(<li.*?)</ul>", page)
    assert progress is not None
    assert "Medical knowledge 0/3" in progress[1]
    assert "MK" not in progress[1]


def test_time_left_is_the_raters_own_pace_without_breaks(knowledge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert seconds_left([0, 10, 20], 5) is None
    assert seconds_left([0, 10, 20, 4000, 4010, 4030], 5) == 50
    assert seconds_left([0, 10, 20, 30], 0) is None
    client = _client(knowledge)
    for number, item in enumerate(_items(knowledge)[:4]):
        monkeypatch.setattr("medjudge.annotate.serve.time.monotonic", lambda moment=number * 90.0: moment)
        client.post(f"/answer/{item}", data={"score": "4"})
    assert "4 of 12 scored · about 12 min left" in client.get(f"/answer/{_items(knowledge)[4]}").text


def test_wrong_calls_end_in_one_line(
    knowledge: Run, medjudge: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refusal(*arguments: object) -> str:
        done = medjudge("annotate", "serve", knowledge.path, "--no-open", *arguments)
        assert done.returncode == 2
        assert done.stdout == ""
        assert len(done.stderr.splitlines()) == 1
        return str(done.stderr)

    assert "the raters are dr-a, dr-b" in refusal("--rater", "dr-x")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "already in use" in refusal("--rater", "dr-a", "--port", taken.getsockname()[1])
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "medjudge.annotate.serve")
        patch.setitem(sys.modules, "fastapi", None)
        assert "pip install 'medjudge[annotate]'" in refusal("--rater", "dr-a")
    plan_file(knowledge).unlink()
    assert "medjudge annotate export" in refusal("--rater", "dr-a")


# From here on in a real browser.


@pytest.fixture
def served() -> Iterator[Callable[[Run], str]]:
    """Serves a run on loopback and gives the page's address."""
    servers: list[tuple[uvicorn.Server, threading.Thread]] = []

    def serve(run: Run) -> str:
        listening = socket.create_server(("127.0.0.1", 0))
        server = uvicorn.Server(
            uvicorn.Config(scoring_app(run, read_plan(run), Access({TOKEN: "dr-a"})), log_level="warning")
        )
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        thread.start()
        servers.append((server, thread))
        return f"http://127.0.0.1:{listening.getsockname()[1]}"

    yield serve
    for server, thread in servers:
        server.should_exit = True
        thread.join()


@pytest.fixture
def open_page(browser: Any) -> Iterator[Callable[..., Any]]:
    """Opens a page; at the end, nothing has left loopback and nothing was reported in the browser's console."""
    contexts: list[Any] = []
    addresses: list[str] = []
    complaints: list[str] = []

    def open_(link: str, **options: Any) -> Any:
        context = browser.new_context(**options)
        contexts.append(context)
        context.on("request", lambda request: addresses.append(request.url))
        context.on("console", lambda message: complaints.append(message.text))
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(link)
        page.wait_for_selector("h1")
        assert "token" not in page.url
        return page

    yield open_
    for context in contexts:
        context.close()
    assert not [address for address in addresses if not address.startswith("http://127.0.0.1:")]
    assert not complaints


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


def _start(run: Run) -> tuple[subprocess.Popen[str], str]:
    command = ["-m", "medjudge.cli", "annotate", "serve", str(run.path), "--rater", "dr-a", "--no-open", "--json"]
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    printed = ""
    while not printed.endswith("\n}\n"):
        printed += process.stdout.readline()
        assert process.poll() is None
    return process, json.loads(printed)["link"]


def test_ten_answers_by_keyboard_with_a_killed_server_between(knowledge: Run, open_page: Callable[..., Any]) -> None:
    server, link = _start(knowledge)
    page = open_page(link)
    for level in "5432":
        _press(page, level)
    assert page.get_by_role("status").inner_text().startswith("Answer 4 saved")
    _press(page, "u")
    assert _place(page) == 4
    assert page.get_by_role("button", name="2 poor", pressed=True).is_visible()
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
    order = [items[item] for item in _items(knowledge)[:10]]
    by_question = {question: (score, comment) for question, score, comment in _scores(knowledge)}
    assert len(_scores(knowledge)) == 10
    levels = [by_question[question][0] for question in order]
    assert levels == [5, 4, 3, 1, 3, 4, 5, 1, 2, 1]
    assert [comment for _, comment in by_question.values() if comment] == ["5 mg, not 50"]


def test_dimensions_by_keyboard(letters: Run, served: Callable[[Run], str], open_page: Callable[..., Any]) -> None:
    page = open_page(f"{served(letters)}/?token={TOKEN}")
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
    assert page.get_by_role("status").inner_text() == "Instruction following: 0 to 5 Answer 1 saved Score it again"
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


@pytest.mark.parametrize("category", ["MK", "MTG"])
@pytest.mark.parametrize("language", ["en", "zh"])
def test_texts_stay_texts(
    category: str,
    language: str,
    tmp_path: Path,
    question: Callable[..., Any],
    answer: Callable[..., Any],
    physician_score: Callable[..., Any],
    served: Callable[[Run], str],
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
        answer(question_id=question.id, model=HOSTILE, text=HOSTILE, finish_reason=HOSTILE) for question in questions
    ]
    run = _run(tmp_path / "run", questions, answers)
    comment = HOSTILE.replace("\x00", "")  # a browser shows no NUL in a field
    levels = {"score": 3} if category == "MK" else {"dimensions": dict.fromkeys(MTGDimensions.model_fields, 1)}
    write_records(
        run.physicians_file,
        [
            physician_score(question_id=id, model=HOSTILE, rater="dr-a", comment=comment, **levels)
            for id in ("q1", "q2")
        ],
    )
    items = {item.question_id: item.id for item in read_plan(run).items}
    address = served(run)
    page = open_page(f"{address}/?token={TOKEN}", viewport={"width": 390, "height": 780})
    page.goto(f"{address}/answer/{items['q2']}")
    page.get_by_label({"en": "Raw text", "zh": "原始文本"}[language]).check()
    shown = page.locator(".text:visible").all_inner_texts()
    assert len(shown) == 6  # the turn before and its answer, question, answer, reference, checklist
    assert set(shown) == {LITERAL}
    assert LITERAL.split("\n")[0] in page.locator(".kind").inner_text()
    assert page.get_by_role("textbox").input_value() == comment
    assert page.locator(".text").first.get_attribute("lang") == {"en": "en", "zh": "zh-Hans"}[language]
    assert page.evaluate("window.ran") is None
    assert page.locator("main script, main img, main svg, main style").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.keyboard.press("c")
    field, bar = page.get_by_role("textbox").bounding_box(), page.locator(".bar").bounding_box()
    assert 0 <= field["y"] <= field["y"] + field["height"] <= bar["y"]


def test_mouse_alone_without_javascript(
    letters: Run, served: Callable[[Run], str], open_page: Callable[..., Any]
) -> None:
    page = open_page(f"{served(letters)}/?token={TOKEN}", java_script_enabled=False)
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


def test_a_typed_comment_outlives_a_look_at_another_answer(
    knowledge: Run, served: Callable[[Run], str], open_page: Callable[..., Any]
) -> None:
    page = open_page(f"{served(knowledge)}/?token={TOKEN}")
    page.get_by_label("Comment").fill("dose?")
    page.wait_for_timeout(SETTLED)  # as a person would: the browser writes its storage down a moment later
    assert "dose?" in page.evaluate("Object.values(sessionStorage)")
    page.get_by_role("link", name="Forward").click()
    page.wait_for_url(f"**/{_items(knowledge)[1]}")
    page.get_by_role("link", name="Back").click()
    page.wait_for_url(f"**/{_items(knowledge)[0]}")
    assert page.get_by_label("Comment").input_value() == "dose?"
    page.wait_for_timeout(SETTLED)
    page.get_by_role("button", name="4 good").dblclick()  # the second click meets the next screen, and is no score
    page.wait_for_timeout(SETTLED)
    assert [(score, comment) for _, score, comment in _scores(knowledge)] == [(4, "dose?")]
