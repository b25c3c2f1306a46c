"""Tables as spreadsheet programs and people leave them: what would change a text is refused, with its cell."""

import datetime
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from openpyxl import Workbook

from medjudge.annotate.scores import read_physician_scores
from medjudge.benchmark.files import check_file
from medjudge.benchmark.own_files import read_own_answers, read_own_questions
from medjudge.errors import InputError
from medjudge.scheme import LLMEVAL_MED
from medjudge.tables.spreadsheets import artefact

QUESTIONS, ANSWERS = "id,category,prompt,reference", "question_id,model,text"
SCORES = "question_id,model,rater,score,comment"


@pytest.fixture
def table(tmp_path: Path) -> Callable[..., Path]:
    """Writes lines in an encoding."""

    def write(*lines: str, encoding: str = "utf-8", name: str = "own.csv") -> Path:
        path = tmp_path / name
        path.write_bytes("".join(line + "\r\n" for line in lines).encode(encoding))
        return path

    return write


@pytest.fixture
def book(tmp_path: Path) -> Callable[..., Path]:
    """Writes rows into a workbook; a pair is a value and its number format."""

    def write(*rows: list[Any], name: str = "own.xlsx") -> Path:
        workbook = Workbook()
        for number, row in enumerate(rows, 1):
            for column, value in enumerate(row, 1):
                value, code = value if isinstance(value, tuple) else (value, None)
                cell = workbook.active.cell(number, column, value)
                if code:
                    cell.number_format = code
        workbook.save(tmp_path / name)
        return tmp_path / name

    return write


def questions(path: Path) -> list[Any]:
    return read_own_questions(path, LLMEVAL_MED)


def refused(read: Callable[[Path], Any], path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read(path)
    return str(caught.value)


# --- A separator without quotes --------------------------------------------------------------------------------------


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


def test_a_text_behind_a_blank_heading_is_not_lost_but_row_numbers_need_none(table) -> None:
    path = table("id,category,prompt,,reference", "q1,MK,Fever?,and rash?,See a doctor", "q2,MK,Dose?,,4 g")
    assert "row 2: 5 cells under 4 headings" in refused(questions, path)
    assert "row 2: 4 cells under 3 headings" in refused(read_own_answers, table(f"{ANSWERS},", "q1,m,No, never"))
    numbered = table(f",{ANSWERS}", "0,q1,m,4 g", "1,q2,m,5 g")  # as pandas writes it
    assert [answer.text for answer in read_own_answers(numbered)] == ["4 g", "5 g"]
    assert len(read_own_answers(table(ANSWERS, "q1,m,4 g,,", '"q2",m,"No, never"'))) == 2


def test_a_workbook_that_was_made_of_such_a_file_is_refused_and_a_note_beside_a_table_is_not(book) -> None:
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


# --- Encodings -------------------------------------------------------------------------------------------------------


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


# --- Headings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("again", ["reference", "Reference", " REFERENCE ", "Ｒeference", "参考答案"])
def test_two_columns_of_one_name_are_refused(table, book, again: str) -> None:
    path = table(f"{QUESTIONS},{again}", "q1,MK,Dose?,4 g,")
    assert f"reference in D1 and {again.strip()} in E1 are one column; rename or remove" in refused(questions, path)
    path = book([*QUESTIONS.split(","), again], ["q1", "MK", "Dose?", "4 g", "8 g"])
    assert "in D1 and " in refused(check_file, path)


def test_two_spellings_of_a_field_in_json_are_refused(jsonl) -> None:
    row = {"id": "q1", "category": "MK", "prompt": "Dose?", "reference": "4 g"}
    message = refused(questions, jsonl("q.jsonl", {**row, "Reference": "8 g"}))
    assert "line 1: field 'Reference' is reference a second time; remove one of the two" in message


def test_chinese_headings_are_understood(table, book) -> None:
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


def test_unknown_chinese_headings_are_answered_with_the_known_ones(table) -> None:
    known = "问题编号 = question_id"
    assert known in refused(questions, table("题号,类别,我的问题", "q1,MK,一天多少？"))
    assert known in refused(read_physician_scores, table("问题号码,模型,评分人,评分", "q1,m,dr,4"))
    assert known not in refused(read_physician_scores, table("question_id,model,score", "q1,m,4"))


# --- What spreadsheet programs make of texts -------------------------------------------------------------------------


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


def test_a_formula_without_a_value_and_an_id_that_is_true_are_refused(book) -> None:
    message = refused(questions, book(QUESTIONS.split(","), ["q1", "MK", "=1+1", "x"], [True, "MK", "?", True]))
    assert "row 2: prompt in C2 holds a formula without a value" in message
    assert "row 3: id in A3 is True" in message


def test_numbers_are_the_texts_that_were_typed(book) -> None:
    read = questions(book(QUESTIONS.split(","), [17.0, "MK", "How much?", (4.0, "0.00_ ")], [18, "MK", "?", 0.5]))
    assert [(question.id, question.reference) for question in read] == [("17", "4"), ("18", "0.5")]


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


def test_an_id_in_scientific_notation_is_refused_and_a_reference_is_not(table) -> None:
    assert "id in A2 is 1.23E+11" in refused(questions, table(QUESTIONS, "1.23E+11,MK,How many?,1.0E+05"))
    assert questions(table(QUESTIONS, "q1,MK,How many?,1.0E+05"))[0].reference == "1.0E+05"


def test_a_percentage_is_no_score(book) -> None:
    path = book(SCORES.split(","), ["q1", "m", "dr", (1, "0%"), None], ["q2", "m", "dr", (4, '0"分"'), "fine"])
    message = refused(read_physician_scores, path)
    assert "row 2: score in D2 is the number 1, shown in the format 0%; a whole number from 1 to 5" in message
    assert "row 3" not in message
