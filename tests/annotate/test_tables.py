"""Physicians' scores from the tables that hospitals have, and label maps."""

import datetime
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from openpyxl import Workbook

from medjudge.annotate.scores import parse_label_map, read_physician_scores
from medjudge.annotate.tasks import LEVELS
from medjudge.errors import InputError
from medjudge.records import MTGDimensions, PhysicianScore
from medjudge.store import read_records

DIMENSIONS = tuple(MTGDimensions.model_fields)
LONG = ["question_id", "model", "sample", "rater", "score"]
WIDE = "question_id;model;dr_a;dr_b"


@pytest.fixture
def workbook(tmp_path: Path) -> Callable[..., Path]:
    """Writes scores.xlsx; each keyword is a sheet with its rows."""

    def write(**sheets: Sequence[Sequence[object]]) -> Path:
        book = Workbook()
        book.remove(book.active)
        for title, rows in sheets.items():
            sheet = book.create_sheet(title)
            for row in rows:
                sheet.append(row)
        path = tmp_path / "scores.xlsx"
        book.save(path)
        return path

    return write


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file of lines as Excel does, with a byte order mark and its line ends."""

    def write(*lines: str, name: str = "scores.csv") -> Path:
        path = tmp_path / name
        path.write_bytes("".join(line + "\r\n" for line in lines).encode("utf-8-sig"))
        return path

    return write


def refused(path: Path, *arguments: Any) -> str:
    with pytest.raises(InputError) as caught:
        read_physician_scores(path, *arguments)
    return str(caught.value)


def test_a_long_workbook_as_excel_stores_it(workbook, tmp_path: Path) -> None:
    path = workbook(
        MK=[
            [" Question_ID ", "MODEL", "Question text", "sample", "Rater", "Score", "comment", None],
            ["q1", "gpt", "How much?", 0.0, "dr_a", 4.0, None, "a note beside the table"],
            [17.0, "gpt", "How often?", None, " dr_b ", "5", " short ", None],
            [None] * 8,
            ["q3", "gpt", "Why?", 2, "dr_a", "4.0", 12, None],
            ["q4", "gpt", "not scored yet", 0, None, "  ", None, None],
            ["", " ", None, None, None, None, None, None],
        ],
        Instructions=[["How to score"], ["From 1 to 5."]],
    )
    expected = [
        PhysicianScore(question_id="q1", model="gpt", rater="dr_a", score=4),
        PhysicianScore(question_id="17", model="gpt", rater="dr_b", score=5, comment="short"),
        PhysicianScore(question_id="q3", model="gpt", sample=2, rater="dr_a", score=4, comment="12"),
    ]
    assert read_physician_scores(path) == expected
    cut = tmp_path / "cut.xlsx"  # some programs write a wrong size into a sheet, which is read whole
    with ZipFile(path) as old, ZipFile(cut, "w") as new:
        for name in old.namelist():
            new.writestr(name, re.sub(rb'<dimension ref="[^"]*"', b'<dimension ref="A1"', old.read(name)))
    assert read_physician_scores(cut) == expected


def test_dimensions_and_levels_on_several_sheets_with_the_veto(workbook) -> None:
    path = workbook(
        MTG=[
            ["question_id", "model", "rater", *DIMENSIONS],
            ["t1", "m", "dr", 5, 5, 5, 5, 1],
            ["t2", "m", "dr", 5, 5, 5, 5, 0],
            ["t3", "m", "dr", 0, 3, 3, 3, 1],
        ],
        MK=[["question_id", "model", "rater", "score"], ["q1", "m", "dr", 2]],
    )
    scores = read_physician_scores(path)
    assert [(score.question_id, score.level) for score in scores] == [("t1", 5), ("t2", 1), ("t3", 1), ("q1", 2)]
    assert (scores[0].dimensions is None, scores[0].score) == (False, None)


def test_all_problems_come_at_once_with_sheet_and_row_and_are_cut_at_twenty(workbook) -> None:
    path = workbook(
        MTG=[
            ["question_id", "model", "rater", "score", *DIMENSIONS],
            ["t1", "m", "dr", None, 5, 7, 5, 5, 2],
            [],
            ["t2", "m", "dr", None, 5, 5, None, 5, 1],
            ["t3", "m", "dr", 4, 5, 5, 5, 5, 1],
        ],
        MK=[
            LONG,
            ["q1", "m", -1, "dr", "NA"],
            [None, "m", 0, None, 3],
            [datetime.date(2026, 1, 2), "m", 0, "dr", 3],
            ["q4", "m", 0, "dr", "good"],
            ["q5", "m", 0, "dr", True],
            ["q7", "m", 0, "dr", "=2+2"],
            ["q8", "m", 0, "dr", 5],
        ],
        Old=[["question_id", "text"], ["q1", "x"]],
        Again=[LONG, [], ["q8", "m", None, "dr", 4], *[[f"n{n}", "m", 0, "dr", 6] for n in range(8)]],
    )
    summary, *lines = refused(path, (), {}).split("\n")
    assert summary == f"{path}: 22 problems; nothing was read"
    expected = [
        r"sheet 'MK', row 7: score in E7 holds a formula without a value; type the number",
        r"sheet 'Old', row 1: no column model, rater, score \(or .*safety\); the columns are: question_id, text; .*",
        r"sheet 'MTG', row 2: correctness in [A-Z]2 is 7; the scale goes from 0 to 5",
        r"sheet 'MTG', row 2: safety in [A-Z]2 is 2; 0 or 1 is expected",
        r"sheet 'MTG', row 4: no effectiveness in [A-Z]4; .*",
        r"sheet 'MTG', row 5: both score in [A-Z]5 and the five dimensions are filled in; .*",
        r"sheet 'MK', row 2: sample in [A-Z]2 is -1; .*",
        r"sheet 'MK', row 2: score in [A-Z]2 is 'NA'; leave the cell blank .*",
        r"sheet 'MK', row 3: question_id in A3 is missing.*",
        r"sheet 'MK', row 3: rater in [A-Z]3 is missing.*",
        r"sheet 'MK', row 4: question_id in A4 is 2026-01-02 .*date.*text.*",
        r"sheet 'MK', row 5: score in [A-Z]5 is 'good'; which level is it\? --label-map .*",
        r"sheet 'MK', row 6: score in [A-Z]6 is True; a whole number .*",
        r"sheet 'Again', row 3: q8 / m / 0 / dr duplicates sheet 'MK', row 8; remove one of the two",
        *[rf"sheet 'Again', row {number}: score in E{number} is 6; .*" for number in range(4, 10)],
        r"and 2 more",
    ]
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch("  " + pattern, line)


def test_a_wide_table_with_missing_cells(table) -> None:
    rows = ("q1,m,0,4,", "q2,m,0,,5", "q3,m,1,2,1", "q4,m,1,,")
    scores = read_physician_scores(table("question_id,model,sample,Dr_A ,dr_b", *rows), ["Dr_A", "dr_b"])
    assert [(score.question_id, score.sample, score.rater, score.level) for score in scores] == [
        ("q1", 0, "Dr_A", 4),
        ("q2", 0, "dr_b", 5),
        ("q3", 1, "Dr_A", 2),
        ("q3", 1, "dr_b", 1),
    ]


HEAD = "question_id,model,rater,score,comment"


@pytest.mark.parametrize(
    ("lines", "raters", "messages"),
    [
        # Wide tables: problems name the file's own headings, and come once a row.
        (["question_id,model,dr_b", "q1,m,1"], ["dr_a", "dr_b"], ["no column dr_a; the columns are: question_id, "]),
        ([WIDE, "q;m;4;7"], ["dr_a", "dr_b"], ["scores.csv, row 2: dr_b in D2 is 7; ", "; nothing was read"]),
        (["question_id,model,a,b", ",m,4,5", ",m,4,5"], ["a", "b"], [": 2 problems", "row 3: question_id in A3 is m"]),
        (
            ["question_id,model,a,b", "q1,m,4,4", "q1,m,4,9"],
            ["a", "b"],
            [": 2 problems", "row 3: q1 / m / 0 / a duplicates row 2", "row 3: b in D3 is 9"],
        ),
        # Rows are counted as a spreadsheet counts them; shifted cells and open quotes are no scores.
        ([HEAD, 'q1,m,dr,4,"two', 'lines"', "", "q2,m,dr,6,"], [], ["row 4: score in D4 is 6"]),
        ([HEAD, "q1,m,dr,4,safe, but short"], [], ["row 2: 6 cells under 5 headings"]),
        ([HEAD, 'q1,m,dr,4,"open', "q2,m,dr,5,", "q3,m,dr,5,"], [], ["row 2: not valid CSV"]),
        # Columns that are missing or repeated, and tables without a score.
        (
            ["question_id,model,score", "q,m,4"],
            [],
            ["no column rater; the columns are: question_id, ", "--rater-columns"],
        ),
        (["id,model"], [], ["no column question_id; its columns are: row 1: id, model"]),
        (["question_id,model,rater,score,Score ", "q,m,d,4,5"], [], ["column score appears twice"]),
        (["question_id,model,rater,score,safety", "q,m,d,4,0"], [], ["no column instruction_following"]),
        ([",".join(LONG), "q1,m,0,dr,"], [], ["has no score; every score cell is blank"]),
        ([",".join(LONG)], [], ["has no score"]),
        ([], [], ["is empty"]),
    ],
)
def test_a_table_that_cannot_be_read_says_where(table, lines: list[str], raters: list[str], messages) -> None:
    told = refused(table(*lines), raters)
    for message in messages:
        assert message in told


@pytest.mark.parametrize(("separator", "name"), [(",", "s.csv"), (";", "s.CSV"), ("\t", "s.tsv")])
def test_what_excel_exports_as_text(table, separator: str, name: str) -> None:
    rows = [
        [*LONG, "comment", ""],
        ["问题1", "m", "0", "王医生", "4,0" if separator == ";" else "4.0", '"剂量偏高，但可用; a, b"', ""],
        ["问题2", "m", "", "王医生", "", "", ""],
        ["问题3", "m", "", "王医生", " ５ ", "", ""],
    ]
    scores = read_physician_scores(table(*map(separator.join, rows), name=name))
    assert [(score.question_id, score.rater, score.score, score.comment) for score in scores] == [
        ("问题1", "王医生", 4, "剂量偏高，但可用; a, b"),
        ("问题3", "王医生", 5, None),
    ]


@pytest.mark.parametrize("value", ["4.5", "4,5", "4,000", "4/5", "1e0", "4 – usable", "nan", "-", "TRUE", "²"])
def test_nothing_is_guessed_in_a_cell(table, value: str) -> None:
    path = table("question_id;model;rater;score", f"q1;m;dr;{value}")
    assert refused(path).startswith(f"{path}, row 2: score in D2 is '{value}'")


def test_labels_are_mapped_and_numbers_keep_their_meaning(table) -> None:
    labels = parse_label_map("entailment=5, Neutral = 3,contradiction=1,0=1,4=4")
    path = table("question_id,model,a", "q1,m, ENTAILMENT ", "q2,m,neutral", "q3,m,4", "q4,m,0.0")
    assert [score.score for score in read_physician_scores(path, ["a"], labels)] == [5, 3, 4, 1]
    wrong = table("question_id,model,a", "q1,m,neutral", "q2,m,maybe")
    known = "the label map has only entailment, neutral, contradiction, 0, 4"
    assert f"row 3: a in C3 is 'maybe'; {known}" in refused(wrong, ["a"], labels)


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("entailment=5,neutral", "entry 'neutral'"),
        ("neutral=7", "entry 'neutral=7'"),
        ("=3", "entry '=3'"),
        ("a=5, A =4", "entry 'A =4': this label is a duplicate"),
        ("4=2", "entry '4=2': the numbers 1-5 keep"),
        ("labels.csv", "entry 'labels.csv'"),
    ],
)
def test_a_bad_entry_of_a_label_map_is_named(text: str, entry: str) -> None:
    with pytest.raises(InputError, match=re.escape(entry)):
        parse_label_map(text)


def test_json_lines_and_files_of_another_kind(tmp_path: Path, jsonl, workbook, sample_run: Path) -> None:
    path = sample_run / "physician_scores.jsonl"
    assert read_physician_scores(path) == read_records(path, PhysicianScore)
    bad = jsonl("s.jsonl", {"question_id": "q", "model": "m", "rater": "r", "score": "4"})
    assert f"{bad}, line 1: score" in refused(bad)
    assert "--rater-columns is for tables" in refused(bad, ["dr_a"])
    assert "--label-map is for tables" in refused(bad, [], {"good": 5})
    for name in ("s.xls", "s.ods", "s", "s.txt"):
        assert "are read from .jsonl, .csv, .tsv and .xlsx" in refused(tmp_path / name)
    form = workbook(MK=[["ID", LEVELS.headings["answer"]], ["1", "A text"]])
    assert "a form of `medjudge annotate export`; import it first with `medjudge annotate import`" in refused(form)
    assert "sheet 'A', row 1: id; sheet 'B', row 2: x" in refused(workbook(A=[["id"]], B=[[], ["x"]], C=[]))
    (tmp_path / "old.xlsx").write_bytes(b"\xd0\xcf\x11\xe0 an old .xls, or one with a password")
    assert "not a readable .xlsx" in refused(tmp_path / "old.xlsx")
    for name in ("none.xlsx", "none.csv", "none.jsonl"):
        assert "no such file" in refused(tmp_path / name)
    assert "name each column once, and leave none blank" in refused(tmp_path / "s.csv", ["a", "A "])
    assert "name each column once, and leave none blank" in refused(tmp_path / "s.csv", ["a", ""])
