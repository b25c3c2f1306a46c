import re
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from calls import refused
from scoring_run import HERE, MODELS, TOKEN, answer, client_of, items_of, planned, question, run_of, scores_of
from starlette.testclient import TestClient

from medjudge.annotate.access import Access
from medjudge.annotate.plan import plan_file, read_plan
from medjudge.annotate.serve import annotation_app, minutes_left
from medjudge.records import MTGDimensions
from medjudge.store import Run


@pytest.mark.parametrize("path", ["/", "/?token=", "/?token=wrong", "/answer/{item}", "/next/{item}", "/docs"])
def test_without_the_token_there_is_nothing(knowledge: Run, path: str) -> None:
    client = TestClient(annotation_app(knowledge, read_plan(knowledge), Access({TOKEN: "dr-a"})), base_url=HERE)
    reply = client.get(path.format(item=items_of(knowledge)[0]))
    assert reply.status_code == 403
    assert "Reply" not in reply.text
    assert client.post(path.format(item=items_of(knowledge)[0]), headers={"origin": HERE}).status_code == 403
    assert not client.cookies
    opened = client.get("/", params={"token": TOKEN})  # the link gives a cookie that scripts and other sites cannot use
    cookie = opened.headers["set-cookie"].lower()
    assert ("httponly" in cookie, "samesite=strict" in cookie, TOKEN in opened.text) == (True, True, False)
    assert client.get("/").status_code == 200


def test_every_reply_carries_the_headers(knowledge: Run) -> None:
    client = client_of(knowledge)
    item = items_of(knowledge)[0]
    replies = [client.get(path) for path in ("/", f"/answer/{item}", "/static/page.js", "/nothing", "/answer/nothing")]
    replies += [client.post(f"/answer/{item}", data={"score": "9"}), TestClient(client.app, base_url=HERE).get("/")]
    assert [reply.status_code for reply in replies] == [303, 200, 200, 404, 404, 400, 403]
    for reply in replies:
        policy = reply.headers["content-security-policy"]
        assert ("default-src 'none'" in policy, "unsafe" in policy) == (True, False)
        others = ("cache-control", "x-content-type-options", "referrer-policy")
        assert [reply.headers[name] for name in others] == ["no-store", "nosniff", "no-referrer"]
    page = client.get(f"/answer/{item}").text
    assert not re.search(r"<script(?! src=\"/static/page.js\")|<style| on\w+=|style=", page)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "http://127.0.0.1:9999", "sec-fetch-site": "same-site"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "null", "sec-fetch-site": "cross-site"}, 403),
        ({"origin": "http://evil.example", "sec-fetch-site": "same-origin"}, 403),
        ({"origin": HERE, "host": "evil.example:8000"}, 403),
        ({"origin": HERE, "host": "127.0.0.1.evil.example:8000"}, 403),
        ({"origin": HERE, "host": "["}, 403),
        ({"origin": HERE, "host": ""}, 403),
        ({}, 403),
        ({"origin": "null", "sec-fetch-site": "same-origin"}, 303),  # what Chromium sends under no-referrer
        ({"origin": HERE}, 303),
    ],
)
def test_only_the_page_saves_under_the_servers_names(knowledge: Run, headers: dict[str, str], status: int) -> None:
    client = client_of(knowledge)
    del client.headers["origin"]
    item = f"/answer/{items_of(knowledge)[0]}"
    assert client.post(item, data={"score": "4"}, headers=headers).status_code == status
    assert len(knowledge.physician_scores()) == (status == 303)
    if "host" in headers:  # another name shows nothing, and takes no token
        assert client.get(item, headers=headers).status_code == 403
        assert client.get("/", params={"token": TOKEN}, headers=headers).status_code == 403


def test_no_model_name_on_any_page(knowledge: Run, capsys: pytest.CaptureFixture[str]) -> None:
    client, other = client_of(knowledge), client_of(knowledge)
    items = items_of(knowledge)
    other.post(f"/answer/{items[0]}", data={"score": "2"})
    reply = client.post(f"/answer/{items[0]}", data={"score": "5", "comment": "typed"})  # another window was faster
    assert reply.status_code == 409
    assert "typed</textarea>" in reply.text
    assert re.search(r'value="2"[^>]*aria-pressed="true"', reply.text)
    pages = [reply.text, *(client.get(f"/answer/{item}").text for item in items)]
    for item in items:
        client.post(f"/answer/{item}", data={"score": "3", "replaces": "yes"})
    pages.append(client.get("/").text)
    assert "All answers are scored" in pages[-1]
    assert not re.search(f"medjudge validate|{knowledge.path}", pages[-1])
    with knowledge.physicians_file.open("a") as file:
        file.write('{"model": "' + MODELS[0] + '"}\n')
    pages.append(client.get("/").text)
    assert "Please tell whoever sent you the link" in pages[-1]
    assert "line 13" in capsys.readouterr().err
    assert not [page for page in pages if "secret" in page]


def test_wrong_forms_save_nothing_and_keep_what_was_typed(letters: Run) -> None:
    client = client_of(letters)
    item = items_of(letters)[0]
    five = dict.fromkeys(MTGDimensions.model_fields, "1")
    wrong: list[dict[str, str]] = [{}, {"score": "4"}, five | {"safety": "2"}, five | {"correctness": "x"}]
    for fields in wrong:
        reply = client.post(f"/answer/{item}", data=fields | {"comment": "no <dose>"})
        assert reply.status_code == 400
        assert "no &lt;dose&gt;</textarea>" in reply.text
    reply = client.post(f"/answer/{item}", data={"correctness": "3", "safety": "1", "readability": "2"})
    assert 'role="alert">Not saved: no score for Instruction following, Effectiveness.<' in reply.text
    assert not letters.physicians_file.exists()
    assert client.post(f"/answer/{item}", data=five).status_code == 303
    assert [score.dimensions for score in letters.physician_scores()] == [
        MTGDimensions.model_validate(dict.fromkeys(MTGDimensions.model_fields, 1))
    ]


def test_a_second_press_adds_nothing_and_only_the_own_score_is_replaced(knowledge: Run) -> None:
    client = client_of(knowledge)
    item = items_of(knowledge)[0]
    for _ in range(2):
        client.post(f"/answer/{item}", data={"score": "4", "comment": "one\r\ntwo"})
    [(question, score, comment)] = scores_of(knowledge)
    assert (score, comment) == (4, "one\ntwo")
    assert 'name="replaces"' in client.get(f"/answer/{item}").text
    client_of(knowledge, "dr-b").post(f"/answer/{item}", data={"score": "1"})
    client.post(f"/answer/{item}", data={"score": "2", "replaces": "yes"})
    assert scores_of(knowledge) == [(question, 2, None), (question, 1, None)]


def test_servers_of_one_run_lose_nothing(knowledge: Run) -> None:
    def score_all(rater: str) -> str:
        client = client_of(knowledge, rater)
        for item in items_of(knowledge, rater):
            assert client.post(f"/answer/{item}", data={"score": "4"}).status_code == 303
        return client.get("/").text

    with ThreadPoolExecutor() as pool:
        ends = list(pool.map(score_all, ("dr-a", "dr-a", "dr-b", "dr-b")))
    assert len(knowledge.physician_scores()) == 24
    assert all("All answers are scored" in end for end in ends)


@pytest.mark.parametrize(
    ("asked", "lang"), [("zh-CN,zh;q=0.9,en;q=0.8", "zh-Hans"), ("de,en-GB;q=0.9", "en"), ("fr", "en")]
)
def test_pages_are_in_the_browsers_language_and_messages_in_both(knowledge: Run, asked: str, lang: str) -> None:
    client = client_of(knowledge)
    client.headers["accept-language"] = asked
    for item in items_of(knowledge)[:3]:
        assert f'<html lang="{lang}">' in client.get(f"/answer/{item}").text
    client.cookies.clear()
    refused = client.get("/").text
    assert "ask whoever sent it to you for a new one" in refused
    assert "请通过您的个人链接进入本页" in refused
    assert client.get("/static/page.css").status_code == 200
    assert not re.search("token|medjudge annotate|terminal|run ", refused)


def test_the_rater_switches_the_language_of_the_page(knowledge: Run) -> None:
    client, item = client_of(knowledge), items_of(knowledge)[0]
    assert f'<a href="/language/zh/{item}" lang="zh-Hans">中文</a>' in client.get(f"/answer/{item}").text
    for language in ("z%C3%A9", "zh%0d%0aSet-Cookie:x=1", "x%20y", "x" * 36):  # what no cookie can hold
        reply = client.get(f"/language/{language}/{item}")
        assert (reply.status_code, "set-cookie" in reply.headers) == (404, False)
    assert client.get(f"/language/zh/{item}").headers["location"] == f"/answer/{item}"
    chinese = client.get(f"/answer/{item}").text
    assert '<html lang="zh-Hans">' in chinese
    assert 'class="text" lang="en"' in chinese  # the question stays what it is
    assert "未保存" in client.post(f"/answer/{item}", data={"score": "9"}).text
    for item in items_of(knowledge):
        client.post(f"/answer/{item}", data={"score": "4"})
    assert "全部回答已评完" in client.get("/").text
    assert client.get("/language/en").headers["location"] == "/"
    assert '<html lang="en">' in client.get("/").text


def test_time_left_is_the_raters_own_pace_without_breaks(knowledge: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert minutes_left([0, 10, 20], 5) is None
    assert minutes_left([0, 10, 20, 4000, 4010, 4030], 90) == 15
    assert minutes_left([0, 10, 20, 30], 0) is None
    client = client_of(knowledge)
    for number, item in enumerate(items_of(knowledge)[:4]):
        monkeypatch.setattr("medjudge.annotate.serve.time.monotonic", lambda moment=number * 90.0: moment)
        client.post(f"/answer/{item}", data={"score": "4"})
    assert "4 of 12 scored · about 12 min left" in client.get(f"/answer/{items_of(knowledge)[4]}").text


def test_wrong_calls_end_in_one_line(knowledge: Run, medjudge: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    command = ("annotate", "serve", knowledge.path, "--no-open", "--rater")
    refused(medjudge(*command, "dr-x"), "the raters are dr-a, dr-b")
    with monkeypatch.context() as patch:
        patch.delitem(sys.modules, "medjudge.annotate.serve")
        patch.setitem(sys.modules, "fastapi", None)
        refused(medjudge(*command, "dr-a"), "pip install 'medjudge[annotate]'")
    plan_file(knowledge).unlink()
    refused(medjudge(*command, "dr-a"), "medjudge annotate export")


def test_each_button_has_its_meaning_in_the_standard_of_the_category(knowledge: Run) -> None:
    page = client_of(knowledge).get(f"/answer/{items_of(knowledge)[0]}").text
    buttons = dict(re.findall('<button name="score" value="([1-5])".*?<span>(.*?)</span><small>(?:.*?)</small>', page))
    assert buttons["1"] == "wrong throughout, or serious harm"
    assert buttons["2"] == "several key errors, or a safety risk"
    meanings = re.findall("<small>(.*?)</small></button>", page)
    assert meanings == re.findall('<dd id="level-[1-5]">(.*?)</dd>', page)[::-1]


@pytest.mark.parametrize(
    ("text", "shown", "times"),
    [
        (
            "**Fluids**\n\n1. oral\n\n| drug | dose |\n|---|---|\n| ibuprofen | 400 mg |",
            # rendered, and as it was written behind the switch
            ["<strong>Fluids</strong>", "<li>oral</li>", "<td>ibuprofen</td>", "**Fluids**\n\n1. oral", 'id="raw"'],
            1,
        ),
        ("Drink 2 litres.", ["Drink 2 litres."], 1),  # without Markdown a text stands once
        (
            "**<img src=x onerror=run()>** \u202e05 mg",
            ["<strong>&lt;img src=x onerror=run()&gt;</strong>", '<span class="unseen">U+202E</span>05 mg'],
            2,
        ),
    ],
)
def test_markdown_is_rendered_and_html_stays_visible(tmp_path: Path, text: str, shown: list[str], times: int) -> None:
    run = run_of(tmp_path / "run", [question("q1")], [answer("q1", text=text)])
    planned(run)
    page = client_of(run).get(f"/answer/{items_of(run)[0]}").text
    assert "<img" not in page
    for part in shown:
        assert part in page
    assert page.count(shown[-1]) == times
