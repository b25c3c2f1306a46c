"""Tables as spreadsheet programs and people leave them: what would change a text is refused, with its cell."""

import datetime
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest
from openpyxl import Workbook

from medjudge.annotate.scores import parse_label_map, read_physician_scores
from medjudge.annotate.tasks import LEVELS
from medjudge.benchmark.files import check_file
from medjudge.benchmark.own_files import read_own_answers, read_own_questions
from medjudge.errors import InputError
from medjudge.records import MTGDimensions, PhysicianScore
from medjudge.scheme import LLMEVAL_MED
from medjudge.store import read_records
from medjudge.tables.spreadsheets import artefact

QUESTIONS, ANSWERS = "id,category,prompt,reference", "question_id,model,text"
SCORES = "question_id,model,rater,score,comment"
DIMENSIONS = tuple(MTGDimensions.model_fields)
LONG = ["question_id", "model", "sample", "rater", "score"]
WIDE = "question_id;model;dr_a;dr_b"


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Writes lines in an encoding; else as Excel does, with a byte order mark."""

    def write(*lines: str, encoding: str = "utf-8-sig", name: str = "own.csv") -> Path:
        path = tmp_path / name
        path.write_bytes("".join(line + "\r\n" for line in lines).encode(encoding))
        return path

    return write


@pytest.fixture
def book(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows into a workbook, or a sheet for each keyword; a pair is a value and its number format."""

    def write(*rows: Sequence[Any], **sheets: Sequence[Sequence[Any]]) -> Path:
        workbook = Workbook()
        workbook.remove(workbook.active)
        for title, of_sheet in (sheets or {"Sheet": rows}).items():
            sheet = workbook.create_sheet(title)
            for number, row in enumerate(of_sheet, 1):
                for column, value in enumerate(row, 1):
                    value, code = value if isinstance(value, tuple) else (value, None)
                    cell = sheet.cell(number, column, value)
                    if code:
                        cell.number_format = code
        workbook.save(tmp_path / "own.xlsx")
        return tmp_path / "own.xlsx"

    return write


def questions(path: Path) -> list[Any]:
    return read_own_questions(path, LLMEVAL_MED)


def refused(read: Callable[..., Any], path: Path, *arguments: Any) -> str:
    with pytest.raises(InputError) as caught:
        read(path, *arguments)
    return str(caught.value)


refused_scores = partial(refused, read_physician_scores)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_a_row_of_more_cells_than_headings_is_refused_by_every_reader(table, separator: str) -> None:
    def written(heading: str, *rows: str) -> Path:
        return table(*(line.replace(",", separator) for line in (heading, *rows)))

    answers = written(ANSWERS, "q1,m,At most 4 g", "q2,m,At most 4 g, less in liver disease", "q3,m,No, never, ever")
    message = refused(read_own_answers, answers)
    assert message.startswith(f"{answers}: 2 problems; nothing was read")
    assert "row 3: 4 cells under 3 headings; quote texts that contain a separator" in message
    assert "row 3" in refused(check_file, answers)
    assert "row 2: 6 cells under 5" in refused(read_physician_scores, written(SCORES, "q1,m,dr,4,safe, but short"))


def test_a_text_without_a_heading_is_not_lost_but_row_numbers_and_notes_need_none(table, book) -> None:
    path = table("id,category,prompt,,reference", "q1,MK,Fever?,and rash?,See a doctor", "q2,MK,Dose?,,4 g")
    assert "row 2: 5 cells under 4 headings" in refused(questions, path)
    assert "row 2: 4 cells under 3 headings" in refused(read_own_answers, table(f"{ANSWERS},", "q1,m,No, never"))
    numbered = table(f",{ANSWERS}", "0,q1,m,4 g", "1,q2,m,5 g")  # as pandas writes it
    assert [answer.text for answer in read_own_answers(numbered)] == ["4 g", "5 g"]
    assert len(read_own_answers(table(ANSWERS, "q1,m,4 g,,", '"q2",m,"No, never"'))) == 2
    shifted = book(ANSWERS.split(","), ["q1", "m", "At most 4 g", "less in liver disease"])
    assert "row 2: 4 cells under 3 headings, D2 under none" in refused(read_own_answers, shifted)
    (answer,) = read_own_answers(book(ANSWERS.split(","), ["q1", "m", "4 g", None, "to be checked"]))
    assert answer.text == "4 g"


def test_a_line_break_without_quotes_cuts_no_text(table, question) -> None:
    headings, known = "question_id,prompt,model,text", [question(id="q1"), question(id="q2")]
    answers = table(headings, "q1,Dose?,m,At most 4 g", "less, in liver disease", "q2,Why?,,")
    message = refused(lambda path: read_own_answers(path, known), answers)
    assert 'row 3: "less" is no question of the benchmark, and model and text are blank; quote texts' in message
    answers = table(headings, "q1,Dose?,m,At most 4 g", "less in liver disease", "q2,Why?,,")
    assert "row 3: 1 cell under 4 headings; quote texts that contain a line break" in refused(check_file, answers)
    answers = table(headings, 'q1,Dose?,m,"At most 4 g', 'less in liver disease"', "q2,Why?,,")
    assert [answer.text for answer in read_own_answers(answers, known)] == ["At most 4 g\r\nless in liver disease"]


def test_a_shift_that_leaves_the_number_of_cells_right_is_named(table, capsys) -> None:
    questions(table(f"{QUESTIONS},checklist", "q1,MK,Fever, and rash?,See a doctor", "q2,MK,Dose?,4 g,Names it"))
    assert "own.csv, row 2: reference begins with a space; if it belongs to the text" in capsys.readouterr().err
    answers = table(f"{ANSWERS},finish_reason", "q1,m,At most 4 g, never more", "q2,m,4 g,stop")
    assert 'row 2: finish_reason is "never more", and one word such as stop' in refused(read_own_answers, answers)


@pytest.mark.parametrize(
    ("encoding", "byte"), [("cp1252", "byte 45 is 0xb5"), ("gb18030", ""), ("utf-16", "byte 0 is 0xff")]
)
def test_another_encoding_is_refused_and_never_guessed(table, encoding: str, byte: str) -> None:
    text = "10 µg" if encoding == "cp1252" else "每日一次"
    message = refused(questions, table(QUESTIONS, f"q1,MK,Dose?,{text}", encoding=encoding))
    assert f"own.csv: not UTF-8 ({byte}" in message
    assert "--encoding gb18030 for the plain CSV of Excel in China, cp1252 in Western Europe" in message


def test_an_encoding_is_named_on_the_command_line(medjudge, table) -> None:
    path = table(SCORES.replace(",", ";"), "q1;m;Dr. Müller;4;10 µg are enough", encoding="cp1252")
    done = medjudge("data", "check", path, "--encoding", "cp1252")
    assert (done.returncode, "raters: {'Dr. Müller': 1}" in done.stdout) == (0, True), done.stderr
    wrong = medjudge("data", "check", path, "--encoding", "utf-16")
    assert (wrong.returncode, "neither UTF-8 nor utf-16" in wrong.stderr) == (2, True)
    unknown = medjudge("data", "check", path, "--encoding", "rot13")
    assert (unknown.returncode, "--encoding rot13: is not known" in unknown.stderr) == (2, True)
    wide = table(ANSWERS.replace(",", "\t"), "q1\tm\t10 µg", encoding="utf-16", name="own.tsv")
    assert medjudge("data", "check", wide, "--encoding", "utf-16").returncode == 0


@pytest.mark.parametrize("again", ["reference", "Reference", " REFERENCE ", "Ｒeference", "参考答案"])
def test_two_columns_of_one_name_are_refused(table, book, again: str) -> None:
    path = table(f"{QUESTIONS},{again}", "q1,MK,Dose?,4 g,")
    assert f"reference in D1 and {again.strip()} in E1 are one column; rename or remove" in refused(questions, path)
    path = book([*QUESTIONS.split(","), again], ["q1", "MK", "Dose?", "4 g", "8 g"])
    assert "in D1 and " in refused(check_file, path)


def test_chinese_headings_are_understood_and_unknown_ones_answered_with_them(table, book) -> None:
    rows = ["题号,类别,问题,参考答案,打分要点", "q1,MK,一天多少？,4克,说明剂量"]
    (question,) = questions(table(*rows))
    assert (question.id, question.reference, question.checklist) == ("q1", "4克", "说明剂量")
    assert questions(table("问题编号,类别,问题,答案", "q1,MK,一天多少？,4克"))[0].reference == "4克"
    fields = ["问题编号", "模型", "回答（全文）"]
    (answer,) = read_own_answers(book(fields, ["q1", "m", "4克"]))
    assert (answer.question_id, answer.model, answer.text) == ("q1", "m", "4克")
    assert read_own_answers(table("编号,模型,答案", "q1,m,4克")) == [answer]
    (score,) = read_physician_scores(table("问题编号,模型,评分人,评分,备注", "q1,m,王医生,4,偏高"))
    assert (score.question_id, score.rater, score.score, score.comment) == ("q1", "王医生", 4, "偏高")
    dimensions = "指令遵循,正确性,有效性,可读性,安全性"
    (score,) = read_physician_scores(table(f"问题编号,模型,医生,{dimensions}", "q1,m,王医生,5,4,5,5,1"))
    assert score.dimensions is not None
    assert (score.dimensions.correctness, score.dimensions.safety) == (4, 1)
    (wide,) = read_physician_scores(table("问题编号,模型,评分", "q1,m,4"), ["评分"])  # a rater of this name
    assert (wide.rater, wide.score) == ("评分", 4)
    known = "问题编号 = question_id"
    assert known in refused(questions, table("题号,类别,我的问题", "q1,MK,一天多少？"))
    assert known in refused(read_physician_scores, table("问题号码,模型,评分人,评分", "q1,m,dr,4"))
    assert known not in refused(read_physician_scores, table("question_id,model,score", "q1,m,4"))


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (datetime.date(2024, 1, 2), "2024-01-02 00:00:00, which the spreadsheet program converted to a date"),
        (datetime.time(8, 30), "08:30:00"),
        ((0.3, "0%"), "the number 0.3, shown in the format 0%; format the column as text"),
        ((5, '0" mg"'), 'the number 5, shown in the format 0" mg"'),
        ((0.5, "# ?/?"), "the number 0.5, shown in the format # ?/?"),
        ((17, "0000"), "the number 17, shown in the format 0000"),
        (12345678901234567, "1.234567890123457e+16, a number of which"),
        ("#NAME?", "#NAME?"),
    ],
)
def test_dates_errors_and_percentages_are_refused_with_their_cells(book, value: Any, problem: str) -> None:
    headings = ["id", "category", "prompt", "reference", "seen"]
    path = book(
        headings, ["q1", "MK", "When?", value, "x"], ["q2", "MK", "When?", "4 g", value]
    )  # nothing reads "seen"
    assert f"own.xlsx, row 2: reference in D2 is {problem}" in refused(questions, path)


def test_formulas_and_ids_that_a_program_changed_are_refused_and_numbers_are_as_typed(book, table) -> None:
    message = refused(questions, book(QUESTIONS.split(","), ["q1", "MK", "=1+1", "x"], [True, "MK", "?", True]))
    assert "row 2: prompt in C2 holds a formula without a value" in message
    assert "row 3: id in A3 is True" in message
    read = questions(book(QUESTIONS.split(","), [17.0, "MK", "How much?", (4.0, "0.00_ ")], [18, "MK", "?", 0.5]))
    assert [(question.id, question.reference) for question in read] == [("17", "4"), ("18", "0.5")]
    assert "id in A2 is 1.23E+11" in refused(questions, table(QUESTIONS, "1.23E+11,MK,How many?,1.0E+05"))
    assert questions(table(QUESTIONS, "q1,MK,How many?,1.0E+05"))[0].reference == "1.0E+05"


@pytest.mark.parametrize(
    "text", ["#DIV/0!", "#N/A", "#WERT!", "#¿NOMBRE?", "#NV", "####", "Err:508", "2-Jan", "3月4日"]
)
def test_artefacts_in_a_csv_file_are_refused_in_every_table(table, text: str) -> None:
    assert f"row 2: text in C2 is {text}, which" in refused(read_own_answers, table(ANSWERS, f"q1,m,{text}"))
    for cells, cell in ((f"{text},m,dr,4,", "question_id in A2"), (f"q1,m,dr,4,{text}", "comment in E2")):
        assert f"{cell} is {text}, which" in refused(read_physician_scores, table(SCORES, cells))


@pytest.mark.parametrize("text", ["#1 is right!", "# Fever", "C#", "Number 2!", "2024-01-02", "1-2", "30%", "Jan", "#"])
def test_texts_that_people_write_are_no_artefacts(text: str) -> None:
    assert artefact(text) is None


def test_a_long_workbook_as_excel_stores_it(book, tmp_path: Path) -> None:
    path = book(
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


def test_dimensions_and_levels_on_several_sheets_with_the_veto(book) -> None:
    path = book(
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


def test_all_problems_come_at_once_with_sheet_and_row_and_are_cut_at_twenty(book) -> None:
    path = book(
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
            ["q9", "m", 0, "dr", (4, '0"分"')],
            ["q10", "m", 0, "dr", (1, "0%")],
        ],
        Old=[["question_id", "text"], ["q1", "x"]],
        Again=[LONG, [], ["q8", "m", None, "dr", 4], *[[f"n{n}", "m", 0, "dr", 6] for n in range(8)]],
    )
    summary, *lines = refused_scores(path, (), {}).split("\n")
    assert summary == f"{path}: 23 problems; nothing was read"
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
        r"sheet 'MK', row 10: score in E10 is the number 1, shown in the format 0%; a whole number from 1 to 5 .*",
        r"sheet 'Again', row 3: q8 / m / 0 / dr duplicates sheet 'MK', row 8; remove one of the two",
        *[rf"sheet 'Again', row {number}: score in E{number} is 6; .*" for number in range(4, 9)],
        r"and 3 more",
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


@pytest.mark.parametrize(
    ("lines", "raters", "messages"),
    [
        # Wide tables: problems name the file's own headings, and come once a row.
        (["question_id,model,dr_b", "q1,m,1"], ["dr_a", "dr_b"], ["no column dr_a; the columns are: question_id, "]),
        ([WIDE, "q;m;4;7"], ["dr_a", "dr_b"], ["own.csv, row 2: dr_b in D2 is 7; ", "; nothing was read"]),
        (["question_id,model,a,b", ",m,4,5", ",m,4,5"], ["a", "b"], [": 2 problems", "row 3: question_id in A3 is m"]),
        (
            ["question_id,model,a,b", "q1,m,4,4", "q1,m,4,9"],
            ["a", "b"],
            [": 2 problems", "row 3: q1 / m / 0 / a duplicates row 2", "row 3: b in D3 is 9"],
        ),
        # Rows are counted as a spreadsheet counts them; shifted cells and open quotes are no scores.
        ([SCORES, 'q1,m,dr,4,"two', 'lines"', "", "q2,m,dr,6,"], [], ["row 4: score in D4 is 6"]),
        ([SCORES, 'q1,m,dr,4,"open', "q2,m,dr,5,", "q3,m,dr,5,"], [], ["row 2: not valid CSV"]),
        # Columns that are missing or repeated, and tables without a score.
        (["question_id,model,score", "q,m,4"], [], ["no column rater; the columns are: q", "--rater-columns"]),
        (["id,model"], [], ["no column question_id; its columns are: row 1: id, model"]),
        (["question_id,model,rater,score,Score ", "q,m,d,4,5"], [], ["column score appears twice"]),
        (["question_id,model,rater,score,safety", "q,m,d,4,0"], [], ["no column instruction_following"]),
        ([",".join(LONG), "q1,m,0,dr,"], [], ["has no score; every score cell is blank"]),
        ([",".join(LONG)], [], ["has no score"]),
        ([], [], ["is empty"]),
    ],
)
def test_a_table_that_cannot_be_read_says_where(table, lines: list[str], raters: list[str], messages) -> None:
    told = refused_scores(table(*lines), raters)
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
    assert refused_scores(path).startswith(f"{path}, row 2: score in D2 is '{value}'")


def test_labels_are_mapped_and_numbers_keep_their_meaning(table) -> None:
    labels = parse_label_map("entailment=5, Neutral = 3,contradiction=1,0=1,4=4")
    path = table("question_id,model,a", "q1,m, ENTAILMENT ", "q2,m,neutral", "q3,m,4", "q4,m,0.0")
    assert [score.score for score in read_physician_scores(path, ["a"], labels)] == [5, 3, 4, 1]
    wrong = table("question_id,model,a", "q1,m,neutral", "q2,m,maybe")
    known = "the label map has only entailment, neutral, contradiction, 0, 4"
    assert f"row 3: a in C3 is 'maybe'; {known}" in refused_scores(wrong, ["a"], labels)


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


def test_json_lines_and_files_of_another_kind(tmp_path: Path, jsonl, book, sample_run: Path) -> None:
    path = sample_run / "physician_scores.jsonl"
    assert read_physician_scores(path) == read_records(path, PhysicianScore)
    bad = jsonl("s.jsonl", {"question_id": "q", "model": "m", "rater": "r", "score": "4"})
    assert f"{bad}, line 1: score" in refused_scores(bad)
    assert "--rater-columns is for tables" in refused_scores(bad, ["dr_a"])
    assert "--label-map is for tables" in refused_scores(bad, [], {"good": 5})
    for name in ("s.xls", "s.ods", "s", "s.txt"):
        assert "are read from .jsonl, .csv, .tsv and .xlsx" in refused_scores(tmp_path / name)
    form = book(MK=[["ID", LEVELS.headings["answer"]], ["1", "A text"]])
    assert "a form of `medjudge annotate export`; import it first with `medjudge annotate import`" in refused_scores(
        form
    )
    assert "sheet 'A', row 1: id; sheet 'B', row 2: x" in refused_scores(book(A=[["id"]], B=[[], ["x"]], C=[]))
    (tmp_path / "old.xlsx").write_bytes(b"\xd0\xcf\x11\xe0 an old .xls, or one with a password")
    assert "not a readable .xlsx" in refused_scores(tmp_path / "old.xlsx")
    for name in ("none.xlsx", "none.csv", "none.jsonl"):
        assert "no such file" in refused_scores(tmp_path / name)
    assert "name each column once, and leave none blank" in refused_scores(tmp_path / "s.csv", ["a", "A "])
    assert "name each column once, and leave none blank" in refused_scores(tmp_path / "s.csv", ["a", ""])
