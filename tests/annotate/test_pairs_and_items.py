"""Physicians' pairs and verdicts on items: drawn, sent out as workbooks and pages, and read back with all problems."""

import json
import re
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from calls import refused_with, worked
from openpyxl import load_workbook
from scoring_run import SETTLED, client_of, press

from medjudge.annotate.plan import plan_file
from medjudge.annotate.tasks import ITEMS, PAIRS, Task
from medjudge.annotate.units import Unit
from medjudge.pair_records import PhysicianPair
from medjudge.store import Run


class Case(NamedTuple):
    """A task with words of its own: what is written into forms, and what comes of it."""

    task: Task
    run: Path
    written: tuple[str, ...]
    read: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.task.name

    @property
    def form(self) -> Path:
        return self.run / "annotation" / f"{self.task.form_file.removesuffix('.yaml')}s" / "dr-a.xlsx"

    @property
    def records(self) -> list[Any]:
        return list(self.task.kept(Run(self.run)))

    @property
    def verdicts(self) -> list[str]:
        field = self.task.fields(False)[0]
        return [getattr(record, field) for record in self.records]

    @property
    def units(self) -> list[Unit]:
        return self.task.units(Run(self.run), self.task.read_plan(Run(self.run)))["dr-a"]

    def fill(self, *verdicts: object) -> None:
        """Writes verdicts into the first rows of dr-a's workbook."""
        book = load_workbook(self.form)
        sheet = book[str(self.task.sheet)]
        column = [cell.value for cell in sheet[1]].index(self.task.headings[self.task.fields(False)[0]])
        rows = [row for row in sheet.iter_rows(min_row=2) if " +" not in str(row[0].value)]
        for row, verdict in zip(rows, verdicts, strict=False):
            row[column].value = verdict
        book.save(self.form)


@pytest.fixture(params=["pairs", "items"])
def case(request: pytest.FixtureRequest, sample_run: Path) -> Case:
    """The sample without what physicians said of it."""
    (sample_run / "item_scores.jsonl").unlink()
    (sample_run / "physician_pairs.jsonl").unlink()
    if request.param == "pairs":
        return Case(PAIRS, sample_run, ("A", " 平局 ", "b", "TIE"), ("first", "tie", "second", "tie"))
    written = ("met 符合", "not_met", " 与条目相矛盾 ", "Not Met")
    return Case(ITEMS, sample_run, written, ("met", "not_met", "contradicted", "not_met"))


@pytest.fixture
def planned(case: Case, medjudge: Any) -> Case:
    """Two raters with the same five answers each, or ten pairs."""
    raters = ("--rater", "dr-a", "--rater", "dr-b")
    done = worked(medjudge("annotate", case.name, "export", case.run, *raters, *EXPORT, "--json"))
    assert json.loads(done.stdout)["raters"]["dr-a"][case.task.work] == 5
    return case


EXPORT = ("--each", 5, "--overlap", 2)


def test_units_are_spread_and_no_form_names_a_model(planned: Case, medjudge: Any, tmp_path: Path) -> None:
    plan = planned.task.read_plan(Run(planned.run))
    assert sorted(plan.by_rater["dr-a"]) == sorted(plan.by_rater["dr-b"])
    kinds = Counter(
        tuple(sorted(key.model for key in item.keys)) if planned.task is PAIRS else item.question_id
        for item in plan.items
    )
    assert set(kinds.values()) == {1}
    book = load_workbook(planned.form)
    cells = [str(cell.value) for sheet in book for row in sheet.iter_rows() for cell in row]
    assert not [cell for cell in cells if "model-" in cell]
    for unit in planned.units:
        assert all(point in cells for point in unit.points)
    assert any("Answer A 回答A" in cell for cell in cells) == (planned.task is PAIRS)
    if planned.task is PAIRS:
        more = ("--rater", "dr-a", "--each", 20, "--out", tmp_path / "more")
        (planned.run / "annotation" / "pair_plan.json").unlink()
        worked(medjudge("annotate", "pairs", "export", planned.run, *more))
        orders = [unit.item.keys[0].model < unit.item.keys[1].model for unit in planned.units]
        assert 3 < sum(orders) < 17  # which answer is A is drawn


def test_a_workbook_comes_back_as_records(planned: Case, medjudge: Any) -> None:
    planned.fill(*planned.written)
    done = worked(medjudge("annotate", planned.name, "import", planned.run, planned.form))
    assert "4 verdicts imported" in done.stdout
    keys = [key for unit in planned.units for key in planned.task.keys_of(unit)]
    assert [planned.task.key_of(record) for record in planned.records] == keys[:4]
    assert planned.verdicts == list(planned.read)
    done_units = sum(set(planned.task.keys_of(unit)) <= set(keys[:4]) for unit in planned.units)
    assert f"dr-a: {done_units} of 5 scored, {5 - done_units} open" in done.stdout
    again = medjudge("annotate", planned.name, "import", planned.run, planned.form)
    assert "0 verdicts imported, 4 imported before" in again.stdout
    planned.fill(planned.written[2])
    assert medjudge("annotate", planned.name, "import", planned.run, planned.form).returncode == 2
    replaced = medjudge("annotate", planned.name, "import", planned.run, planned.form, "--replace")
    assert "1 replaced" in replaced.stdout
    assert planned.verdicts == [planned.read[2], *planned.read[1:]]


def test_every_wrong_cell_is_named_and_valid_rows_can_be_accepted(planned: Case, medjudge: Any) -> None:
    planned.fill(planned.written[0], "C", "perhaps", *planned.written[3:])
    book = load_workbook(planned.form)
    sheet = book[str(planned.task.sheet)]
    sheet.cell(2, 1).value = "unknown"
    altered = [row for row in sheet.iter_rows(min_row=2) if " +" not in str(row[0].value)][3][4]
    altered.value = "another text"
    book.save(planned.form)
    done = medjudge("annotate", planned.name, "import", planned.run, planned.form)
    refused_with(done, "nothing was imported", "the ID 'unknown' is not in the plan")
    field = "item" if planned.task is ITEMS else "first"
    assert f"row {altered.row}: {field} in E{altered.row} is not the exported text; restore the text" in done.stderr
    offered = ", ".join(planned.task.offered(""))
    name = planned.task.fields(False)[0]
    assert len(re.findall(rf"row \d+: {name} in \w\d+ is '(?:C|perhaps)'; one of {offered} is", done.stderr)) == 2
    assert planned.records == []
    taken = medjudge("annotate", planned.name, "import", planned.run, planned.form, "--accept-valid")
    assert taken.returncode == 1
    assert re.search(r"\d problems, see above; fix and import the same file again", taken.stdout)


def test_forms_of_another_plan_and_of_an_earlier_version_are_kept(planned: Case, medjudge: Any, tmp_path: Path) -> None:
    again = ("annotate", planned.name, "export", planned.run, "--rater", "dr-a", "--rater", "dr-b", *EXPORT)
    assert "exists already" in medjudge(*again).stderr
    file = plan_file(Run(planned.run), planned.task.plan_name)
    written = json.loads(file.read_text())
    if planned.task is ITEMS:  # as an earlier version wrote it
        fields = {name: written[name] for name in ("seed", "overlap", "each", "by_rater")}
        file.write_text(json.dumps({**fields, "answers": written["items"]}))
    assert "has this plan already" in medjudge(*again, "--out", tmp_path / "again").stdout
    assert json.loads(file.read_text())["items"] == written["items"]
    assert "another plan" in medjudge(*again, "--seed", 5, "--out", tmp_path / "other").stderr
    planned.fill("contradicted 相反" if planned.task is ITEMS else "A")  # the words of an earlier version
    book = load_workbook(planned.form)
    book[str(planned.task.sheet)].title = planned.task.former_sheet or planned.task.sheet
    book.save(planned.form)
    worked(medjudge(*again, "--seed", 5, "--out", tmp_path / "other", "--new-plan"))
    assert "1 verdict imported" in medjudge("annotate", planned.name, "import", planned.run, planned.form).stdout
    assert planned.verdicts == ["contradicted" if planned.task is ITEMS else "first"]


def choices_of(unit: Unit, value: int) -> dict[str, str]:
    """A form in which everything has one value; each item the next one."""
    return {f"item-{place}": str((value - 1 + place) % 3 + 1) for place in range(len(unit.points))} or {
        "score": str(value)
    }


def test_the_page_saves_at_once_and_shows_no_name(planned: Case) -> None:
    task, values = planned.task, list(planned.task.choices)
    client = client_of(Run(planned.run), task=task)
    client.headers["accept-language"] = "en"
    first, second, *_ = planned.units
    ids = [unit.item.id for unit in planned.units]
    page = client.get(f"/answer/{ids[0]}").text
    assert "model-" not in page
    assert page.count('<fieldset data-refusal="') == len(first.points)
    incomplete = client.post(f"/answer/{ids[0]}", data={"item-0": "1", "score": "4"})
    assert incomplete.status_code == 400
    assert re.search("no verdict on Item 2|choose A, the tie or B", incomplete.text)
    assert planned.records == []
    form = {**choices_of(first, 1), "comment": "the dose"}
    saved = client.post(f"/answer/{ids[0]}", data={"rater": "dr-a", **form})
    after = client.get(saved.headers["location"]).text
    assert re.search("(Pair|Answer) 1 saved", after)
    assert planned.verdicts == [values[place % 3] for place in range(len(task.keys_of(first)))]
    assert {record.rater for record in planned.records} == {"dr-a"}
    assert {getattr(record, "comment", "the dose") for record in planned.records} == {"the dose"}
    changed = choices_of(first, 2)
    assert client.post(f"/answer/{ids[0]}", data={**form, **changed}).status_code == 409
    client.post(f"/answer/{ids[0]}", data={**changed, "replaces": "yes"})
    assert planned.verdicts[0] == values[1]
    client.get("/language/zh/" + ids[1])
    assert re.search("回答是否符合各条|哪一个回答更好", client.get(f"/answer/{second.item.id}").text)
    client.get("/language/en/" + ids[1])
    for unit in planned.units:
        client.post(f"/answer/{unit.item.id}", data={**choices_of(unit, 2), "replaces": "yes"})
    assert re.search("all 5 (pairs|answers) are (compared|marked) and saved", client.get("/").text)


@pytest.mark.parametrize("case", ["pairs"], indirect=True)
def test_a_pair_that_was_recorded_the_other_way_round_shows_the_same_choice(planned: Case) -> None:
    run, item = Run(planned.run), planned.units[0].item
    one, other = (key.model for key in item.keys)
    reverse = {"question_id": item.question_id, "first": other, "second": one, "sample": item.sample}
    pair = PhysicianPair.model_validate({**reverse, "rater": "dr-a", "preferred": "first"})
    (planned.run / "physician_pairs.jsonl").write_text(pair.model_dump_json() + "\n")
    page = client_of(run, task=PAIRS).get(f"/answer/{item.id}").text
    assert re.findall(r'value="(\d)" aria-pressed="true"', page) == ["3"]


@pytest.mark.slow
@pytest.mark.parametrize("case", ["items"], indirect=True)
def test_keys_mark_items_in_a_browser_with_the_answer_in_sight(planned: Case, open_page: Callable[..., Any]) -> None:
    page = open_page(Run(planned.run), ITEMS, viewport={"width": 1200, "height": 800})
    count = len(planned.units[0].points)
    answer, first = page.locator(".kept").bounding_box(), page.locator(".marks fieldset").first.bounding_box()
    assert answer["x"] + answer["width"] <= first["x"]
    assert max(answer["y"], first["y"]) < 400  # the reference is folded
    for _ in range(count - 1):
        page.keyboard.press("1")
    page.wait_for_timeout(SETTLED)
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('.said b').textContent !== ''")
    assert str(count) in page.inner_text(".said b")
    for mark in (page.locator(".marks fieldset").nth(count - 1), page.locator(".save")):
        mark.scroll_into_view_if_needed()
        box = page.locator(".kept").bounding_box()
        assert 0 <= box["y"] < 400
    page.keyboard.press("2")
    press(page, "Enter")
    assert planned.verdicts == ["met"] * (count - 1) + ["not_met"]
    press(page, "u")
    assert page.locator(".marks input:checked").count() == count
    page.set_viewport_size({"width": 400, "height": 800})  # a phone: nothing clipped, nothing over the items
    kept = page.locator(".kept")
    assert kept.evaluate("box => box.scrollHeight - box.clientHeight") == 0
    assert kept.bounding_box()["y"] + kept.bounding_box()["height"] < page.locator(".marks").bounding_box()["y"]
