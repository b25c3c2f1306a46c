"""Physicians' pairs: drawn, sent out in three kinds of form, and read back with every problem at its place."""

import json
import re
import socket
import threading
from collections import Counter
from pathlib import Path

import pytest
import uvicorn
from openpyxl import load_workbook
from starlette.testclient import TestClient

from medjudge.annotate.access import Access
from medjudge.annotate.pair_plan import PairPlan, read_pair_plan
from medjudge.annotate.pair_serve import pair_app
from medjudge.judge.pairs import physician_pairs
from medjudge.pair_records import PhysicianPair
from medjudge.store import Run

SHEET = "Pairs 成对比较"
HERE, TOKEN = "http://127.0.0.1:8000", "t0ken"


@pytest.fixture
def run(sample_run: Path) -> Path:
    """The sample without its pairs."""
    (sample_run / "physician_pairs.jsonl").unlink()
    return sample_run


@pytest.fixture
def planned(run: Path, medjudge) -> Path:
    done = medjudge("annotate", "pairs", "export", run, "--rater", "dr-a", "--rater", "dr-b", "--each", 10, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["raters"]["dr-a"]["pairs"] == 10
    return run


def plan_of(run: Path) -> PairPlan:
    return read_pair_plan(Run(run))


def form(run: Path) -> Path:
    return run / "annotation" / "pair_forms" / "dr-a.xlsx"


def fill(run: Path, *verdicts: object) -> None:
    """Writes verdicts into the first rows of dr-a's workbook."""
    book = load_workbook(form(run))
    rows = [row for row in book[SHEET].iter_rows(min_row=2) if " +" not in str(row[0].value)]
    for row, verdict in zip(rows, verdicts, strict=False):
        row[6].value = verdict
    book.save(form(run))


def test_pairs_are_spread_over_models_and_the_order_is_drawn(planned: Path) -> None:
    plan = plan_of(planned)
    assert len(plan.items) == 20
    kinds = Counter(tuple(sorted((item.first, item.second))) for item in plan.items)
    assert set(kinds.values()) == {2}  # ten pairs of models
    assert 3 < sum(item.first < item.second for item in plan.items) < 17
    assert not set(plan.by_rater["dr-a"]) & set(plan.by_rater["dr-b"])


def test_no_form_names_a_model(planned: Path) -> None:
    cells = [str(cell.value) for sheet in load_workbook(form(planned)) for row in sheet.iter_rows() for cell in row]
    assert not [cell for cell in cells if "model-" in cell]
    assert any("Answer A" in cell and "回答A" in cell for cell in cells)


def test_a_workbook_comes_back_as_records(planned: Path, medjudge) -> None:
    fill(planned, "A", " tie ", "b", None)
    done = medjudge("annotate", "pairs", "import", planned, form(planned))
    assert "3 pairs imported" in done.stdout
    assert "7 pairs are not compared yet" in done.stdout
    plan = plan_of(planned)
    items = {item.id: item for item in plan.items}
    of = {(pair.question_id, pair.first, pair.second): pair.preferred for pair in physician_pairs(Run(planned))}
    expected = [items[item_id] for item_id in plan.by_rater["dr-a"][:3]]
    assert [of[item.question_id, item.first, item.second] for item in expected] == ["first", "tie", "second"]
    again = medjudge("annotate", "pairs", "import", planned, form(planned))
    assert "0 pairs imported, 3 imported before" in again.stdout
    fill(planned, "B")
    assert medjudge("annotate", "pairs", "import", planned, form(planned)).returncode == 2
    replaced = medjudge("annotate", "pairs", "import", planned, form(planned), "--replace")
    assert "1 replaced" in replaced.stdout
    assert len(physician_pairs(Run(planned))) == 3


def test_accept_valid_imports_the_others_and_the_fixed_form_comes_again(planned: Path, medjudge) -> None:
    fill(planned, "A", "C", "tie")
    done = medjudge("annotate", "pairs", "import", planned, form(planned), "--accept-valid")
    assert done.returncode == 1, done.stderr
    assert "2 pairs imported, 0 imported before" in done.stdout
    assert "1 problem to fix" in done.stdout
    fill(planned, "A", "B", "tie")
    again = medjudge("annotate", "pairs", "import", planned, form(planned), "--accept-valid")
    assert again.returncode == 0, again.stderr
    assert "1 pairs imported, 2 imported before" in again.stdout


def test_every_wrong_cell_is_named_and_nothing_is_imported(planned: Path, medjudge) -> None:
    fill(planned, "A", "C", "both")
    book = load_workbook(form(planned))
    book[SHEET].cell(2, 1).value = "unknown"
    book.save(form(planned))
    done = medjudge("annotate", "pairs", "import", planned, form(planned))
    assert done.returncode == 2
    assert "3 problems; nothing was imported" in done.stderr
    assert "the ID 'unknown' is not in the plan of dr-a" in done.stderr
    assert len(re.findall(r"row \d+: preferred in G\d+ is '(?:C|both)'; A, B or tie is expected", done.stderr)) == 2
    assert physician_pairs(Run(planned)) == []


def test_label_studio_projects_go_out_and_come_back(run: Path, medjudge, tmp_path: Path) -> None:
    options = ("--rater", "dr-a", "--each", 3, "--format", "label-studio")
    assert medjudge("annotate", "pairs", "export", run, *options).returncode == 0
    folder = run / "annotation" / "pair_forms"
    config = (folder / "label-studio-pairs.xml").read_text(encoding="utf-8")
    assert 'value="A"' in config
    assert "平局" in config
    tasks = json.loads((folder / "dr-a-pairs.json").read_text(encoding="utf-8"))
    assert "model-" not in json.dumps(tasks)
    for task, choice in zip(tasks, ("A", "B", "tie"), strict=True):
        result = {"from_name": "preferred", "type": "choices", "value": {"choices": [choice]}}
        task["annotations"] = [{"id": 1, "result": [result]}]
    export = tmp_path / "export.json"
    export.write_text(json.dumps(tasks), encoding="utf-8")
    assert "3 pairs imported" in medjudge("annotate", "pairs", "import", run, export).stdout
    assert {pair.preferred for pair in physician_pairs(Run(run))} == {"first", "second", "tie"}
    tasks[0]["data"]["second"] = "another answer"
    tasks[1]["annotations"][0]["result"][0]["value"]["choices"] = ["A", "B"]
    export.write_text(json.dumps(tasks), encoding="utf-8")
    done = medjudge("annotate", "pairs", "import", run, export)
    assert done.returncode == 2
    assert "the text of second was changed" in done.stderr
    assert "is 'A, B'; A, B or tie is expected" in done.stderr


def test_a_preference_comes_only_from_its_control_in_both_exports(run: Path, medjudge, tmp_path: Path) -> None:
    options = ("--rater", "dr-a", "--each", 3, "--format", "label-studio")
    assert medjudge("annotate", "pairs", "export", run, *options).returncode == 0
    made = run / "annotation" / "pair_forms" / "dr-a-pairs.json"
    tasks = [task["data"] for task in json.loads(made.read_text(encoding="utf-8"))]
    export = tmp_path / "export.json"
    marked = {"from_name": "preferred", "type": "labels", "value": {"start": 0, "end": 1, "text": "A", "labels": ["A"]}}
    label = {"from_name": "preferred", "type": "labels", "value": {"labels": ["A"]}}
    twice = {"from_name": "preferred", "type": "choices", "value": {"choices": ["B"]}}
    nested = [
        {"id": 1, "data": tasks[0], "annotations": [{"id": 11, "result": [marked]}]},
        {"id": 2, "data": tasks[1], "annotations": [{"id": 21, "result": [twice]}, {"id": 22, "result": [twice]}]},
        {"id": 3, "data": tasks[2], "annotations": [{"id": 31, "result": [label]}]},
    ]
    export.write_text(json.dumps(nested), encoding="utf-8")
    done = medjudge("annotate", "pairs", "import", run, export)
    assert done.returncode == 2
    assert "task 1, annotation 11: preferred is '{'start': 0" in done.stderr
    assert "is also in task 2, annotation 21; keep one" in done.stderr
    assert "task 3, annotation 31: preferred is '{'labels'" in done.stderr
    flat = [{**data, "id": 1, "preferred": "tie", "comment": "both", "annotator": 7} for data in tasks]
    export.write_text(json.dumps(flat), encoding="utf-8")
    assert "3 pairs imported" in medjudge("annotate", "pairs", "import", run, export).stdout
    assert {(pair.preferred, pair.comment) for pair in physician_pairs(Run(run))} == {("tie", "both")}


def test_records_of_unknown_answers_are_refused_with_every_line(run: Path, medjudge, tmp_path: Path) -> None:
    good = {"question_id": "MK-en-01", "first": "model-a", "second": "model-b", "rater": "dr", "preferred": "tie"}
    lines = [
        good,
        {**good, "second": "gpt-9"},
        {**good, "question_id": "MK-xx-99"},
        {**good, "second": "model-a"},
        {**good, "preferred": "A"},
        {**good, "first": "model-b", "second": "model-a", "preferred": "first"},
    ]
    file = tmp_path / "pairs.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    done = medjudge("annotate", "pairs", "import", run, file)
    assert done.returncode == 2
    for message in (
        "5 problems; nothing was imported",
        "line 2: no answer of gpt-9 (sample 0) to MK-en-01",
        "line 3: question MK-xx-99 is not in",
        "first and second are both model-a",
        "line 5: preferred",
        "line 6: dr has another verdict in",
    ):
        assert message in done.stderr
    assert physician_pairs(Run(run)) == []
    file.write_text(json.dumps(good) + "\n")
    assert medjudge("annotate", "pairs", "import", run, file).returncode == 0
    assert physician_pairs(Run(run)) == [PhysicianPair(**good)]


def test_another_plan_and_forms_that_exist_are_kept(planned: Path, medjudge, tmp_path: Path) -> None:
    again = ("annotate", "pairs", "export", planned, "--rater", "dr-a", "--rater", "dr-b", "--each", 10)
    assert "exists already" in medjudge(*again).stderr
    assert medjudge(*again, "--out", tmp_path / "again").returncode == 0
    other = medjudge(*again, "--seed", 5, "--out", tmp_path / "other")
    assert other.returncode == 2
    assert "another plan" in other.stderr
    assert not (tmp_path / "other").exists()


def test_the_page_saves_a_verdict_and_shows_no_name(planned: Path) -> None:
    run = Run(planned)
    plan = plan_of(planned)
    client = TestClient(pair_app(run, plan, Access({TOKEN: "dr-a"})), base_url=HERE, follow_redirects=False)
    assert client.get(f"/answer/{plan.by_rater['dr-a'][0]}").status_code != 200  # without the link
    client.get("/", params={"token": TOKEN})
    client.headers["origin"] = HERE
    first, second = plan.by_rater["dr-a"][:2]
    page = client.get(f"/answer/{first}").text
    assert "model-" not in page
    assert page.count('name="score"') == 3
    saved = client.post(f"/answer/{first}", data={"rater": "dr-a", "score": "3", "comment": "the dose"})
    assert saved.headers["location"] == f"/answer/{second}"
    (pair,) = physician_pairs(run)
    assert (pair.preferred, pair.comment, pair.rater) == ("second", "the dose", "dr-a")
    assert client.post(f"/answer/{first}", data={"score": "1"}).status_code == 409
    client.post(f"/answer/{first}", data={"score": "1", "replaces": "yes"})
    assert [pair.preferred for pair in physician_pairs(run)] == ["first"]
    assert client.post(f"/answer/{second}", data={"score": "4"}).status_code == 400
    assert client.get("/language/zh/" + second).status_code == 303
    assert "哪一份回答更好" in client.get(f"/answer/{second}").text
    assert client.get("/answer/nothing").status_code == 404
    for item in plan.by_rater["dr-a"][1:]:
        client.post(f"/answer/{item}", data={"score": "2"})
    assert "All 10 pairs" in client.get("/").text


def test_keys_choose_in_a_browser(planned: Path, browser) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    app = pair_app(Run(planned), plan_of(planned), Access({TOKEN: "dr-a"}))
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    try:
        page = context.new_page()
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text))
        page.goto(f"http://127.0.0.1:{listening.getsockname()[1]}/?token={TOKEN}")
        page.wait_for_selector("h1")
        page.wait_for_load_state()  # the heading is there before the style sheet
        left, right = [page.locator(".pair .answer").nth(side).bounding_box() for side in (0, 1)]
        assert abs(left["y"] - right["y"]) < 2
        assert left["x"] + left["width"] <= right["x"]
        for key in ("1", "2", "3"):
            page.wait_for_load_state()
            page.wait_for_timeout(450)
            with page.expect_navigation(timeout=60_000):
                page.keyboard.press(key)
            page.wait_for_selector("h1")
        assert Counter(pair.preferred for pair in physician_pairs(Run(planned))) == {"first": 1, "tie": 1, "second": 1}
        assert not complaints
    finally:
        context.close()
        server.should_exit = True
        thread.join()
