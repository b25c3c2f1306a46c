"""Physicians' verdicts on items: drawn, sent out in three kinds of form, and read back with all problems."""

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
from medjudge.annotate.item_plan import ItemPlan, answers_to_mark, read_item_plan
from medjudge.annotate.item_serve import item_app
from medjudge.item_records import ItemScore
from medjudge.store import Run

SHEET = "Items 逐条核对"
HERE, TOKEN = "http://127.0.0.1:8000", "t0ken"


@pytest.fixture
def sample_run(sample_run: Path) -> Path:
    """The sample without its verdicts on items."""
    (sample_run / "item_scores.jsonl").unlink()
    return sample_run


@pytest.fixture
def planned(sample_run: Path, medjudge) -> Path:
    options = ("--rater", "dr-a", "--rater", "dr-b", "--each", 5, "--overlap", 2, "--json")
    done = medjudge("annotate", "items", "export", sample_run, *options)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["raters"]["dr-a"]["answers"] == 5
    return sample_run


def plan_of(run: Path) -> ItemPlan:
    return read_item_plan(Run(run))


def form(run: Path) -> Path:
    return run / "annotation" / "item_forms" / "dr-a.xlsx"


def fill(run: Path, *verdicts: object) -> None:
    """Writes verdicts into the first items of dr-a's workbook."""
    book = load_workbook(form(run))
    rows = [row for row in book[SHEET].iter_rows(min_row=2) if " +" not in str(row[0].value)]
    for row, verdict in zip(rows, verdicts, strict=False):
        row[5].value = verdict
    book.save(form(run))


def test_answers_are_spread_over_questions_and_no_form_names_a_model(planned: Path) -> None:
    plan = plan_of(planned)
    assert set(Counter(answer.question_id for answer in plan.answers).values()) == {1}
    assert sorted(plan.by_rater["dr-a"]) == sorted(plan.by_rater["dr-b"])
    cells = [str(cell.value) for sheet in load_workbook(form(planned)) for row in sheet.iter_rows() for cell in row]
    assert not [cell for cell in cells if "model-" in cell]
    for entry in answers_to_mark(Run(planned), plan)["dr-a"]:
        assert all(any(item.text == cell for cell in cells) for item in entry.items)


def test_a_workbook_comes_back_as_records(planned: Path, medjudge) -> None:
    fill(planned, "met 符合", "not_met", " 相反 ", "Not Met")
    done = medjudge("annotate", "items", "import", planned, form(planned))
    assert done.returncode == 0, done.stderr
    assert "4 verdicts imported" in done.stdout
    listed = answers_to_mark(Run(planned), plan_of(planned))["dr-a"]
    expected = [(entry.answer.key, item.text) for entry in listed for item in entry.items][:4]
    scores = Run(planned).item_scores()
    assert [(score.answer_key, score.item) for score in scores] == expected
    assert [score.verdict for score in scores] == ["met", "not_met", "contradicted", "not_met"]
    assert f"{sum(len(entry.items) for entry in listed) - 4} items have no verdict yet" in done.stdout
    again = medjudge("annotate", "items", "import", planned, form(planned))
    assert "0 verdicts imported, 4 imported before" in again.stdout
    fill(planned, "contradicted")
    assert medjudge("annotate", "items", "import", planned, form(planned)).returncode == 2
    assert "1 replaced" in medjudge("annotate", "items", "import", planned, form(planned), "--replace").stdout
    assert Run(planned).item_scores()[0].verdict == "contradicted"


def test_accept_valid_imports_the_others_and_the_fixed_form_comes_again(planned: Path, medjudge) -> None:
    fill(planned, "met", "perhaps", "not met")
    done = medjudge("annotate", "items", "import", planned, form(planned), "--accept-valid")
    assert done.returncode == 1, done.stderr
    assert "2 verdicts imported, 0 imported before" in done.stdout
    assert "1 problem to fix" in done.stdout
    fill(planned, "met", "met", "not met")
    again = medjudge("annotate", "items", "import", planned, form(planned), "--accept-valid")
    assert again.returncode == 0, again.stderr
    assert "1 verdicts imported, 2 imported before" in again.stdout


def test_every_wrong_cell_is_named_and_nothing_is_imported(planned: Path, medjudge) -> None:
    fill(planned, "met", "yes", "perhaps")
    book = load_workbook(form(planned))
    sheet = book[SHEET]
    sheet.cell(2, 1).value = "unknown.1"
    sheet.cell(5, 5).value = "another item"
    book.save(form(planned))
    done = medjudge("annotate", "items", "import", planned, form(planned))
    assert done.returncode == 2
    assert "4 problems; nothing was imported" in done.stderr
    assert "the ID 'unknown.1' is not in the plan of dr-a" in done.stderr
    assert "row 5: the text of the item was changed; restore it" in done.stderr
    found = re.findall(r"row \d+: verdict in F\d+ is '(?:yes|perhaps)'; met 符合, not met 不符合", done.stderr)
    assert len(found) == 2
    assert Run(planned).item_scores() == []


def test_label_studio_projects_go_out_and_come_back(sample_run: Path, medjudge, tmp_path: Path) -> None:
    options = ("--rater", "dr-a", "--each", 1, "--format", "label-studio")
    assert medjudge("annotate", "items", "export", sample_run, *options).returncode == 0
    folder = sample_run / "annotation" / "item_forms"
    config = (folder / "label-studio-items.xml").read_text(encoding="utf-8")
    assert 'value="contradicted 相反"' in config
    tasks = json.loads((folder / "dr-a-items.json").read_text(encoding="utf-8"))
    assert "model-" not in json.dumps(tasks)
    for task in tasks:
        result = {"from_name": "verdict", "type": "choices", "value": {"choices": ["met 符合"]}}
        task["annotations"] = [{"id": 1, "result": [result]}]
    export = tmp_path / "export.json"
    export.write_text(json.dumps(tasks), encoding="utf-8")
    done = medjudge("annotate", "items", "import", sample_run, export)
    assert f"{len(tasks)} verdicts imported" in done.stdout, done.stderr
    tasks[0]["data"]["item"] = "another item"
    tasks[1]["annotations"][0]["result"][0]["value"]["choices"] = ["met 符合", "not met 不符合"]
    export.write_text(json.dumps(tasks), encoding="utf-8")
    done = medjudge("annotate", "items", "import", sample_run, export)
    assert done.returncode == 2
    assert "the text of the item was changed" in done.stderr
    assert "is 'met 符合, not met 不符合'; met 符合" in done.stderr
    part = {"start": 0, "end": 3, "text": "met 符合", "labels": ["x"]}
    tasks[1]["annotations"][0]["result"][0]["value"] = part
    export.write_text(json.dumps(tasks), encoding="utf-8")
    assert "verdict is '{'start': 0" in medjudge("annotate", "items", "import", sample_run, export).stderr


def test_records_of_unknown_answers_and_items_are_refused_with_every_line(sample_run: Path, medjudge, tmp_path) -> None:
    item = "HbA1c at or above 6.5 % (48 mmol/mol)"
    good = {"question_id": "MK-en-01", "model": "model-a", "rater": "dr", "item": item, "verdict": "met"}
    lines = [good, {**good, "model": "gpt-9"}, {**good, "item": "Is kind"}, {**good, "verdict": "yes"}]
    file = tmp_path / "items.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {**good, "verdict": "not_met"}]))
    done = medjudge("annotate", "items", "import", sample_run, file)
    assert done.returncode == 2
    for message in (
        "4 problems; nothing was imported",
        "line 2: no answer of gpt-9 (sample 0) to MK-en-01",
        "line 3: 'Is kind' is no item of MK-en-01",
        "line 4: verdict",
        "line 5: dr has another verdict in",
    ):
        assert message in done.stderr
    assert Run(sample_run).item_scores() == []
    file.write_text(json.dumps(good) + "\n")
    assert medjudge("annotate", "items", "import", sample_run, file).returncode == 0
    assert Run(sample_run).item_scores() == [ItemScore(**good)]


def test_another_plan_and_forms_that_exist_are_kept(planned: Path, medjudge, tmp_path: Path) -> None:
    again = ("annotate", "items", "export", planned, "--rater", "dr-a", "--rater", "dr-b", "--each", 5, "--overlap", 2)
    assert "exists already" in medjudge(*again).stderr
    assert medjudge(*again, "--out", tmp_path / "again").returncode == 0
    other = medjudge(*again, "--seed", 5, "--out", tmp_path / "other")
    assert other.returncode == 2
    assert "another plan" in other.stderr
    assert not (tmp_path / "other").exists()


def test_the_page_saves_all_items_of_an_answer_and_shows_no_name(planned: Path) -> None:
    run = Run(planned)
    plan = plan_of(planned)
    listed = answers_to_mark(run, plan)["dr-a"]
    client = TestClient(item_app(run, plan, Access({TOKEN: "dr-a"})), base_url=HERE, follow_redirects=False)
    first, second = plan.by_rater["dr-a"][:2]
    assert client.get(f"/answer/{first}").status_code != 200  # without the link
    client.get("/", params={"token": TOKEN})
    client.headers["origin"] = HERE
    page = client.get(f"/answer/{first}").text
    assert "model-" not in page
    count = len(listed[0].items)
    assert page.count("<fieldset") == count
    incomplete = client.post(f"/answer/{first}", data={"item-0": "1"})
    assert incomplete.status_code == 400
    assert re.search("no verdict on Item 2|第2条.*尚无判断", incomplete.text)
    assert run.item_scores() == []
    marks = {f"item-{place}": str(1 + place % 3) for place in range(count)}
    saved = client.post(f"/answer/{first}", data={"rater": "dr-a", **marks})
    assert saved.headers["location"] == f"/answer/{second}"
    wanted = ["met", "not_met", "contradicted"]
    assert [score.verdict for score in run.item_scores()] == [wanted[place % 3] for place in range(count)]
    assert client.post(f"/answer/{first}", data={**marks, "item-0": "2"}).status_code == 409
    client.post(f"/answer/{first}", data={**marks, "item-0": "2", "replaces": "yes"})
    assert run.item_scores()[0].verdict == "not_met"
    assert client.get("/language/zh/" + second).status_code == 303
    assert "回答是否符合各条" in client.get(f"/answer/{second}").text
    assert client.get("/answer/nothing").status_code == 404
    for entry in listed[1:]:
        client.post(f"/answer/{entry.answer.id}", data={f"item-{place}": "1" for place in range(len(entry.items))})
    assert "The items of all 5 answers" in client.get("/").text


def test_keys_mark_items_in_a_browser(planned: Path, browser) -> None:
    listening = socket.create_server(("127.0.0.1", 0))
    run, plan = Run(planned), plan_of(planned)
    count = len(answers_to_mark(run, plan)["dr-a"][0].items)
    app = item_app(run, plan, Access({TOKEN: "dr-a"}))
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
        page.wait_for_load_state()
        for _ in range(count - 1):
            page.keyboard.press("1")
        page.wait_for_timeout(450)
        page.keyboard.press("Enter")
        page.wait_for_function("document.querySelector('.said b').textContent !== ''")
        assert str(count) in page.inner_text(".said b")
        page.keyboard.press("2")
        with page.expect_navigation(timeout=60_000):
            page.keyboard.press("Enter")
        page.wait_for_selector("h1")
        assert [score.verdict for score in run.item_scores()] == ["met"] * (count - 1) + ["not_met"]
        assert not complaints
    finally:
        context.close()
        server.should_exit = True
        thread.join()
