"""`medjudge annotate export` and `import`: forms out, filled in as physicians do, and back."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from calls import refused_with, worked
from openpyxl import load_workbook
from scoring_run import build_run

from medjudge.annotate.plan import Plan, read_plan
from medjudge.annotate.tasks import LEVELS
from medjudge.records import AnswerKey, PhysicianScore
from medjudge.store import Run

Edit = Callable[[Any], None]
BOTH = ("--rater", "dr-a", "--rater", "dr-b")


@pytest.fixture
def exported(run: Run, medjudge: Any) -> Plan:
    """Workbooks for dr-a and dr-b, who both score all fourteen answers."""
    worked(medjudge("annotate", "export", run.path, *BOTH))
    return read_plan(run)


def form_of(run: Run, rater: str = "dr-a") -> Path:
    return run.path / "annotation" / "forms" / f"{rater}.xlsx"


def levels(run: Run, rater: str) -> dict[str, dict[str, object]]:
    """A rater's cells of each item: scores by turns, dimensions for MTG, comments in both languages."""
    entered: dict[str, dict[str, object]] = {}
    for place, to_fill in enumerate(LEVELS.units(run, read_plan(run))[rater]):
        fields = LEVELS.fields(to_fill.by_dimensions)
        values = [place % 5 + 1] if fields == ("score",) else [5, 4, 5, place % 6, place % 2]
        entered[to_fill.item.id] = {
            **dict(zip(fields, values, strict=True)),
            "comment": ("漏了剂量", "=fine", None)[place % 3],
        }
    return entered


def fill(path: Path, entered: dict[str, dict[str, object]], edit: Edit | None = None, to: str = "filled.xlsx") -> Path:
    """Fills a form in, and does to it what a physician might do besides."""
    workbook = load_workbook(path)
    for sheet in workbook.worksheets[1:]:
        names = [*(LEVELS.fields(sheet.title == "MTG")), "comment"]
        for row in sheet.iter_rows(min_row=2):
            for cell, name in zip(row[5:], names, strict=False):
                value = entered.get(row[0].value, {}).get(name)
                if value is not None:
                    cell.value = value
                    cell.data_type = "s" if isinstance(value, str) else "n"
    if edit:
        edit(workbook)
    workbook.save(path.with_name(to))
    return path.with_name(to)


def expected(run: Run, rater: str, entered: dict[str, dict[str, object]]) -> dict[AnswerKey, PhysicianScore]:
    keys, texts = {item.id: item.keys[0] for item in read_plan(run).items}, run.texts()
    records = {}
    for item_id, cells in entered.items():
        key, given = keys[item_id], {name: cells.get(name) for name in ("score", "comment")}
        values = {name: value for name, value in cells.items() if name not in given}
        given |= {**key._asdict(), "rater": rater, "dimensions": values or None, "texts": texts[key]}
        records[key] = PhysicianScore.model_validate(given)
    return records


def stored(run: Run, rater: str) -> dict[AnswerKey, PhysicianScore]:
    return {score.answer_key: score for score in run.physician_scores() if score.rater == rater}


def test_what_is_filled_in_is_what_is_stored(run: Run, exported: Plan, medjudge: Any) -> None:
    files = [fill(form_of(run, rater), levels(run, rater), to=f"by {rater}.xlsx") for rater in ("dr-a", "dr-b")]
    done = worked(medjudge("annotate", "import", run.path, *files))
    for rater in ("dr-a", "dr-b"):
        assert stored(run, rater) == expected(run, rater, levels(run, rater))
    assert "28 scores imported, 0 imported before, 0 replaced" in done.stdout
    assert "dr-b: 14 of 14 scored, 0 open" in done.stdout
    assert "agreement among raters on 14 answers: usable" in done.stdout
    before = run.physicians_file.read_bytes()
    done = medjudge("annotate", "import", run.path, files[1], files[0], "--json")
    printed = json.loads(done.stdout)
    assert (printed["new"], printed["same"], printed["replaced"]) == (0, 28, 0)
    usable = printed["agreement"]["usable_agreement"]
    assert (0 <= usable["value"] <= 1, usable["low"]) == (True, None)  # seven conversations
    assert run.physicians_file.read_bytes() == before


def test_a_blank_score_or_a_deleted_row_is_no_problem_and_stays_open(run: Run, exported: Plan, medjudge: Any) -> None:
    some = dict(list(levels(run, "dr-a").items())[:5])
    left = next(item_id for item_id in levels(run, "dr-a") if item_id not in some)
    form = fill(form_of(run), {**some, left: {"comment": "not my field"}})
    workbook = load_workbook(form)
    sheet, place = next((sheet, cell.row) for sheet in workbook for cell in sheet["A"] if cell.value == list(some)[-1])
    sheet.delete_rows(place)
    workbook.save(form)
    done = worked(medjudge("annotate", "import", run.path, form))
    assert "4 scores imported" in done.stdout
    assert "1 row with a comment and no score: not imported" in done.stdout
    assert "dr-a: 4 of 14 scored, 10 open" in done.stdout
    assert "no answer was scored by two raters yet" in done.stdout


def at(sheet: str, **cells: object) -> Edit:
    def edit(workbook: Any) -> None:
        for cell, value in cells.items():
            workbook[sheet][cell].value = value

    return edit


def twice(workbook: Any) -> None:
    sheet = workbook["MSE"]
    sheet.append([cell.value for cell in sheet[2]])


def id_of_the_next_row(workbook: Any) -> None:
    at("MSE", A2=workbook["MSE"]["A3"].value)(workbook)


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (at("MK", F2=7), "sheet 'MK', row 2: score in F2 is 7; the scale goes from 1 to 5"),
        (at("MK", F2=4.5), "sheet 'MK', row 2: score in F2 is 4.5; a whole number from 1 to 5 is expected"),
        (at("MK", F2="good"), "score in F2 is 'good'; a whole number from 1 to 5 is expected"),
        (at("MTG", J2=2), "sheet 'MTG', row 2: safety in J2 is 2; 0 or 1 is expected"),
        (at("MTG", G2=None), "no correctness in G2; the five dimensions are scored together or not at all"),
        (at("MTG", F3=6), "instruction_following in F3 is 6; the scale goes from 0 to 5"),
        (at("MSE", A2=None), "sheet 'MSE', row 2: the ID is missing; copy the row"),
        (at("MSE", A2="0123456789ab"), "the ID '0123456789ab' is not in the plan; copy the row"),
        (id_of_the_next_row, "is also in sheet 'MSE', row 3; keep one of them"),
        (at("MSE", E2="A better answer."), "sheet 'MSE', row 2: answer in E2 is not the exported text"),
        (at("MSE", H2=3), "'3' is in a column without a heading"),
        (at("MSE", F2="=2+2"), "sheet 'MSE', row 2: score in F2 holds a formula without a value; type the"),
        (at("MSE", G2="=A1"), "sheet 'MSE', row 2: comment in G2 holds a formula without a value"),
        (at("MSE", C2=4, F2=None), "reference in C2 is 4; a score goes into score"),
        (at("MSE", G2=4, F2=None), "comment in G2 is 4 and the score is blank"),
        (twice, "sheet 'MSE', row 2: item"),
        (at("MR", F3=4), "score is in F3, in a row that only continues a text; fill in F2 alone"),
        (at("MR", F1="points"), "sheet 'MR', row 1: no column 'Score 评分 1–5'"),
        (at("Read me 说明", B2="dr-z"), "belongs to rater dr-z, and the raters of the plan are dr-a, dr-b"),
    ],
)
def test_an_invalid_cell_is_reported(run: Run, exported: Plan, medjudge: Any, edit: Edit, message: str) -> None:
    path = fill(form_of(run), levels(run, "dr-a"), edit)
    refused_with(medjudge("annotate", "import", run.path, path), f"{path}, ", message, "nothing was imported")
    assert not run.physicians_file.exists()


def test_all_problems_come_at_once_and_valid_rows_can_come_first(run: Run, exported: Plan, medjudge: Any) -> None:
    entered = levels(run, "dr-a")
    first = fill(form_of(run), entered, at("MK", F2=9, F3="x"), "one.xlsx")
    first = fill(first, {}, at("MTG", J2=5), "one.xlsx")
    first = fill(first, {}, at("MSE", E2="no"), "one.xlsx")
    second = fill(form_of(run, "dr-b"), levels(run, "dr-b"), at("MR", F2=0), "two.xlsx")
    done = medjudge("annotate", "import", run.path, first, second)
    assert done.stderr.startswith("error: 5 problems; nothing was imported; --accept-valid")
    assert (done.stderr.count("one.xlsx, sheet"), done.stderr.count("two.xlsx, sheet")) == (4, 1)
    # A question is Chinese.
    assert "two.xlsx，工作表“MR”第2行：F2单元格（评分）填写的是0，分值范围为1至5" in done.stderr
    done = medjudge("annotate", "import", run.path, first, "--accept-valid", "--json")
    assert done.returncode == 1
    printed = json.loads(done.stdout)
    assert (printed["new"], len(printed["wrong"])) == (10, 4)
    fixed = fill(form_of(run), entered, to="one.xlsx")
    assert "4 scores imported, 10 imported before" in medjudge("annotate", "import", run.path, fixed).stdout
    assert stored(run, "dr-a") == expected(run, "dr-a", entered)


def test_the_form_of_another_rater_or_plan_is_refused(run: Run, exported: Plan, medjudge: Any, tmp_path: Path) -> None:
    swapped = tmp_path / "dr-b.xlsx"
    swapped.write_bytes(fill(form_of(run), levels(run, "dr-a")).read_bytes())
    done = medjudge("annotate", "import", run.path, swapped)
    assert "is named after dr-b and belongs to rater dr-a" in done.stderr
    other = build_run(tmp_path / "other")
    done = medjudge("annotate", "export", other.path, *BOTH, "--seed", 3)
    foreign = fill(form_of(other), levels(other, "dr-a"), to="foreign.xlsx")
    done = medjudge("annotate", "import", run.path, foreign)
    assert "has 14 items, and none is in a plan of this run" in done.stderr
    half = ("--overlap", 1, "--out", tmp_path / "half", "--new-plan")
    worked(medjudge("annotate", "export", other.path, *BOTH, *half))
    theirs = next(iter(read_plan(other).by_rater["dr-b"]))
    form = tmp_path / "half" / "dr-a.xlsx"
    mixed = fill(form, levels(other, "dr-a"), at(load_workbook(form).sheetnames[1], A2=theirs))
    done = medjudge("annotate", "import", other.path, mixed)
    assert f"item {theirs} is for dr-b to score, not for dr-a" in done.stderr


@pytest.mark.parametrize("seed", [0, 1])
def test_a_plan_whose_forms_are_out_is_never_lost(run: Run, exported: Plan, medjudge: Any, seed: int) -> None:
    """Neither where ids differ, nor where the same ids (one seed) are shared out in another way."""
    entered = levels(run, "dr-a")
    out, of_old = fill(form_of(run), entered), expected(run, "dr-a", entered)
    other = ("annotate", "export", run.path, *BOTH, "--overlap", 1, "--seed", seed, "--out", run.path / "more")
    done = medjudge(*other)
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1)
    made = "another plan, made with --rater dr-a --rater dr-b --overlap 2 --seed 0"
    assert f"{made}, and its forms may be out; the same options" in done.stderr
    assert not (run.path / "more").exists()
    assert "--new-plan makes a new plan and keeps this one as plan-1.json" in done.stderr
    assert read_plan(run) == exported
    assert "plan-1.json; its forms can still be imported" in medjudge(*other, "--new-plan").stdout
    assert Plan.model_validate_json((run.path / "annotation" / "plan-1.json").read_text()) == exported
    of_new = fill(run.path / "more" / "dr-b.xlsx", levels(run, "dr-b"))
    done = worked(medjudge("annotate", "import", run.path, out, of_new))
    assert "21 scores imported" in done.stdout
    assert "dr-a: 14 of 14 scored, 0 open" in done.stdout
    assert stored(run, "dr-a") == of_old


def test_other_files_are_refused(run: Run, exported: Plan, medjudge: Any, jsonl: Any, tmp_path: Path) -> None:
    for other in (jsonl("a.jsonl"), jsonl("label-studio.json")):
        assert "forms are read from .xlsx; save it as one" in medjudge("annotate", "import", run.path, other).stderr
    (tmp_path / "b.xlsx").write_text("no zip")
    assert "not a readable .xlsx workbook" in medjudge("annotate", "import", run.path, tmp_path / "b.xlsx").stderr
    assert (
        "`medjudge annotate export` makes one"
        in medjudge("annotate", "import", build_run(tmp_path / "new").path, form_of(run)).stderr
    )
