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
WIDE = "question_id;model;" + ";".join(f"dr_b.{name}" for name in DIMENSIONS)


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
def text_file(tmp_path: Path) -> Callable[..., Path]:
    """Writes a file of lines in an encoding, with the line ends of Excel."""

    def write(name: str, *lines: str, encoding: str = "utf-8") -> Path:
        path = tmp_path / name
        path.write_bytes("".join(line + "\r\n" for line in lines).encode(encoding))
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


def test_all_problems_come_at_once_with_sheet_and_row(workbook) -> None:
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
            ["q1", "m", 0, "dr", 4.5],
            ["q2", "m", -1, "dr", "NA"],
            [None, "m", 0, None, 3],
            [datetime.date(2026, 1, 2), "m", 0, "dr", 3],
            ["q4", "m", 0, "dr", "good"],
            ["q5", "m", 0, "dr", True],
            ["q6", "m", 0, "dr", 0],
            ["q7", "m", 0, "dr", "=2+2"],
            ["q8", "m", 0, "dr", 5],
        ],
        Old=[["question_id", "text"], ["q1", "x"]],
        Again=[LONG, [], ["q8", "m", None, "dr", 4]],
    )
    summary, *lines = refused(path, (), {}).split("\n")
    assert summary == f"{path}: 16 problems; nothing was read"
    expected = [
        r"sheet 'MK', row 9: score in E9 holds a formula without a value; type the number",
        r"sheet 'Old', row 1: no column model, rater, score \(or .*safety\); the columns are: question_id, text; .*",
        r"sheet 'MTG', row 2: correctness in [A-Z]2 is 7; the scale goes from 0 to 5",
        r"sheet 'MTG', row 2: safety in [A-Z]2 is 2; 0 or 1 is expected",
        r"sheet 'MTG', row 4: no effectiveness in [A-Z]4; .*",
        r"sheet 'MTG', row 5: both score in [A-Z]5 and the five dimensions are filled in; .*",
        r"sheet 'MK', row 2: score in [A-Z]2 is 4\.5; a whole number from 1 to 5 is expected",
        r"sheet 'MK', row 3: sample in [A-Z]3 is -1; .*",
        r"sheet 'MK', row 3: score in [A-Z]3 is 'NA'; leave the cell blank .*",
        r"sheet 'MK', row 4: question_id in A4 is missing.*",
        r"sheet 'MK', row 4: rater in [A-Z]4 is missing.*",
        r"sheet 'MK', row 5: question_id in A5 is 2026-01-02 .*date.*text.*",
        r"sheet 'MK', row 6: score in [A-Z]6 is 'good'; which level is it\? --label-map .*",
        r"sheet 'MK', row 7: score in [A-Z]7 is True; a whole number .*",
        r"sheet 'MK', row 8: score in [A-Z]8 is 0; the scale goes from 1 to 5",
        r"sheet 'Again', row 3: q8 / m / 0 / dr duplicates sheet 'MK', row 10; remove one of the two",
    ]
    for line, pattern in zip(lines, expected, strict=True):
        assert re.fullmatch("  " + pattern, line)


def test_many_problems_are_cut_at_twenty(workbook) -> None:
    lines = refused(workbook(S=[LONG, *[[f"q{n}", "m", 0, "dr", 6] for n in range(50)]])).split("\n")
    assert lines[0].endswith("50 problems; nothing was read")
    assert (len(lines), "row 21:" in lines[20], lines[21]) == (22, True, "  and 30 more")


def test_a_wide_table_with_missing_cells_levels_and_dimensions(text_file) -> None:
    path = text_file(
        "wide.csv",
        "question_id,model,sample,Dr_A ,dr_a.comment," + ",".join(f"dr_b.{name}" for name in DIMENSIONS),
        "q1,m,0,4,good,,,,,",
        "q2,m,0,,,5,5,4,4,1",
        "q3,m,1,2,,5,5,5,5,0",
        "q4,m,1,,,,,,,",
    )
    scores = read_physician_scores(path, ["Dr_A", "dr_b"])
    assert [(score.question_id, score.sample, score.rater, score.level, score.comment) for score in scores] == [
        ("q1", 0, "Dr_A", 4, "good"),
        ("q2", 0, "dr_b", 5, None),
        ("q3", 1, "Dr_A", 2, None),
        ("q3", 1, "dr_b", 1, None),
    ]


HEAD = "question_id,model,rater,score,comment"


@pytest.mark.parametrize(
    ("lines", "raters", "messages"),
    [
        # Wide tables: problems name the file's own headings, and come once a row.
        (
            ["question_id,model,dr_b.safety", "q1,m,1"],
            ["dr_a", "dr_b"],
            ["no column dr_a (or dr_a.instruction_", "dr_b"],
        ),
        ([WIDE, "q;m;5;7;5;5;1"], ["dr_b"], ["scores.csv, row 2: dr_b.correctness in D2 is 7; ", "; nothing was read"]),
        ([WIDE, "q;m;5;5;5;5;1", "r;m;5;5;5;5"], ["dr_b"], ["row 3: no dr_b.safety in G3;"]),
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
def test_a_table_that_cannot_be_read_says_where(text_file, lines: list[str], raters: list[str], messages) -> None:
    told = refused(text_file("scores.csv", *lines), raters)
    for message in messages:
        assert message in told


@pytest.mark.parametrize(
    ("encoding", "separator", "name"),
    [
        ("utf-8", ",", "s.csv"),
        ("utf-8-sig", ";", "s.CSV"),
        ("gb18030", ";", "s.csv"),
        ("gb18030", ",", "s.csv"),
        ("utf-8-sig", "\t", "s.tsv"),
    ],
)
def test_what_excel_exports_as_text(text_file, encoding: str, separator: str, name: str) -> None:
    rows = [
        [*LONG, "comment", ""],
        ["问题1", "m", "0", "王医生", "4,0" if separator == ";" else "4.0", '"剂量偏高，但可用; a, b"', ""],
        ["", "", "", "", "", "", ""],
        ["问题2", "m", "", "王医生", "", "", ""],
        ["问题3", "m", "", "王医生", " ５ ", "", ""],
    ]
    scores = read_physician_scores(text_file(name, *map(separator.join, rows), encoding=encoding))
    assert [(score.question_id, score.rater, score.score, score.comment) for score in scores] == [
        ("问题1", "王医生", 4, "剂量偏高，但可用; a, b"),
        ("问题3", "王医生", 5, None),
    ]


@pytest.mark.parametrize("value", ["4.5", "4,5", "4,000", "4/5", "1e0", "4 – usable", "nan", "-", "TRUE", "²"])
def test_nothing_is_guessed_in_a_cell(text_file, value: str) -> None:
    path = text_file("s.csv", "question_id;model;rater;score", f"q1;m;dr;{value}")
    assert refused(path).startswith(f"{path}, row 2: score in D2 is '{value}'")


def test_labels_are_mapped_and_numbers_keep_their_meaning(text_file, jsonl) -> None:
    labels = parse_label_map("entailment=5, Neutral = 3,contradiction=1,0=1,4=4")
    path = text_file("s.csv", "question_id,model,a", "q1,m, ENTAILMENT ", "q2,m,neutral", "q3,m,4", "q4,m,0.0")
    assert [score.score for score in read_physician_scores(path, ["a"], labels)] == [5, 3, 4, 1]
    wrong = text_file("w.csv", "question_id,model,a", "q1,m,neutral", "q2,m,maybe")
    known = "the label map has only entailment, neutral, contradiction, 0, 4"
    assert f"row 3: a in C3 is 'maybe'; {known}" in refused(wrong, ["a"], labels)
    base = {"question_id": "q1", "model": "m", "rater": "r"}
    lines = jsonl("s.jsonl", {**base, "score": "Entailment"}, {**base, "sample": 1, "score": 2})
    scores = read_physician_scores(lines, (), {"Entailment": 5})
    assert [(type(score), score.score) for score in scores] == [(PhysicianScore, 5), (PhysicianScore, 2)]
    bad = jsonl("s.jsonl", {**base, "score": "maybe"})
    assert "line 1: score is 'maybe'; the label map has only" in refused(bad, (), labels)


def test_json_lines_are_read_as_records(jsonl, sample_run: Path) -> None:
    path = sample_run / "physician_scores.jsonl"
    assert read_physician_scores(path) == read_records(path, PhysicianScore)
    bad = jsonl("s.jsonl", {"question_id": "q", "model": "m", "rater": "r", "score": "4"})
    for file in (bad, bad.with_name("none.jsonl")):
        with pytest.raises(InputError) as as_ever:
            read_records(file, PhysicianScore)
        assert refused(file) == str(as_ever.value)


def test_label_maps_from_files(text_file) -> None:
    expected = {"yes": 5, "no": 1}
    assert parse_label_map(str(text_file("m.csv", "Label;Level", " Yes ;5", "no;1", encoding="utf-8-sig"))) == expected
    assert parse_label_map(str(text_file("m.json", '{"Yes": 5, "no": "1"}'))) == expected
    assert parse_label_map(str(text_file("m.yaml", "Yes: 5", "no: 1"))) == expected
    assert parse_label_map(str(text_file("zh.csv", "蕴含,5", "矛盾,1", encoding="gb18030"))) == {"蕴含": 5, "矛盾": 1}


@pytest.mark.parametrize(
    ("file", "text", "entry"),
    [
        ("", "entailment=5,neutral", "entry 'neutral'"),
        ("", "neutral=7", "entry 'neutral=7'"),
        ("", "neutral=3.5", "entry 'neutral=3.5'"),
        ("", "=3", "entry '=3'"),
        ("", "a=5, A =4", "entry 'A=4': this label is a duplicate"),
        ("", "4=2", "entry '4=2': the numbers 1-5 keep"),
        ("", "", "entry ''"),
        ("", "missing.csv", "missing.csv: no such file"),
        ("a.csv", "good,5\nbad,five", "entry 'bad=five'"),
        ("b.csv", "good,5,x", "entry 'good="),
        ("c.yaml", "good: 5\ngood: 4", "entry 'good=4'"),
        ("d.json", '{"good": true}', "entry 'good=True'"),
        ("e.json", "[1]", "an object"),
        ("f.yaml", "a: [b", "not valid YAML"),
        ("g.csv", "label,level", "has no label"),
    ],
)
def test_a_bad_entry_of_a_label_map_is_named(text_file, file: str, text: str, entry: str) -> None:
    given = str(text_file(file, text)) if file else text
    with pytest.raises(InputError, match=re.escape(entry)) as caught:
        parse_label_map(given)
    assert not file or given in str(caught.value)
    assert "\n" not in str(caught.value)


def test_files_of_another_kind(tmp_path: Path, jsonl, workbook) -> None:
    for name in ("s.xls", "s.ods", "s", "s.txt"):
        message = refused(tmp_path / name)
        assert ".xlsx" in message
        assert "\n" not in message
    form = workbook(MK=[["ID", LEVELS.headings["answer"]], ["1", "A text"]])
    assert "a form of `medjudge annotate export`; import it first with `medjudge annotate import`" in refused(form)
    assert "sheet 'A', row 1: id; sheet 'B', row 2: x" in refused(workbook(A=[["id"]], B=[[], ["x"]], C=[]))
    (tmp_path / "old.xlsx").write_bytes(b"\xd0\xcf\x11\xe0 an old .xls, or one with a password")
    assert "not a readable .xlsx" in refused(tmp_path / "old.xlsx")
    (tmp_path / "utf16.csv").write_bytes(f"{HEAD}\n".encode("utf-16"))
    assert "byte 0 is 0xff" in refused(tmp_path / "utf16.csv")
    for name in ("none.xlsx", "none.csv"):
        assert "no such file" in refused(tmp_path / name)
    assert "is for tables" in refused(jsonl("s.jsonl"), ["dr_a"])
    assert "name each column once" in refused(tmp_path / "s.csv", ["a", "A "])
    assert "leave none blank" in refused(tmp_path / "s.csv", ["a", ""])
